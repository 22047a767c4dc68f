"""Lost blocks. Oracle: valgrind's memcheck, where it runs the program.

What memcheck calls definitely or indirectly lost, Mallow calls lost. What memcheck calls possibly lost has a pointer
into its middle: Mallow calls it reachable, unless the pointer is in a lost block.
"""

from disagreement import Disagreement
from memcheck import Memcheck

NAME = "lost"
STALE = 2
"""Blocks more or fewer: a word of a dead stack frame, or a number that looks like an address, holds a block in one run
and not in the other."""


def check(evidence):
    """Compares the lost blocks of each recording."""
    truth = evidence.memcheck
    if not isinstance(truth, Memcheck) or "inside" in evidence.row.flags:
        return
    for condition, recording in evidence.record.items():
        found = compare(recording.report_json, truth, evidence.bare_walk)
        # What lay in reused memory before it was handed out points to blocks that nothing else does.
        if found and evidence.filled and compare(evidence.filled, truth, evidence.bare_walk) is None:
            continue
        if found:
            yield Disagreement(NAME, evidence.row.name, f"record, {condition}", *found, evidence.command("record"))


def compare(document, truth, bare=None):
    """None, or what was said and what is right. `bare`: what a walk of the bare program's heap found, which memcheck replaces."""
    if not document or document.get("lost_blocks") is None:
        return None
    lost, lost_bytes = document["lost_blocks"], document["lost_bytes"]
    unscanned = sum(part["live"] for part in document["unscanned"])
    most = truth.lost + truth.possibly
    right = f"memcheck: {truth.lost:,} lost, {truth.lost_bytes:,} B; {truth.possibly:,} possibly"
    if lost > most + STALE:
        return f"{lost:,} lost, {lost_bytes:,} B", right
    # What was not scanned is not said to be reachable.
    held = bare.held_by_the_stack if bare else 0
    if lost + unscanned + held < truth.lost - STALE and not (bare and abs(lost - bare.unreached) <= STALE):
        return f"{lost:,} lost, {lost_bytes:,} B; {unscanned:,} not scanned", right
    return None
