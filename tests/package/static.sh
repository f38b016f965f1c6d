#!/usr/bin/env bash
# Builds and installs the static library and uses it from there as strangers do: static.sh BUILD_DIR CXX_COMPILER. The
# objects come from BUILD_DIR, which has the same ones in its shared library.
set -euo pipefail
build=$1
compiler=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

fail() {
  echo "FAILED: $*"
  exit 1
}
# quietly WORDS COMMAND…: shows what the command printed where it fails.
quietly() {
  local words=$1
  shift
  "$@" >"$work/log" 2>&1 || fail "$words: $(cat "$work/log")"
}

type=$(sed -n 's/^CMAKE_BUILD_TYPE:[A-Z]*=//p' "$build/CMakeCache.txt")
quietly "configuring" cmake -S "$here/../.." -B "$work/build" -G Ninja -DBUILD_SHARED_LIBS=OFF -DCMAKE_BUILD_TYPE="$type" \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_COMPILER_LAUNCHER="$here/reuse.sh" \
  -DTUTTI_BUILD_TESTS=OFF -DTUTTI_BUILD_PERF=OFF -DTUTTI_BUILD_TOOLS=OFF
OBJECTS_OF=$build quietly "building" cmake --build "$work/build"
quietly "installing" cmake --install "$work/build" --prefix "$work/first"
mv "$work/first" "$prefix" # nothing may depend on where it was installed at first
[ -n "$(find "$prefix" -name libtutti.a)" ] || fail "no libtutti.a was installed"
[ -z "$(find "$prefix" -name 'libtutti.so*')" ] || fail "a shared library was installed, too"

# alone PROGRAM: it runs, and needs no libtutti.so.
alone() {
  if readelf -d "$1" | grep -q 'NEEDED.*libtutti'; then fail "$1 needs a shared libtutti"; fi
  "$1" || fail "$1 ends with $?"
}

echo "find_package"
quietly "find_package" cmake -S "$here/consumer" -B "$work/consumer" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_CXX_COMPILER="$compiler"
quietly "the consumer does not build" cmake --build "$work/consumer"
alone "$work/consumer/consumer"

pc=$(find "$prefix" -name tutti.pc)
export PKG_CONFIG_PATH=${pc%/*}
grep -q '^Libs.private: .*-lhwloc' "$pc" || fail "Libs.private does not say what the static library needs: $(cat "$pc")"
for how in "" --static; do
  echo "pkg-config $how"
  # shellcheck disable=SC2086 # no argument where it is empty
  read -ra flags <<<"$(pkg-config --cflags --libs $how tutti)"
  quietly "pkg-config $how" "$compiler" -std=c++20 "$here/consumer/main.cc" "${flags[@]}" -o "$work/by-hand"
  alone "$work/by-hand"
done

echo "inside another project"
mkdir "$work/parent"
cat >"$work/parent/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(parent LANGUAGES CXX)
set(BUILD_SHARED_LIBS OFF)
add_subdirectory($here/../.. tutti)
add_executable(program $here/consumer/main.cc)
target_link_libraries(program PRIVATE tutti::tutti)
END
quietly "configuring inside another project" cmake -S "$work/parent" -B "$work/parent/build" -G Ninja \
  -DCMAKE_BUILD_TYPE="$type" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_COMPILER_LAUNCHER="$here/reuse.sh"
# There the objects lie one folder deeper.
mkdir "$work/objects"
ln -s "$build" "$work/objects/tutti"
OBJECTS_OF=$work/objects quietly "building inside another project" cmake --build "$work/parent/build" --target program
alone "$work/parent/build/program"
