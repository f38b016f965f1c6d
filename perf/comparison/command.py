"""The command line of perf/compare."""

import argparse
import os
import pathlib
import signal
import sys

from comparison import build, chart, machine, markdown, report as reports, table
from comparison.peers import NAMES, Peers, tutti_launcher
from comparison.processes import ProgramError
from comparison.programs import BINARIES, BareLoop, MemorySpeed, Tutti
from comparison.session import Session

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SIZES = (8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20)
CROWDED_SIZES = (8, 64 << 10)  # more ranks than cores
QUICK_SIZES = (8, 4 << 10)
BARRIER_SIZES = (8,)
DESCRIPTION = """Compares Tutti's collectives on one host with those of Open MPI (tuned and coll/sm), MPICH and Gloo, with bare loops of
the same scheme, and with the physical limit of the machine.

Every program runs in turn, several times over, so that all see the same machine; a line ping-pong before and after each
says whether its two cores were near each other (a line crosses in < 120 ns) or far. All measure single calls on touched
buffers: rewrite the input, read the output, begin one call at the same moment, until the last has ended. Printed are medians
over the runs. What is missing is named, and left out."""
EPILOG = """examples:
  perf/compare                                         all_reduce, 2 ranks, everything that is there
  perf/compare --collective all --max-bytes 16M        all ten
  perf/compare --ranks 4                               more ranks than cores: 8 B and 64 KiB
  perf/compare --runs 1 --json a.json                  in pieces: run it again with b.json, then
  perf/compare --merge a.json b.json --svg chart.svg   one table and picture of both
  perf/compare --against ../before/build --peers none --no-bare   this tree and an older one, in turn"""


def size(text):
    units = {"K": 10, "M": 20, "G": 30}
    scale = units.get(text[-1:].upper(), 0)
    number = text[:-1] if scale else text
    if not number.isdigit() or int(number) == 0:
        raise argparse.ArgumentTypeError(f'"{text}" is no size; write 8, 64K, 16M')
    return int(number) << scale


def sizes(text):
    found = sorted({size(part) for part in text.split(",")})
    if any(one % 4 for one in found):
        raise argparse.ArgumentTypeError("floats are added up: sizes are multiples of 4")
    return found


def names_of(known, what):
    def parse(text):
        wanted = list(known) if text == "all" else [] if text == "none" else text.split(",")
        for name in wanted:
            if name not in known:
                raise argparse.ArgumentTypeError(f'"{name}" is no {what}; known: {", ".join(known)}')
        return wanted
    return parse


def positive(text):
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f'"{text}" is not 1 or more')
    return int(text)


