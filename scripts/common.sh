# Sourced by the scripts beside it. Leaves the working directory at the project's root.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1

say() { printf '== %s\n' "$*"; }
die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# How many compilers or tests to run at once.
jobs=$(nproc)

# mpirun refuses to run as root, and with fewer cores than ranks, unless told (Open MPI 4 and 5 listen to other names).
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe

# configure DIR [cmake option…]: shows cmake's output only when it fails.
configure() {
  local dir=$1 log
  shift
  mkdir -p "$dir"
  log=$dir/configure.log
  cmake -S "$root" -B "$dir" -G Ninja "$@" >"$log" 2>&1 || {
    cat "$log"
    return 1
  }
}

# build DIR [target…]: one line of progress on a terminal, otherwise only what failed.
build() {
  local dir=$1 log
  shift
  log=$dir/build.log
  if [ -t 1 ]; then
    ninja -C "$dir" -j "$jobs" "$@"
  else
    ninja -C "$dir" -j "$jobs" "$@" >"$log" 2>&1 || {
      grep -v '^\[[0-9]*/[0-9]*\] [BL]' "$log" | head -n 200
      return 1
    }
  fi
}
