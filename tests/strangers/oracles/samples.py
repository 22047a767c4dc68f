"""What `watch` says at a command's end. Oracles: the naive counter, and how long it watched."""

import re

from disagreement import Disagreement

NAME = "watch"
WIDER = 2.0
"""An interval holds the truth in 95 of 100 runs. One of double width misses it in 1 of 10,000, which no seed meets by chance."""
UNSEEN = 3.7
"""docs/design/estimates.md: where every sampled block was certain to be picked, so many periods in smaller blocks may be unseen."""
WARM_UP_MS = 180_000


def check(evidence):
    """Compares the last report on a quiet machine, and the sentences beside load."""
    run, document = evidence.watch.get("quiet", (None, None))
    if run and not run.timed_out:
        for said, right in compare(document, evidence):
            yield Disagreement(
                NAME,
                evidence.row.name,
                "watch --json, quiet",
                said,
                right,
                evidence.command("watch", "--period", "16KiB"),
            )
    run, text = evidence.watch.get("beside yes", (None, None))
    if run and not run.timed_out:
        for said, right in sentences(text or "", evidence):
            yield Disagreement(
                NAME,
                evidence.row.name,
                "watch, beside yes",
                said,
                right,
                evidence.command("watch", "--period", "16KiB"),
            )


def widened(estimate, period):
    """The interval of double width around the estimate's value, or None where none is given."""
    if estimate.get("low") is None or estimate.get("high") is None:
        return None
    value = estimate["value"]
    if estimate["low"] == estimate["high"]:
        return value, value + UNSEEN * period
    return value - WIDER * (value - estimate["low"]), value + WIDER * (estimate["high"] - value)


def compare(document, evidence):
    """Pairs of what was said and what is right."""
    if document is None:
        yield "no report", "one at the end"
        return
    if document["growing"] or document["growing_places"]:
        yield f"{document['growing_places']} places grow", f"nothing can be significant before {WARM_UP_MS // 1000} s"
    limits = widened(document["live_bytes"], document["period_bytes"])
    if limits and evidence.counts and "inside" not in evidence.row.flags:
        truth = evidence.range("live_bytes")
        if truth.high < limits[0] or truth.low > limits[1]:
            estimate = document["live_bytes"]
            yield f"live {estimate['low']:,.0f} to {estimate['high']:,.0f} B at the end", f"{truth} B"


def sentences(text, evidence):
    """What the closing summary says of how the command ended."""
    if not text.strip():
        yield "no report", "one at the end"
        return
    status = evidence.bare[0].status
    match = re.search(r"until it ended with status ([0-9]+)", text)
    if match and int(match[1]) not in {run.status for run in evidence.bare}:
        yield f"ended with status {match[1]}", f"status {status}"
    if re.search(r"grows significantly", text) and "Nothing grows significantly" not in text:
        yield "something grows significantly", f"nothing can be significant before {WARM_UP_MS // 1000} s"
