#!/usr/bin/env bash
# A buffer that cannot be sent, or written to, is refused by the compiler in one sentence that says why.
#
#   wrong_types.sh COMPILER
set -euo pipefail
compiler=$1
include=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../include" && pwd)

compile() { # STATEMENTS
  printf '%s\n' '#include <list>' '#include <string>' '#include <vector>' '#include "tutti/tutti.h"' \
    'using namespace tutti;' "void f(Communicator& world) { $1 }" |
    "$compiler" -std=c++20 -I"$include" -fsyntax-only -x c++ - 2>&1
}

# refused WHAT STATEMENTS: with a message that has WHAT in it.
refused() {
  local text
  if text=$(compile "$2"); then
    echo "this compiles: $2"
    exit 1
  fi
  if ! grep -q "$1" <<<"$text"; then
    echo "no \"$1\" for: $2"
    echo "$text"
    exit 1
  fi
}

accepted() {
  local text
  text=$(compile "$1") && return
  echo "this does not compile: $1"
  echo "$text"
  exit 1
}

accepted 'std::vector<float> in(4), out(4); world.all_reduce(in, out); world.all_reduce(out);'
accepted 'char c[4]; world.all_reduce(c); long long l[2]; world.all_reduce(l); bool b[2]; world.all_reduce(b, kMax);'
accepted 'std::vector<std::byte> bytes(4); world.broadcast(bytes, 0);'
refused 'elements of this type cannot be sent' 'std::vector<std::string> v(4); world.broadcast(v, 0);'
refused 'elements of this type cannot be sent' 'int* v[4]; world.all_reduce(v);'
refused 'both buffers must have elements of the same type' \
  'std::vector<float> in(4); std::vector<double> out(4); world.all_reduce(in, out);'
refused 'the output must not be const' 'const std::vector<float> v(4); std::vector<float> in(4); world.all_reduce(in, v);'
refused '' 'std::list<float> v(4); world.broadcast(v, 0);'
