"""What was measured on."""

import os
import pathlib
import platform


def cache_sizes():
    """{level: text} of the first processor's data caches."""
    sizes = {}
    for index in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if (index / "type").read_text().strip() != "Instruction":
                sizes["L" + (index / "level").read_text().strip()] = (index / "size").read_text().strip()
        except OSError:
            continue
    return sizes


def processor():
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def describe():
    return {"processor": processor(), "processors": len(os.sched_getaffinity(0)), "caches": cache_sizes(),
            "kernel": platform.release()}


def same(one, other):
    """Whether results of both may be put together."""
    return all(one.get(key) == other.get(key) for key in ("processor", "processors", "caches"))


def text(machine):
    caches = ", ".join(f"{size} {level}" for level, size in machine["caches"].items())
    return f"{machine['processors']} processors, {machine['processor']}" + (f", {caches}" if caches else "")
