"""The JSON file: what was measured, run by run. Files of several sessions can be put together."""

import json

from comparison import machine as machines
from comparison.programs import BINARIES

FORMAT = "tutti-compare"
VERSION = 1


class ReportError(Exception):
    pass


def new(machine):
    return {"format": FORMAT, "version": VERSION, "machine": machine, "peers": {}, "runs": [], "problems": []}


def read(file):
    try:
        report = json.loads(file.read_text())
    except OSError as error:
        raise ReportError(f"{file}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ReportError(f"{file}: no JSON: {error}") from None
    if not isinstance(report, dict) or report.get("format") != FORMAT:
        raise ReportError(f"{file}: no file of perf/compare --json")
    if report.get("version") != VERSION:
        raise ReportError(f"{file}: version {report.get('version')}, this perf/compare reads {VERSION}: measure again")
    try:
        for run in report["runs"]:
            run["rows"] = {int(size): entries for size, entries in run["rows"].items()}
            for key in ("program", "role", "buffers", "collective", "ranks", "regime", "line_ns"):
                run[key]  # pylint: disable=pointless-statement
            if run["collective"] not in BINARIES:
                raise ValueError(run["collective"])
        machines.text(report["machine"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ReportError(f"{file}: cut off or changed by hand: {error!r}") from None
    return report


def merge(reports):
    """One report with the runs of all."""
    merged = new(reports[0]["machine"])
    for report in reports:
        if not machines.same(report["machine"], merged["machine"]):
            raise ReportError("these are results of different machines: " + machines.text(merged["machine"]) + " and "
                              + machines.text(report["machine"]) + "; merge those of one machine")
        merged["peers"].update(report.get("peers", {}))
        merged["runs"] += report["runs"]
        merged["problems"] += report.get("problems", [])
    return merged


def write(file, report, tables):
    file.write_text(json.dumps({**report, "tables": tables}, indent=1) + "\n")
