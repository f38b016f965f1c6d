"""What is measured, and how its output is read.

Every program has a name, a role ("tutti", "other", "peer", "bare", "limit") and measure(sizes), which returns rows:
{bytes: [{"p05": us, "p50": us, "scheme": text}]}, with one entry where there is one way to do it.
"""

import json
import pathlib
import shutil
import tempfile

from comparison import limit
from comparison.processes import ProgramError, run, run_together, told

# Our name of a collective -> its binary.
BINARIES = {"all_reduce": "all_reduce_perf", "all_gather": "all_gather_perf", "reduce_scatter": "reduce_scatter_perf",
            "broadcast": "broadcast_perf", "reduce": "reduce_perf", "all_to_all": "alltoall_perf",
            "gather": "gather_perf", "scatter": "scatter_perf", "sendrecv": "sendrecv_perf", "barrier": "barrier_perf"}


class Unsupported(Exception):
    """A library does not have this collective."""


def parse_rows(text, sizes, command):
    """Reads "bytes p05 p50 [scheme]" lines, at least one for each size and none for others."""
    rows = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        if line.startswith("unsupported: "):
            raise Unsupported(line[len("unsupported: "):])
        fields = line.split(maxsplit=3)
        try:
            size, p05, p50 = int(fields[0]), float(fields[1]), float(fields[2])
        except (IndexError, ValueError):
            raise ProgramError(f'printed "{line}" where "bytes p05 p50" was expected: ' + told(command, text)) from None
        if size not in sizes or not 0 < p05 <= p50:
            raise ProgramError(f'printed "{line}", which cannot be: ' + told(command, text))
        rows.setdefault(size, []).append({"p05": p05, "p50": p50, "scheme": fields[3] if len(fields) > 3 else ""})
    missing = [size for size in sizes if size not in rows]
    if missing:
        raise ProgramError(f"printed nothing for {missing[0]} bytes: " + told(command, text))
    return rows


def geometric_ranges(sizes):
    """Cuts ascending sizes into runs (first, last, factor) of constant integer factor, as sweeps take them."""
    ranges = []
    at = 0
    while at < len(sizes):
        end, factor = at, 2
        if at + 1 < len(sizes) and sizes[at + 1] % sizes[at] == 0:
            factor = sizes[at + 1] // sizes[at]
            while end + 1 < len(sizes) and sizes[end + 1] == sizes[end] * factor:
                end += 1
        ranges.append((sizes[at], sizes[end], factor))
        at = end + 1
    return ranges


class Tutti:
    def __init__(self, build, launcher, collective, ranks, buffers, timeout_s, role="tutti"):
        """role "other": the same program of another build, which Tutti is held against."""
        self.role = role
        self.name = f"{role} {buffers}"
        self.buffers = buffers
        # A broadcast of MPI has one buffer; out of place Tutti's root copies its input to its output.
        self.mode = "in_place" if collective == "broadcast" else "out_of_place"
        program = [build / "perf" / BINARIES[collective]]
        self.command = (launcher + program if launcher else program + ["-t", ranks]) + [
            "-n", 12, "-w", 1, "--granule", 4, "--buffers", buffers]
        self.timeout_s = timeout_s

    def measure(self, sizes):
        rows = {}
        with tempfile.TemporaryDirectory() as folder:
            for number, (first, last, factor) in enumerate(geometric_ranges(sizes)):
                file = pathlib.Path(folder) / f"{number}.json"
                command = [str(part) for part in self.command + ["-b", first, "-e", last, "-f", factor, "-J", file]]
                text = run(command, self.timeout_s)
                wanted = [size for size in sizes if first <= size <= last]
                rows.update(self.read(file, wanted, command, text))
        return rows

    def read(self, file, wanted, command, text):
        try:
            results = [row[self.mode] for row in json.loads(file.read_text())["results"]]
            rows = [{"p05": row["time_p05"], "p50": row["time_p50"], "scheme": row["algorithm"]} for row in results]
            if len(rows) == len(wanted) and all(0 < row["p05"] <= row["p50"] for row in rows):
                return {size: [row] for size, row in zip(wanted, rows)}
        except (OSError, ValueError, KeyError, TypeError):
            pass
        raise ProgramError("left no results that make sense: " + told(command, text))


class MpiPeer:
    role = "peer"
    buffers = "private"

    def __init__(self, name, launcher, program, collective, timeout_s):
        self.name = name
        self.command = launcher + [program, collective]
        self.timeout_s = timeout_s

    def measure(self, sizes):
        command = [str(part) for part in self.command + sizes]
        return parse_rows(run(command, self.timeout_s), sizes, command)


class GlooPeer:
    role = "peer"
    buffers = "private"
    name = "gloo"

    def __init__(self, python, script, collective, ranks, timeout_s):
        self.python, self.script, self.collective, self.ranks = python, script, collective, ranks
        self.timeout_s = timeout_s

    def measure(self, sizes):
        folder = tempfile.mkdtemp(prefix="gloo-")
        try:
            commands = [[self.python, "-W", "ignore", self.script, folder, rank, self.ranks, self.collective] + sizes
                        for rank in range(self.ranks)]
            return parse_rows(run_together(commands, self.timeout_s), sizes, commands[0])
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class BareLoop:
    role = "bare"

    def __init__(self, build, buffers, timeout_s):
        self.name = f"bare {buffers}"
        self.buffers = buffers
        self.command = [build / "perf/bare_loop", buffers]
        self.timeout_s = timeout_s

    def measure(self, sizes):
        command = [str(part) for part in self.command + sizes]
        return parse_rows(run(command, self.timeout_s), sizes, command)


class MemorySpeed:
    """Its rows' schemes are kinds of access; the limit is computed from them."""
    role = "limit"
    name = "memory speed"
    buffers = ""

    def __init__(self, build, timeout_s):
        self.command = [build / "perf/memory_speed"]
        self.timeout_s = timeout_s

    def measure(self, sizes):
        sizes = limit.needed(sizes)
        command = [str(part) for part in self.command + sizes]
        return parse_rows(run(command, self.timeout_s), sizes, command)
