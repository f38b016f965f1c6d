"""Runs everything in turn, so that all see the same machine."""

import sys

from comparison.processes import ProgramError, ProgramHung, run
from comparison.programs import Unsupported

NEAR_NS = 120  # a line that takes less comes from a core of the same group


def classify(before_ns, after_ns):
    """The regime of a measurement between two ping-pongs."""
    if max(before_ns, after_ns) < NEAR_NS:
        return "near"
    return "far" if min(before_ns, after_ns) >= NEAR_NS else "mixed"


def line_ns(build):
    command = [build / "perf/line_pingpong"]
    text = run(command, 60)
    try:
        return float(text)
    except ValueError:
        raise ProgramError(f'line_pingpong printed "{text.strip()}", no number') from None


class Session:
    """Adds what it measures to a report. A program that hung, or that cannot do a collective, is not started again."""

    def __init__(self, build, report):
        self.build, self.report = build, report
        self.failed = False  # something that should work did not
        self.given_up = set()

    def problem(self, program, collective, text):
        message = f"{program.name}, {collective}: {text}"
        self.report["problems"].append(message)
        print(message, file=sys.stderr)

    def measure(self, program, collective, ranks, sizes):
        if (program.name, collective) in self.given_up:
            return
        try:
            before = line_ns(self.build)
            rows = program.measure(sizes)
            after = line_ns(self.build)
        except Unsupported as reason:
            self.given_up.add((program.name, collective))
            self.problem(program, collective, f"left out, it does not have it: {reason}")
            return
        except ProgramHung as error:
            self.given_up.add((program.name, collective))
            self.failed = self.failed or program.role != "peer"
            self.problem(program, collective, str(error))
            return
        except ProgramError as error:
            self.failed = True
            self.problem(program, collective, str(error))
            return
        regime = classify(before, after)
        self.report["runs"].append({"program": program.name, "role": program.role, "buffers": program.buffers,
                                    "collective": collective, "ranks": ranks, "regime": regime,
                                    "line_ns": [before, after], "rows": rows})
        print(f"{collective}, {program.name}: {regime}, a line crosses in {before:.0f} and {after:.0f} ns",
              file=sys.stderr)

    def run(self, plan, turns):
        """plan: [(collective, ranks, sizes, programs)]"""
        for _ in range(turns):
            for collective, ranks, sizes, programs in plan:
                for program in programs:
                    self.measure(program, collective, ranks, sizes)
