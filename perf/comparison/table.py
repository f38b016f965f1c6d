"""Medians over runs, ratios, and their text."""

import statistics

from comparison import limit
from comparison.programs import BINARIES

REGIMES = ("near", "far")
KI, MI = 1024, 1 << 20
# What has a mean and a worst size, and what it is called.
SUMMED = {"peer": "best peer", "peer median": "medians", "other": "other build", "other median": "its medians",
          "bare": "bare loop"}


def size_text(size):
    for unit, name in ((MI, "MiB"), (KI, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def digits(value):
    """Three digits, without an exponent."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def medians(runs):
    """{program: {size: [{"p05", "p50", "scheme"}]}}: medians over the runs, scheme by scheme, the fastest first."""
    collected = {}
    for run in runs:
        for size, entries in run["rows"].items():
            for entry in entries:
                # Tutti's algorithm and the like may change from run to run: only several entries are told apart.
                scheme = entry["scheme"] if len(entries) > 1 else ""
                schemes = collected.setdefault(run["program"], {}).setdefault(size, {})
                schemes.setdefault(scheme, []).append(entry)
    return {program: {size: sorted(({"p05": statistics.median(e["p05"] for e in entries),
                                     "p50": statistics.median(e["p50"] for e in entries),
                                     "scheme": scheme or entries[-1]["scheme"]} for scheme, entries in schemes.items()),
                                   key=lambda entry: entry["p05"])
                      for size, schemes in sorted(sizes.items())} for program, sizes in collected.items()}


def mean(values):
    values = list(values)
    return statistics.geometric_mean(values) if values else None


def worst(ratios):
    """(ratio, size) of the smallest, or None."""
    return min(((ratio, size) for size, ratio in ratios.items()), default=None)


def speeds_of(rows):
    return {size: {entry["scheme"]: entry["p05"] for entry in entries} for size, entries in rows.items()}


class Table:
    """One collective with one number of ranks in one regime."""

    def __init__(self, collective, ranks, regime, runs):
        self.collective, self.ranks, self.regime = collective, ranks, regime
        every = medians(runs)
        roles = {run["program"]: run["role"] for run in runs}
        self.lines_ns = sorted(value for run in runs for value in run["line_ns"])
        self.turns = {name: sum(run["program"] == name for run in runs) for name in roles}
        self.speeds = speeds_of(every.get("memory speed", {}))
        self.times = {name: {size: entries[0] for size, entries in every[name].items()}
                      for name in roles if roles[name] != "limit"}
        self.tutti = [name for name in self.times if roles[name] == "tutti"]
        self.peers = [name for name in self.times if roles[name] == "peer"]
        self.sizes = sorted({size for name in self.tutti for size in self.times[name]})
        self.hop_ns = statistics.median(self.lines_ns)
        self.ratios = {name: {size: self.row(name, size) for size in self.times[name]} for name in self.tutti}

    def key(self):
        return f"{self.collective}, {self.ranks} ranks, {self.regime}"

    def row(self, name, size):
        """Times of others over Tutti's: above 1, Tutti is faster."""
        own = self.times[name][size]
        buffers = name.split()[-1]
        peers = {peer: self.times[peer][size] for peer in self.peers if size in self.times[peer]}
        row = {}
        if peers:
            best = min(peers, key=lambda peer: peers[peer]["p05"])
            row["best peer"] = best
            row["peer"] = peers[best]["p05"] / own["p05"]
            row["peer median"] = min(peer["p50"] for peer in peers.values()) / own["p50"]
        other = self.times.get(f"other {buffers}", {}).get(size)
        if other:
            row["other"] = other["p05"] / own["p05"]
            row["other median"] = other["p50"] / own["p50"]
        if "gloo" in peers:
            row["gloo"] = peers["gloo"]["p05"] / own["p05"]
        shared = buffers != "private"  # registered memory may do what the library's can
        bare = self.times.get("bare library" if shared else "bare private", {}).get(size)
        if bare:
            row["bare"] = bare["p05"] / own["p05"]
            if peers:
                row["bare over peer"] = peers[best]["p05"] / bare["p05"]
        if self.collective == "all_reduce" and self.ranks == 2 and limit.complete(self.speeds, size):
            compute = limit.library if shared else limit.private
            row["limit"] = compute(self.speeds, size, self.hop_ns) / own["p05"]
            if peers:
                row["limit over peer"] = row["peer"] / row["limit"]
            if not shared:
                row["two copies"] = limit.two_copies(self.speeds, size, self.hop_ns) / own["p05"]
        return row

    def column(self, name, key, low=0, high=1 << 62):
        return {size: row[key] for size, row in self.ratios[name].items() if key in row and low <= size <= high}

    def summary(self, name):
        """What the figures of the README are."""
        found = {}
        for key in SUMMED:
            ratios = self.column(name, key)
            if ratios:
                found[key] = {"mean": mean(ratios.values()), "worst": worst(ratios)[0], "at": worst(ratios)[1]}
        for key, label, low, high in (("gloo", "gloo to 32 KiB", 0, 32 * KI), ("gloo", "gloo from 1 MiB", MI, 1 << 62),
                                      ("limit", "limit from 1 MiB", MI, 1 << 62),
                                      ("two copies", "two copies from 1 MiB", MI, 1 << 62),
                                      # What there is to win against these peers on this machine.
                                      ("bare over peer", "a bare loop ahead of the best peer", 0, 1 << 62),
                                      ("limit over peer", "the limit ahead of the best peer", 0, 1 << 62)):
            ratios = self.column(name, key, low, high)
            if ratios:
                found[label] = {"mean": mean(ratios.values())}
        return found

    def as_json(self):
        return {"collective": self.collective, "ranks": self.ranks, "regime": self.regime, "hop_ns": self.hop_ns,
                "turns": self.turns, "times_us": self.times, "ratios": self.ratios,
                "summaries": {name: self.summary(name) for name in self.tutti},
                "limit_us": self.limits()}

    def limits(self):
        """{kind: {size: us}}"""
        if self.collective != "all_reduce" or self.ranks != 2:
            return {}
        sizes = [size for size in self.sizes if limit.complete(self.speeds, size)]
        return {name: {size: compute(self.speeds, size, self.hop_ns) for size in sizes}
                for name, compute in (("private", limit.private), ("two copies", limit.two_copies),
                                      ("library", limit.library))} if sizes else {}


def tables(runs):
    """A table for each collective, rank count and regime in which Tutti was measured."""
    groups = {}
    for run in runs:
        if run["regime"] in REGIMES:
            groups.setdefault((run["collective"], run["ranks"], run["regime"]), []).append(run)
    found = [Table(*key, group) for key, group in groups.items() if any(run["role"] == "tutti" for run in group)]
    names = list(BINARIES)
    return sorted(found, key=lambda table: (table.ranks, names.index(table.collective), REGIMES.index(table.regime)))


def grid(head, rows):
    """Columns as wide as their widest cell, the first one left-aligned."""
    widths = [max(len(row[i]) for row in [head] + rows) for i in range(len(head))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)).rstrip() for row in [head] + rows]
    return "\n".join(lines)


