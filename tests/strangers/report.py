"""Prints what was found: disagreements as a table, what was not installed, what had no oracle."""


def table(rows):
    """Columns as wide as their cells; the last one is not padded."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]) - 1)]
    for row in rows:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[-1]]).rstrip()


def text(disagreements, skipped, notes, judged, seed):
    """All of it."""
    lines = []
    if disagreements:
        lines += ["Disagreements", ""]
        lines += table(
            [
                ["", "program", "oracle", "where", "mallow says", "the oracle says"],
                *(
                    [str(number), found.row, found.oracle, found.where, found.said, found.right]
                    for number, found in enumerate(disagreements, 1)
                ),
            ]
        )
        lines += ["", "Shown by"]
        lines += [f"  {number}  {found.command}" for number, found in enumerate(disagreements, 1)]
        lines.append("")
    if skipped:
        lines += ["Not judged", *(f"  {name}: {why}" for name, why in skipped), ""]
    if notes:
        lines += ["Without an oracle", *(f"  {note}" for note in notes), ""]
    programs = len({found.row for found in disagreements})
    what = f"{len(disagreements)} disagreements in {programs} of them" if disagreements else "no disagreement"
    lines.append(f"strangers: seed {seed}, {judged} programs judged, {len(skipped)} not: {what}")
    return "\n".join(lines)
