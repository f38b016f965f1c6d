#!/usr/bin/env python3
"""Checks who includes whom: the arrows of docs/design.md. Prints every include that has no arrow.

An include is attributed to a directory of src/ by its path ("base/log.h"); "tutti/…" are the public headers, which
everybody may use and which use only each other. Names without a directory, and angle brackets, are not ours.
"""

import pathlib
import re
import sys

EVERYTHING = {"base", "bootstrap", "topology", "reduce", "transport", "schedule", "collectives", "executor"}
# Directory -> those it may include, beside itself. The communicator is the composition root: it knows everybody.
ARROWS = {
    "include/tutti": set(),
    "src/base": set(),
    "src/bootstrap": {"base"},
    "src/topology": {"base"},
    "src/reduce": {"base"},
    "src/transport": {"base"},
    "src/schedule": {"base"},
    "src/collectives": {"base", "schedule", "topology"},
    "src/executor": {"base", "schedule", "transport", "reduce"},
    "src/communicator": EVERYTHING,
    "src": EVERYTHING | {"communicator"},
}
OTHER_PEOPLES = {"hwy"}  # included in quotation marks, as that library wants it
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    files = [f for top in ("include", "src") for f in (root / top).rglob("*") if f.suffix in (".h", ".cc")]
    bad = 0
    for file in sorted(files):
        path = file.relative_to(root)
        directory = "/".join(path.parts[:2]) if len(path.parts) > 2 else path.parts[0]
        allowed = ARROWS.get(directory)
        if allowed is None:
            print(f"{path}: {directory} has no row in {pathlib.Path(__file__).name}")
            bad += 1
            continue
        own = path.parts[1]
        for number, line in enumerate(file.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            target = match.group(1).split("/")[0] if match and "/" in match.group(1) else None
            if target is None or target in ("tutti", own) or target in allowed | OTHER_PEOPLES:
                continue
            print(f"{path}:{number}: includes {match.group(1)}, but there is no arrow from {own} to {target}")
            bad += 1
    print(f"   {len(files)} files, {bad} includes against the arrows")
    return 1 if bad else 0


sys.exit(main())
