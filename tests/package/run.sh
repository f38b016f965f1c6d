#!/usr/bin/env bash
# Installs a build to a new place and uses it from there as strangers do: run.sh BUILD_DIR CXX_COMPILER
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

cmake --install "$build" --prefix "$work/first" >"$work/install.log" || fail "cmake --install: $(cat "$work/install.log")"
# Nothing may depend on where it was installed at first.
mv "$work/first" "$prefix"

library=$(find "$prefix" -name libtutti.so)
[ -n "$library" ] || fail "no libtutti.so was installed"
readelf -d "$library" | grep -q 'SONAME.*\[libtutti\.so\.0\]' || fail "the soname is not libtutti.so.0"
strangers=$(nm -DC --defined-only "$library" | awk '$2 != "A"' | grep -vE ' (typeinfo (name )?for |vtable for )?tutti::' || true)
[ -z "$strangers" ] || fail "exported, but not the library's own: $strangers"
if readelf -d "$library" | grep -q 'NEEDED.*libmpi'; then fail "the library links MPI"; fi
[ -f "$prefix/share/doc/tutti/LICENSE" ] || fail "no LICENSE was installed"

echo "find_package"
cmake -S "$here/consumer" -B "$work/consumer" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$compiler" \
  >"$work/configure.log" 2>&1 || fail "find_package: $(cat "$work/configure.log")"
cmake --build "$work/consumer" >"$work/build.log" 2>&1 || fail "the consumer does not build: $(cat "$work/build.log")"
"$work/consumer/consumer"

echo "pkg-config"
pc=$(find "$prefix" -name tutti.pc)
export PKG_CONFIG_PATH=${pc%/*}
read -ra flags <<<"$(pkg-config --cflags --libs tutti)"
"$compiler" -std=c++20 "$here/consumer/main.cc" "${flags[@]}" -pthread -Wl,-rpath,"${library%/*}" -o "$work/by-hand"
"$work/by-hand"

echo "the program in the README"
# block N: the Nth piece of C++ in the README.
block() {
  awk -v wanted="$1" '/^```cpp/ { inside = 1; found++; next } /^```/ { inside = 0 } inside && found == wanted' \
    "$here/../../README.md"
}
block 1 >"$work/readme.cc"
"$compiler" -std=c++20 "$work/readme.cc" "${flags[@]}" -Wl,-rpath,"${library%/*}" -o "$work/readme"
if command -v mpirun >/dev/null; then
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    mpirun -n 2 "$work/readme" | tee "$work/readme.log"
  grep -q '^1 from 2 ranks$' "$work/readme.log" || fail "the program in the README does not print what it should"
fi
{
  echo '#include <tutti/tutti.h>'
  echo 'struct Tensor { void* data_ptr() const; std::size_t nbytes() const; };'
  echo 'void use(tutti::Communicator& communicator, std::size_t bytes, std::size_t count, const Tensor& tensor) {'
  block 2
  echo '}'
} >"$work/memory.cc"
"$compiler" -std=c++20 -fsyntax-only "$work/memory.cc" "${flags[@]}"

# What was built beside the library is installed and runs there.
if [ -x "$build/tools/tutti" ]; then "$prefix/bin/tutti" topo >/dev/null || fail "the installed tutti command"; fi
for binary in "$build"/perf/*_perf; do
  [ -x "$binary" ] || continue
  installed=$prefix/libexec/tutti/${binary##*/}
  [ -x "$installed" ] || fail "${binary##*/} was not installed under libexec/tutti"
  "$installed" -t 2 -b 1024 -e 1024 -n 1 -w 1 >"$work/perf.log" 2>&1 || fail "$installed: $(cat "$work/perf.log")"
done
