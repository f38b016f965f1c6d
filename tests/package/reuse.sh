#!/usr/bin/env bash
# A compiler launcher for a second build of the same sources with the same flags: reuse.sh COMPILER ARGUMENTS… takes an
# object and its list of headers from the build folder OBJECTS_OF where they lie there, and compiles otherwise.
set -euo pipefail
arguments=("$@")
object="" headers=""
for ((i = 0; i + 1 < $#; i++)); do
  case ${arguments[i]} in
    -o) object=${arguments[i + 1]} ;;
    -MF) headers=${arguments[i + 1]} ;;
  esac
done
if [ -n "$headers" ] && [ -f "$OBJECTS_OF/$object" ]; then
  cp "$OBJECTS_OF/$object" "$object"
  printf '%s:\n' "$object" >"$headers"
  exit
fi
exec "$@"
