#!/usr/bin/env python3
"""Runs perf/compare as a user does, with whatever other libraries are on this machine.

    compare_test.py BUILD_FOLDER      exit code 77, and the reason, where there is no MPI library to compare with
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SKIPPED = 77


def compare(*words):
    command = [sys.executable, ROOT / "perf/compare", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)


def expect(condition, what, run):
    if not condition:
        sys.exit(f"{what}\n{run.stdout}\n{run.stderr}")


def main():
    if not any(shutil.which(name) for name in ("mpicxx", "mpicxx.openmpi", "mpicxx.mpich")):
        print("skipped: no MPI library to compare with; apt-get install openmpi-bin libopenmpi-dev")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        file, picture = pathlib.Path(folder) / "one.json", pathlib.Path(folder) / "one.svg"
        # Whichever is not there is named and left out.
        run = compare("--quick", "--no-build", "--build", sys.argv[1], "--collective", "all_reduce,barrier", "--json", file)
        report = json.loads(file.read_text()) if file.exists() else {"runs": []}
        measured = {(one["program"], one["collective"]) for one in report["runs"]}
        if run.returncode != 0 and "in no regime" in run.stderr and measured:
            print("skipped: the cores changed their distance during every measurement of Tutti")
            sys.exit(SKIPPED)
        expect(run.returncode == 0, f"ended with {run.returncode}", run)
        for program in ("tutti private", "tutti library"):
            expect((program, "all_reduce") in measured, f"{program} was not measured", run)
        expect(("tutti private", "barrier") in measured, "no barrier was measured", run)
        expect({"open mpi tuned", "mpich"} & {name for name, _ in measured}, "no peer was measured", run)
        expect("geometric means" in run.stdout, "no table", run)

        missing = compare("--quick", "--no-build", "--build", sys.argv[1], "--against", folder)
        expect(missing.returncode != 0 and "there is no perf/all_reduce_perf" in missing.stderr,
               "another build without programs was taken", missing)

        again = compare("--merge", file, file, "--svg", picture)
        expect(again.returncode == 0, "merging failed", again)
        ET.parse(picture)
    print("passed")


main()
