"""What `watch` says at a command's end. Oracles: the naive counter, and how long it watched."""

import re

import counter
from amounts import PATTERNS, limits
from disagreement import Disagreement

NAME = "watch"
WIDER = 2.0
"""An interval holds the truth in 95 of 100 runs. One of double width misses it in 1 of 10,000."""
UNSEEN = 3.7
"""docs/design/estimates.md: so many periods in smaller blocks may be unseen where every sample was certain."""
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
        return value, value + WIDER * UNSEEN * period
    return value - WIDER * (value - estimate["low"]), value + WIDER * (estimate["high"] - value)


def live_limits(text):
    """The interval of the line of live bytes, of double width, or None where there are not enough samples."""
    size = rf"({PATTERNS['bytes']})"
    text = re.sub(r"^(\s+live\s+).*, before it fell; ", r"\1", text, flags=re.MULTILINE)
    match = re.search(rf"^\s+live\s+{size} ±([0-9]+) %", text, re.MULTILINE)
    if match:
        value, share = limits("bytes", match[1])[1], int(match[2]) / 100
        return value * (1 - WIDER * share), value * (1 + WIDER * share)
    match = re.search(rf"^\s+live\s+{size} to {size}", text, re.MULTILINE)
    if match is None:
        return None
    low, high = limits("bytes", match[1])[0], limits("bytes", match[2])[1]
    return low - (high - low) / 2, high + (high - low) / 2


def live(evidence, executables):
    """Bytes live at the end of the images of these programs, a path for each; None where others of their name ended before."""
    sums = []
    for images in evidence.counts:
        chosen = [image for image in images if image.executable in executables]
        if len(chosen) != len(executables):
            return None
        sums.append(counter.total(chosen, "live_bytes"))
    return counter.Range.of(sums) if sums else None


def compare(document, evidence):
    """Pairs of what was said and what is right."""
    if document is None:
        yield "no report", "one at the end"
        return
    if document["growing"] or document["growing_places"]:
        yield f"{document['growing_places']} places grow", f"nothing can be significant before {WARM_UP_MS // 1000} s"
    interval = widened(document["live_bytes"], document["period_bytes"])
    # Of a command with several processes the last report is about those that had not ended before.
    truth = live(evidence, [process["executable"] for process in document["processes"]])
    if interval and truth and "inside" not in evidence.row.flags:
        if truth.high < interval[0] or truth.low > interval[1]:
            estimate = document["live_bytes"]
            yield f"live {estimate['low']:,.0f} to {estimate['high']:,.0f} B at the end", f"{truth} B"


def sentences(text, evidence):
    """What the closing summary says of how the command ended."""
    if not text.strip():
        yield "no report", "one at the end"
        return
    interval = live_limits(text)
    if interval and evidence.counts and "inside" not in evidence.row.flags:
        images = {image.executable for images in evidence.counts for image in images}
        # The text does not say of which programs: where there are several, JSON does.
        truth = live(evidence, list(images)) if len(images) == 1 else None
        if truth and (truth.high < interval[0] or truth.low > interval[1]):
            line = next(line for line in text.splitlines() if re.match(r"\s+live ", line))
            yield " ".join(line.split())[:80], f"{truth} B"
    status = evidence.bare[0].status
    match = re.search(r"until it ended with status ([0-9]+)", text)
    if match and int(match[1]) not in {run.status for run in evidence.bare}:
        yield f"ended with status {match[1]}", f"status {status}"
    if re.search(r"grows significantly", text) and "Nothing grows significantly" not in text:
        yield "something grows significantly", f"nothing can be significant before {WARM_UP_MS // 1000} s"
