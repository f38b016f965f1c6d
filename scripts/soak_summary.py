#!/usr/bin/env python3
"""One line about the trials of tests/process/soak_test.cc: how many of each kind, when the slowest survivor of a trial
was told (median, 99th percentile and maximum in ms, by fault and transport; -: nobody had to be told), and the seeds of
those that failed.

Usage: soak_summary.py DIR, which has the files that the test left. Prints nothing when there are none.
"""

import collections
import pathlib
import sys


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main():
    trials = []
    for file in sorted(pathlib.Path(sys.argv[1]).glob("trials-*.tsv")):
        for line in file.read_text().splitlines():
            trials.append(line.split("\t", 5))
    if not trials:
        return
    faults = collections.Counter(trial[1] for trial in trials)
    moments = collections.Counter(trial[3] for trial in trials)
    told = collections.defaultdict(list)
    for _, fault, way, moment, told_ms, _ in trials:
        if int(told_ms) < 0:
            continue
        # Who never came is missed when the time to meet is over.
        told[(fault if moment not in ("meeting", "connecting") else "while meeting", way)].append(int(told_ms))
    failed = [trial[0] for trial in trials if trial[5]]
    parts = [
        f"{len(trials)} trials: " + ", ".join(f"{n} {fault}" for fault, n in faults.most_common()),
        "moments: " + ", ".join(f"{n} {moment}" for moment, n in moments.most_common()),
        "told after ms (median/p99/max): "
        + ", ".join(
            f"{fault} {way} {quantile(ms, 0.5)}/{quantile(ms, 0.99)}/{max(ms)}" for (fault, way), ms in sorted(told.items())
        ),
        "none failed" if not failed else f"{len(failed)} FAILED: TUTTI_TEST_TRIAL=" + " ".join(failed),
    ]
    print("soak: " + "; ".join(parts))


if __name__ == "__main__":
    main()
