"""Memory errors that `guard` reports or does not. Oracles: memcheck, and the naive counter for how much was guarded."""

import re

from counter import Range, total
from disagreement import Disagreement
from memcheck import Memcheck

NAME = "guard"
ADDRESSES = 0.001
"""Of the allocations of a program whose bare counts differ: so much may depend on where its blocks lie."""
OWN_MAPPINGS = 2000
"""V8 reads /proc/self/maps and allocates for each line (`ParseProcSelfMaps`); there are more of them under guard."""
RACES = 0.05
"""Of a program that ends while its threads still run: so much may be missing, or come in addition, where some are slower than others."""


def check(evidence):
    """Compares errors and counts."""
    for condition, (run, found) in evidence.guard.items():
        if run.timed_out:
            continue
        document = found if isinstance(found, dict) else read_text(found or "")
        for said, right in compare(document, evidence):
            yield Disagreement(NAME, evidence.row.name, f"guard, {condition}", said, right, evidence.command("guard"))


def read_text(text):
    """Errors and counts of the first line."""
    first = next((line for line in text.splitlines() if "allocations guarded" in line), "")
    match = re.search(
        r"^(?:No|([0-9,]+)) memory errors? (?:was )?found(?: in what was guarded)?\.?\s+([0-9,]+) of ([0-9,]+) allocations guarded", first
    )
    if not match:
        return None
    errors, guarded, everything = (int((cell or "0").replace(",", "")) for cell in match.groups())
    refused = re.findall(r"^Not guarded: .*", text, re.MULTILINE)
    counts = {"guarded": guarded, "unguarded": everything - guarded, "unfit": 0}
    return {"errors": [None] * errors, "refused": refused, **counts}


def compare(document, evidence):
    """Pairs of what was said and what is right."""
    if document is None:
        yield "no sentence about how much was guarded", "one"
        return
    truth = evidence.memcheck
    if isinstance(truth, Memcheck):
        if document["errors"] and not truth.errors:
            yield f"{len(document['errors'])} memory errors", f"memcheck: {len(truth.errors)}"
        if truth.errors and not document["errors"]:
            yield "no memory error", f"memcheck: {', '.join(sorted(set(truth.errors)))}"
    elif document["errors"]:
        yield f"{len(document['errors'])} memory errors", f"no memcheck to ask: {truth}"
    if evidence.counts and "inside" not in evidence.row.flags:
        everything = document["guarded"] + document["unguarded"] + document["unfit"]
        counted = bare = evidence.range("allocations")
        elsewhere = [total(images, "allocations") for images in evidence.elsewhere]
        if elsewhere:
            counted = Range(min(counted.low, *elsewhere), max(counted.high, *elsewhere))
        # Blocks lie elsewhere under guard. A program whose counts differ by itself may order by addresses.
        # What a few runs show of counts that vary is not all: they may vary as much again.
        slack = max(int(ADDRESSES * counted.high), bare.high - bare.low) if counted.low < counted.high else 0
        if "racing" in evidence.row.flags:
            slack = int(RACES * counted.high)
        if evidence.row.language == "node":
            slack = max(slack, OWN_MAPPINGS)
        # Processes that are named as not guarded, and why, are not counted either.
        low = 0 if document.get("refused") else counted.low - slack
        if everything not in Range(low, counted.high + slack):
            yield f"{everything:,} allocations guarded or not", str(counted)