def times_text(table):
    names = list(table.times)
    rows = []
    for size in table.sizes:
        cells = [table.times[name].get(size) for name in names]
        rows.append([row_label(table, size)] + [f"{digits(c['p05'])} / {digits(c['p50'])}" if c else "-" for c in cells])
    return grid(["us"] + names, rows)


def row_label(table, size):
    return "no data" if table.collective == "barrier" else size_text(size)


def ratios_text(table, name):
    keys = [key for key in ("peer", "peer median", "other", "other median", "gloo", "bare", "limit", "two copies")
            if table.column(name, key)]
    heads = {**SUMMED, "limit": "of the limit", "two copies": "of two copies"}
    rows = []
    for size, row in table.ratios[name].items():
        rows.append([row_label(table, size)] + [digits(row[key]) if key in row else "-" for key in keys]
                    + [row.get("best peer", "")])
    return grid([name] + [heads.get(key, key) for key in keys] + ["which"], rows)


def summary_text(table, name):
    found = table.summary(name)
    parts = []
    for key, label in SUMMED.items():
        if key in found:
            one = found[key]
            parts.append(f"{label} {digits(one['mean'])}, worst {digits(one['worst'])} at "
                         f"{row_label(table, one['at'])}")
    parts += [f"{label} {digits(found[label]['mean'])}" for label in found if "mean" in found[label]
              and label not in SUMMED]
    return f"{name}, geometric means: " + "; ".join(parts)


def text(table):
    low, high = table.lines_ns[0], table.lines_ns[-1]
    turns = sorted(set(table.turns.values()))
    count = f"{turns[0]}" if len(turns) == 1 else f"{turns[0]} to {turns[-1]}"
    blocks = [f"{table.key()}: a line crosses in {low:.0f} to {high:.0f} ns; {count} run{'s' if count != '1' else ''} of each "
              "program\n5th percentile / median", times_text(table)]
    if not table.peers:
        blocks.append("no peer was measured in this regime")
    compared = [name for name in table.tutti if table.summary(name)]
    if compared:
        blocks.append("times of others over Tutti's, 5th percentiles: above 1, Tutti is faster")
    for name in compared:
        blocks += [ratios_text(table, name), summary_text(table, name)]
    return "\n\n".join(blocks)
