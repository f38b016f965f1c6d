"""One picture of a table, as SVG: times of everybody relative to Tutti's with private buffers, by size.

Colours come from a style sheet inside, so that the picture follows the reader's light or dark scheme; series differ by
shape of their points and dashes as well.
"""

import math
from xml.sax.saxutils import escape

from comparison.table import digits, size_text

WIDTH, HEIGHT = 900, 470
LEFT, RIGHT, TOP, BOTTOM = 70, 690, 56, 410
HIGHEST = 16.0  # of the axis; what is further away is named below the picture instead
# Light and dark colour of each series.
COLOURS = (("#0072b2", "#58b4ff"), ("#d55e00", "#ff9248"), ("#00805f", "#3fd3a5"), ("#a8437f", "#f09bc9"),
           ("#7a5f00", "#e8c547"), ("#5b5b5b", "#b5b5b5"), ("#6a3fb5", "#b99cff"), ("#8c2d04", "#ff7f6e"), ("#0b7285", "#66d9e8"),
           ("#c2255c", "#ff6b9d"))
SHAPES = ("circle", "square", "triangle", "diamond")
DASHES = {"bare": "6 4", "limit": "2 4"}


def style():
    def rules(index):
        colours = "\n".join(f".s{i} {{ stroke: {pair[index]}; }} .f{i} {{ fill: {pair[index]}; }}"
                            for i, pair in enumerate(COLOURS))
        ink, grid = (("#24292f", "#d0d7de"), ("#e6edf3", "#3d444d"))[index]
        return f".ink {{ fill: {ink}; }} .axis {{ stroke: {ink}; }} .grid {{ stroke: {grid}; }}\n{colours}"

    return (f"<style>\ntext {{ font-family: sans-serif; }}\n{rules(0)}\n"
            f"@media (prefers-color-scheme: dark) {{\n{rules(1)}\n}}\n</style>")


def marker(shape, x, y, index):
    if shape == "circle":
        return f'<circle class="f{index}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    if shape == "square":
        return f'<rect class="f{index}" x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7"/>'
    corners = {"triangle": ((0, -5), (4.5, 3.5), (-4.5, 3.5)), "diamond": ((0, -5), (5, 0), (0, 5), (-5, 0))}[shape]
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return f'<polygon class="f{index}" points="{points}"/>'


def label(x, y, content, size=12, anchor="start", turned=False):
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    return f'<text class="ink" x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{turn}>{escape(content)}</text>'


def relative_series(table):
    """(what 1 is, [(name, {size: time over Tutti's}, dashes)])"""
    base = next((name for name in table.tutti if name == "tutti private"), table.tutti[0])
    reference = {size: entry["p05"] for size, entry in table.times[base].items()}
    series = []
    for name, rows in table.times.items():
        if name != base:
            series.append((name, {size: rows[size]["p05"] / reference[size] for size in rows if size in reference},
                           DASHES["bare"] if name.startswith("bare") else ""))
    for name, rows in table.limits().items():
        if name != "two copies":
            series.append((f"limit {name}", {size: us / reference[size] for size, us in rows.items() if size in reference},
                           DASHES["limit"]))
    return base, [one for one in series if one[1]]


def lowest(series):
    """The power of two at or below everything."""
    return 2.0 ** math.floor(math.log2(min([0.5] + [value for _, values, _ in series for value in values.values()])))


def draw(table, title):
    base, series = relative_series(table)
    bottom = lowest(series)
    sizes = table.sizes
    exponents = [math.log2(size) for size in sizes]
    low, span = exponents[0], max(exponents[-1] - exponents[0], 1)
    across = lambda size: LEFT + 20 + (math.log2(size) - low) / span * (RIGHT - LEFT - 40)
    up = lambda ratio: BOTTOM - math.log2(ratio / bottom) / math.log2(HIGHEST / bottom) * (BOTTOM - TOP)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
             f"<title>{escape(title)}</title>", style(), label(LEFT, 24, title, 16),
             label(LEFT, 43, f"time relative to {base.capitalize()} buffers (5th percentiles): above 1, it is slower", 12)]
    ratio = bottom
    while ratio <= HIGHEST:
        heavy = ' stroke-width="2" class="axis"' if ratio == 1 else ' class="grid"'
        parts += [f'<line x1="{LEFT}" x2="{RIGHT}" y1="{up(ratio):.1f}" y2="{up(ratio):.1f}"{heavy}/>',
                  label(LEFT - 8, up(ratio) + 4, f"{ratio:g}", 12, "end")]
        ratio *= 2
    for size in sizes:
        parts.append(f'<line class="grid" x1="{across(size):.1f}" x2="{across(size):.1f}" y1="{TOP}" y2="{BOTTOM}"/>')
        parts.append(label(across(size), BOTTOM + 18, size_text(size), 11, "middle"))
    parts += [label((LEFT + RIGHT) / 2, BOTTOM + 40, "bytes of the buffer of a rank", 12, "middle"),
              label(22, (TOP + BOTTOM) / 2, "time / " + base.capitalize() + " buffers", 12, "middle", turned=True)]
    for i, (name, values, dashes) in enumerate(series):
        colour, shape = i % len(COLOURS), SHAPES[i % len(SHAPES)]
        points = [(size, value) for size, value in sorted(values.items()) if value <= HIGHEST]
        path = " ".join(f"{across(size):.1f},{up(value):.1f}" for size, value in points)
        dash = f' stroke-dasharray="{dashes}"' if dashes else ""
        parts.append(f'<polyline class="s{colour}" points="{path}" fill="none" stroke-width="2"{dash}/>')
        for size, value in points:
            tip = f"<title>{escape(name)}, {size_text(size)}: {digits(value)}</title>"
            parts.append(f"<g>{tip}{marker(shape, across(size), up(value), colour)}</g>")
        y = TOP + 8 + 22 * (i + 1)
        parts += [f'<line class="s{colour}" x1="{RIGHT + 18}" x2="{RIGHT + 50}" y1="{y}" y2="{y}" stroke-width="2"{dash}/>',
                  marker(shape, RIGHT + 34, y, colour), label(RIGHT + 58, y + 4, name)]
    parts += [f'<line class="axis" x1="{RIGHT + 18}" x2="{RIGHT + 50}" y1="{TOP + 8}" y2="{TOP + 8}" stroke-width="2"/>',
              label(RIGHT + 58, TOP + 12, base)]
    beyond = [f"{name} is up to {digits(max(values.values()))} times slower" for name, values, _ in series
              if max(values.values()) > HIGHEST]
    if beyond:
        parts.append(label(LEFT, BOTTOM + 58, f"{', '.join(beyond)}: what is above {HIGHEST:g} is not drawn", 11))
    return "\n".join(parts + ["</svg>"]) + "\n"