def arguments(argv):
    parser = argparse.ArgumentParser(prog="perf/compare", description=DESCRIPTION, epilog=EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collective", type=names_of(BINARIES, "collective"), default=["all_reduce"], metavar="LIST",
                        help=f"all, or some of {', '.join(BINARIES)} (all_reduce)")
    parser.add_argument("--ranks", type=positive, default=2, help="(2)")
    parser.add_argument("--sizes", type=sizes, metavar="LIST", help="bytes, as 8,64K,16M (8 B to 64 MiB, ten sizes)")
    parser.add_argument("--min-bytes", type=size, default=1, help="leave out smaller sizes")
    parser.add_argument("--max-bytes", type=size, default=1 << 62, help="leave out larger sizes")
    parser.add_argument("--runs", type=positive, help="how often every program runs (3; with --merge 0)")
    parser.add_argument("--buffers", type=names_of(("private", "library", "registered"), "kind of buffers"),
                        metavar="LIST", default=["private", "library"],
                        help="of Tutti: some of private, library, registered (private,library)")
    parser.add_argument("--peers", type=names_of(NAMES, "peer"), default=list(NAMES), metavar="LIST",
                        help=f"none, or some of {', '.join(NAMES)} (all that are there)")
    parser.add_argument("--no-bare", action="store_true", help="leave out bare loops and the physical limit")
    parser.add_argument("--python", help="a Python that has torch, for Gloo (the one that runs this, else python3)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="the build folder (build)")
    parser.add_argument("--no-build", action="store_true", help="take the programs as they are")
    parser.add_argument("--against", type=pathlib.Path, metavar="BUILD",
                        help="measure the programs of another build folder, too, in turn with those of this one")
    parser.add_argument("--timeout", type=positive, default=120, metavar="SECONDS",
                        help="a program that takes longer is killed and reported (120)")
    parser.add_argument("--quick", action="store_true", help="one run of two sizes: shows that everything works")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write everything measured and computed")
    parser.add_argument("--svg", type=pathlib.Path, metavar="FILE", help="draw the first table")
    parser.add_argument("--markdown", type=pathlib.Path, metavar="FILE", help="write the tables for a document")
    parser.add_argument("--merge", type=pathlib.Path, nargs="+", default=[], metavar="FILE",
                        help="files of --json: put their runs together, with new ones when --runs is given")
    return parser.parse_args(argv)


def sizes_for(options, collective, cores):
    if collective == "barrier":
        return list(BARRIER_SIZES)
    chosen = options.sizes or (QUICK_SIZES if options.quick else CROWDED_SIZES if options.ranks > cores else SIZES)
    chosen = [one for one in chosen if options.min_bytes <= one <= options.max_bytes]
    if collective in ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"):
        chosen = [one for one in chosen if one >= 4 * options.ranks]
    return chosen


def plan(options, peers, cores):
    """[(collective, ranks, sizes, programs)]"""
    launcher = tutti_launcher(options.ranks, cores)
    entries = []
    for collective in options.collective:
        builds = [(options.build, "tutti")] + ([(options.against, "other")] if options.against else [])
        programs = [Tutti(build, launcher, collective, options.ranks, buffers, options.timeout, role)
                    for buffers in (options.buffers if collective != "barrier" else ["private"])
                    for build, role in builds]
        programs += peers.programs(collective, options.ranks, cores, options.timeout)
        if collective == "all_reduce" and options.ranks == 2 and not options.no_bare:
            if cores >= 2:
                programs += [BareLoop(options.build, buffers, options.timeout) for buffers in options.buffers
                             if buffers != "registered"]
                programs.append(MemorySpeed(options.build, options.timeout))
            else:
                print("bare loops and physical limit: left out, they need two processors", file=sys.stderr)
        chosen = sizes_for(options, collective, cores)
        if chosen:
            entries.append((collective, options.ranks, chosen, programs))
    return entries


def measure(options, report):
    """Runs everything. Returns whether what should work did."""
    cores = len(os.sched_getaffinity(0))
    for binary in [BINARIES[collective] for collective in options.collective] if options.against else []:
        if not (options.against / "perf" / binary).exists():
            raise ProgramError(f"--against {options.against}: there is no perf/{binary}: build it there first, or name "
                               "the build folder")
    build.prepare(ROOT, options.build, options.collective, not options.no_build)
    peers = Peers(ROOT, options.build, options.python, options.peers)
    for missing in peers.missing:
        print(missing, file=sys.stderr)
    report["problems"] += peers.missing
    report["peers"].update(peers.versions)
    session = Session(options.build, report)
    try:
        session.run(plan(options, peers, cores), 1 if options.quick else options.runs or 3)
    except KeyboardInterrupt:
        print("stopped: this is what was measured until now", file=sys.stderr)
    return not session.failed


def show(report):
    found = table.tables(report["runs"])
    print(machine.text(report["machine"]) + "".join(f"; {version}" for version in report["peers"].values()))
    for one in found:
        print("\n" + table.text(one))
    mixed = sum(run["regime"] == "mixed" for run in report["runs"])
    if mixed:
        print(f"\n{mixed} of {len(report['runs'])} measurements are left out: the cores were near before and far after, or "
              "the other way round")
    if report["problems"]:
        print("\nleft out, or in trouble:\n" + "\n".join("  " + text for text in dict.fromkeys(report["problems"])))
    return found


def stop(*_):
    raise KeyboardInterrupt


def main(argv=None):
    options = arguments(argv)
    signal.signal(signal.SIGTERM, stop)
    try:
        old = [reports.read(file) for file in options.merge]
        report = reports.merge(old) if old else reports.new(machine.describe())
        worked = True
        if not old or options.runs or options.quick:
            fresh = reports.new(machine.describe())
            worked = measure(options, fresh)
            report = reports.merge([report, fresh])
    except (ProgramError, reports.ReportError) as error:
        sys.exit(f"perf/compare: {error}")
    found = show(report)
    if options.json:
        reports.write(options.json, report, [one.as_json() for one in found])
    if not found:
        sys.exit("perf/compare: Tutti was measured in no regime; run it again, with more --runs")
    if options.markdown:
        options.markdown.write_text("\n".join(markdown.document(one) for one in found))
    if options.svg:
        first = found[0]
        title = f"{first.collective} of floats, {first.ranks} ranks on one host, {first.regime} cores"
        options.svg.write_text(chart.draw(first, title))
    return 0 if worked else 1
