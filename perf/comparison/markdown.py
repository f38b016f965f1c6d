"""Tables for documents: sizes down, times of Tutti and of the best peer, ratios."""

from comparison.table import digits, row_label, summary_text

HEADS = {"peer": "best peer", "peer median": "medians", "gloo": "Gloo", "bare": "bare loop", "limit": "of the limit",
         "two copies": "of two copies"}


def time(entry):
    return f"{digits(entry['p05'])} / {digits(entry['p50'])}"


def document(table):
    """One Markdown table for each kind of Tutti's buffers, under a line that says what it is."""
    blocks = [f"**{table.key()}**, a line crosses in {table.lines_ns[0]:.0f} to {table.lines_ns[-1]:.0f} ns; µs, 5th percentile / "
              "median; then times of others over Tutti's, 5th percentiles: above 1, Tutti is faster"]
    for name in table.tutti:
        keys = [key for key in HEADS if table.column(name, key)]
        lines = [f"| | {name} | best peer | " + " | ".join(HEADS[key] for key in keys) + " |",
                 "|---" * (len(keys) + 3) + "|"]
        for size, row in table.ratios[name].items():
            best = row.get("best peer")
            peer = f"{time(table.times[best][size])} {best}" if best else "–"
            cells = [digits(row[key]) if key in row else "–" for key in keys]
            lines.append(f"| {row_label(table, size)} | {time(table.times[name][size])} | {peer} | " + " | ".join(cells) + " |")
        blocks += ["\n".join(lines), summary_text(table, name)]
    return "\n\n".join(blocks) + "\n"
