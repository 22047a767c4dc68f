"""The highest RSS. Oracle: the kernel's ru_maxrss of the same run, which a parent process asks for."""

from disagreement import Disagreement

NAME = "highest RSS"
NEAR = 0.02
PAGES = 3 * 64 * 4096
"""The kernel counts pages of files, anonymous and shared ones, each on each processor apart, and adds them up late: of each
so much may be missing from a figure."""


def check(evidence):
    """Compares the highest RSS of each run under `mallow rss`."""
    for condition, (truth, document) in evidence.highest.items():
        found = compare(document, truth)
        if found:
            yield Disagreement(NAME, evidence.row.name, f"rss, {condition}", *found, evidence.command("rss"))


def compare(document, truth):
    """None, or what was said and what is right."""
    if not document or not document.get("processes"):
        return None
    highest = (document.get("highest_rss") or {}).get("peak_rss")
    if highest is None:
        # One that ends by _exit waits for nobody: it may be gone before the first look.
        gone = [part for part in document.get("unscanned", []) if part["reason"].startswith("no exit: ")]
        if len(document["processes"]) == 1 and gone:
            return None
        return "no highest RSS", f"{truth:,} B (ru_maxrss)"
    # The kernel's figure is that of the largest process, whoever recorded it.
    is_whole = not document.get("unrecorded")
    if highest > truth + NEAR * truth + PAGES or (is_whole and highest < truth - NEAR * truth - PAGES):
        return f"highest RSS {highest:,} B", f"{truth:,} B (ru_maxrss)"
    return None
