"""Which other libraries are on this machine, ready to run; for those that are not, what to install."""

import shutil
import sys

from comparison.processes import ProgramError, run
from comparison.programs import GlooPeer, MpiPeer

NAMES = ("open mpi tuned", "open mpi sm", "mpich", "gloo")


def identify(launcher):
    """("openmpi" or "mpich", version), or None when it is neither."""
    try:
        text = run([launcher, "--version"], 20)
    except ProgramError:
        return None
    first = text.strip().splitlines()[0] if text.strip() else ""
    if "open mpi" in text.lower() or "openrte" in text.lower():
        return "openmpi", "Open MPI " + first.split()[-1]
    if "hydra" in text.lower() or "mpich" in text.lower():
        versions = [line.split(":", 1)[1].strip() for line in text.splitlines() if line.strip().startswith("Version:")]
        return "mpich", "MPICH " + (versions[0] if versions else "")
    return None


def find_mpi(flavour):
    """(compiler, launcher, version) of one MPI, or None. Debian names both after the flavour; others do not."""
    for suffix in (f".{flavour}", ""):
        compiler, launcher = shutil.which("mpicxx" + suffix), shutil.which("mpirun" + suffix)
        if not compiler or not launcher:
            continue
        found = identify(launcher)
        if found and found[0] == flavour:
            return compiler, launcher, found[1]
    return None


def launch(flavour, launcher, ranks, cores):
    """The start of a command that runs `ranks` ranks, each on a core of its own while there are enough."""
    bind = "core" if ranks <= cores else "none"
    option = "--bind-to" if flavour == "openmpi" else "-bind-to"
    return [launcher, "-n", ranks, option, bind]


def find_torch(python):
    """(python, version of torch with Gloo), or None."""
    check = ("import torch, torch.distributed as d; assert d.is_available() and d.is_gloo_available(); "
             "print(torch.__version__)")
    for candidate in [python] if python else [sys.executable, shutil.which("python3")]:
        if candidate is None:
            continue
        try:
            return candidate, "Gloo of PyTorch " + run([candidate, "-c", check], 120).strip()
        except ProgramError:
            continue
    return None


def build_mpi_program(compiler, flavour, root, folder):
    source = root / "perf/peers/mpi_collectives.cc"
    program = folder / f"mpi_collectives_{flavour}"
    newest = max(file.stat().st_mtime for file in (source, source.parent / "iterations.h"))
    if not program.exists() or program.stat().st_mtime < newest:
        folder.mkdir(parents=True, exist_ok=True)
        run([compiler, "-O3", "-std=c++17", f"-I{root}", "-o", program, source], 120)
    return program


class Peers:
    """What was found: launchers, programs, versions; and why the rest is missing."""

    def __init__(self, root, build, python, wanted):
        self.root, self.missing, self.versions = root, [], {}
        self.mpi = {}
        for flavour, names, packages in (("openmpi", NAMES[:2], "openmpi-bin and libopenmpi-dev"),
                                         ("mpich", NAMES[2:3], "mpich and libmpich-dev")):
            if not set(names) & set(wanted):
                continue
            found = find_mpi(flavour)
            if not found:
                self.missing.append(f"{' and '.join(names)}: not found; apt-get install {packages.replace(' and', '')}")
                continue
            try:
                program = build_mpi_program(found[0], flavour, root, build / "peers")
            except ProgramError as error:
                self.missing.append(f"{' and '.join(names)}: its program does not build: {error}")
                continue
            self.mpi[flavour] = (found[1], program)
            self.versions[flavour] = found[2]
        self.torch = None
        if "gloo" in wanted:
            found = find_torch(python)
            if found:
                self.torch, self.versions["gloo"] = found
            else:
                self.missing.append("gloo: no Python with torch; pip install torch, or name a Python that has it "
                                    "with --python")
        self.wanted = wanted

    def programs(self, collective, ranks, cores, timeout_s):
        found = []
        for name, flavour, extra in ((NAMES[0], "openmpi", []), (NAMES[1], "openmpi", ["--mca", "coll_sm_priority", 100]),
                                     (NAMES[2], "mpich", [])):
            if name in self.wanted and flavour in self.mpi:
                launcher, program = self.mpi[flavour]
                command = launch(flavour, launcher, ranks, cores) + extra
                found.append(MpiPeer(name, command, program, collective, timeout_s))
        if self.torch:
            found.append(GlooPeer(self.torch, self.root / "perf/peers/gloo_collectives.py", collective, ranks, timeout_s))
        return found


def tutti_launcher(ranks, cores):
    """How Tutti's ranks are started: by whichever mpirun there is, or not at all (an empty list: as threads)."""
    for flavour in ("openmpi", "mpich"):
        for name in (f"mpirun.{flavour}", "mpirun"):
            launcher = shutil.which(name)
            found = identify(launcher) if launcher else None
            if found and found[0] == flavour:
                return launch(flavour, launcher, ranks, cores)
    return []
