#!/usr/bin/env bash
# Runs the shell commands of the README, in order, as they stand there: readme.sh BUILD_DIR. The build in BUILD_DIR
# stands for the one that the README makes.
set -euo pipefail
build=$1
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "FAILED: $*"
  exit 1
}
# blocks LANGUAGE [N]: all pieces of that language in the README, or the Nth.
blocks() {
  awk -v start="^\`\`\`$1\$" -v wanted="${2:-0}" \
    '$0 ~ start { inside = 1; found++; next } /^```/ { inside = 0 } inside && (!wanted || found == wanted)' "$source/README.md"
}

# A folder that looks like the project, without its files being written to.
mkdir "$work/project" "$work/home"
ln -s "$source"/* "$work/project/"
rm -f "$work/project/build"
ln -s "$build" "$work/project/build"
cd "$work/project"
blocks cpp 1 >program.cc

# Commands that are left out: the build itself, everything that runs this test, and measurements of minutes and hours.
# Those must be there.
left_out='^(scripts/demo|scripts/test|perf/compare|build/benchmarks/[a-z_]+|build/tools/tutti tune)( |$)'
echo 'set -euo pipefail' >"$work/commands"
while IFS= read -r line; do
  if [[ $line =~ $left_out ]]; then
    program=${line%% *}
    case $program in
      build/benchmarks/*) grep -rqw "${program##*/}" benchmarks/CMakeLists.txt || fail "there is no $program" ;;
      build/*) ;; # the commands that are run use it, too
      *) [ -x "$program" ] || fail "there is no $program" ;;
    esac
    echo "left out: $line"
    continue
  fi
  line=${line/#"cmake -S . -B build -G Ninja && cmake --build build && "/}
  printf 'echo %q\n%s\n' "+ $line" "$line" >>"$work/commands"
done < <(blocks sh)

# Nothing that this test was started with helps: no variables of mpirun or of the scripts.
env -i HOME="$work/home" PATH="$PATH" bash "$work/commands" >"$work/log" 2>&1 </dev/null ||
  fail "a command of the README ends with $?: $(cat "$work/log")"
grep '^+' "$work/log"
[ "$(env -i ./program)" = "0 from 1 ranks" ] || fail "the program that was linked does not print its sum"

echo "find_package"
mkdir "$work/consumer"
cp program.cc "$work/consumer"
{
  echo 'cmake_minimum_required(VERSION 3.25)'
  echo 'project(consumer LANGUAGES CXX)'
  echo 'add_executable(program program.cc)'
  blocks cmake
} >"$work/consumer/CMakeLists.txt"
{
  cmake -S "$work/consumer" -B "$work/consumer/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/home/tutti" &&
    cmake --build "$work/consumer/build" && "$work/consumer/build/program"
} >"$work/log" 2>&1 || fail "find_package as in the README: $(cat "$work/log")"
