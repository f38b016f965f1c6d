#!/usr/bin/env bash
# Every public header says in one line what a compiler lacks, instead of the errors that follow from it.
#
#   requirements.sh COMPILER
set -euo pipefail
compiler=$1
include=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../include" && pwd)

# expect WHAT FLAG…: each header, included first, ends the compilation with one #error line with WHAT.
expect() {
  local what=$1 header text
  shift
  for header in "$include"/tutti/*.h; do
    if text=$(echo "#include \"$header\"" | "$compiler" "$@" -I"$include" -fsyntax-only -x c++ - 2>&1); then
      echo "$header compiles with $*"
      exit 1
    fi
    if [ "$(grep -c '#error' <<<"$text")" -gt 2 ] || [ "$(wc -l <<<"$text")" -gt 15 ] || ! grep -q "$what" <<<"$text"; then
      echo "$header with $*:"
      echo "$text"
      exit 1
    fi
  done
}

expect 'tutti needs C++20: compile with -std=c++20' -std=c++17
expect 'compile without -fno-exceptions' -std=c++20 -fno-exceptions
