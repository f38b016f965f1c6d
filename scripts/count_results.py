#!/usr/bin/env python3
"""Counts test cases: GoogleTest's own results where a test executable left them, ctest's verdict elsewhere.

Usage: count_results.py BUILD_DIR, after a run of ctest with `--output-junit ctest.xml`. Prints why tests were skipped,
then what failed with the first lines of its complaint, then as its last line the three numbers: passed failed skipped.
"""

import collections
import pathlib
import sys
import xml.etree.ElementTree as ET

MOST_LINES = 12  # of a complaint


def first_line(text):
    """GoogleTest puts the place before the reason, on a line of its own."""
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].rsplit(":", 1)[-1].isdigit():
        lines = lines[1:]
    return lines[0] if lines else "no reason given"


def beginning(failures):
    """The complaints of one case."""
    lines = "\n".join(failure.text or failure.get("message") or "" for failure in failures).splitlines()
    lines = [line for line in lines if line.strip()]
    cut = ["…"] if len(lines) > MOST_LINES else []
    return "".join(f"\n      {line}" for line in lines[:MOST_LINES] + cut)


def count_cases(file, skips, failures):
    """Returns (passed, failed, skipped), or None when the file is not there or cut off (the test died)."""
    try:
        suites = ET.parse(file).getroot()
    except (OSError, ET.ParseError):
        return None
    passed = failed = skipped = 0
    for case in suites.iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        if case.get("result") == "suppressed":  # of another shard, or disabled
            continue
        if case.find("failure") is not None:
            failed += 1
            failures.append(name + beginning(case.findall("failure")))
        elif case.find("skipped") is not None:
            skipped += 1
            skips[first_line(case.find("skipped").get("message"))].append(name)
        else:
            passed += 1
    return passed, failed, skipped


def main():
    build = pathlib.Path(sys.argv[1])
    skips = collections.defaultdict(list)
    failures = []
    total = [0, 0, 0]
    for test in ET.parse(build / "ctest.xml").getroot().iter("testcase"):
        name, status = test.get("name"), test.get("status")
        cases = count_cases(build / "test-results" / f"{name}.xml", skips, failures)
        if cases is None:
            cases = (status == "run", status == "fail", status not in ("run", "fail"))
            if status == "fail":
                failures.append(f"{name} (left no count of its cases; its output is above)")
            elif status != "run":
                output = test.findtext("system-out") or ""
                reasons = [line for line in output.splitlines() if line.startswith("skipped: ")]
                skips[first_line(reasons[-1][len("skipped: "):] if reasons else None)].append(name)
        elif status == "fail" and cases[1] == 0:
            # All cases passed, yet the process failed: a sanitizer's report at exit, a leak, a crash in a destructor.
            cases = (cases[0], 1, cases[2])
            failures.append(f"{name} (its cases passed, the process did not end well)")
        total = [a + b for a, b in zip(total, cases)]
    for reason, names in sorted(skips.items()):
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        print(f"   skipped: {', '.join(names[:3])}{more}: {reason}")
    for name in failures:
        print(f"   FAILED: {name}")
    print(*total)


main()
