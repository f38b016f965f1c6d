"""Builds what is compared."""

import shutil
import sys

from comparison.processes import ProgramError, run
from comparison.programs import BINARIES

TOOLS = ("line_pingpong", "bare_loop", "memory_speed")
TIMEOUT_S = 3600


def targets(collectives):
    return list(TOOLS) + [BINARIES[name] for name in collectives]


def prepare(root, build, collectives, may_build):
    """Leaves the programs in build/perf, built from the sources as they are, or raises ProgramError."""
    wanted = targets(collectives)
    if may_build and shutil.which("cmake"):
        if not (build / "CMakeCache.txt").exists():
            generator = ["-G", "Ninja"] if shutil.which("ninja") else []
            print(f"configuring {build}", file=sys.stderr)
            run(["cmake", "-S", root, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DTUTTI_BUILD_PERF=ON"] + generator,
                TIMEOUT_S)
        print(f"building {' '.join(wanted)} in {build}", file=sys.stderr)
        run(["cmake", "--build", build, "--parallel", "--target"] + wanted, TIMEOUT_S)
    missing = [name for name in wanted if not (build / "perf" / name).exists()]
    if missing:
        raise ProgramError(f"there is no {missing[0]} in {build}/perf: run scripts/demo first, which installs what is "
                           "needed and builds, or name a build folder with --build")
