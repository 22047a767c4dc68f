"""Totals, live blocks and peaks. Oracle: the naive counter, twice or more."""

import re
from collections import defaultdict

import counter
from counter import Range
from disagreement import Disagreement

NAME = "totals"
PEAK_SHARE = 0.01
PEAK_THREAD = 4096
"""DEFINITIONS.md: the peak of a process is within 1 % of the truth, plus one block of at most 4 KiB for each thread."""
TLS_MODULE = 16
"""DEFINITIONS.md: Mallow's library is one more module with thread-local storage, 16 bytes in a table of each thread."""
HASHES = 128 << 10
"""Bytes of tables that grow in some runs."""
HASHED_BLOCKS = 8
"""And their blocks."""
DIGITS = 64
"""Bytes that the texts of a command's own times differ by, from run to run."""


def check(evidence):
    """Compares all totals with the ranges that the counts show."""
    if not evidence.counts:
        return
    quiet = evidence.stat.get("quiet", (None, None))[1]
    if quiet:
        yield from _stat(evidence, "stat --json, quiet", quiet)
    text = evidence.stat.get("beside yes", (None, None))[1]
    if text:
        yield from _stat(evidence, "stat, beside yes", read_stat(text))
    for condition, recording in evidence.record.items():
        if recording.report_json:
            yield from _record(evidence, f"record, {condition}", recording.report_json)
            yield from _peaks(evidence, f"record, {condition}", recording.report_json)
        else:
            yield _made(evidence, f"record, {condition}", "no recording", "one")


def _made(evidence, where, said, right, tool="stat"):
    return Disagreement(NAME, evidence.row.name, where, said, right, evidence.command(*tool.split()))


def threads(evidence):
    """The most threads that a count or a recording saw, over all processes."""
    counted = [counter.total(images, "threads") + len(images) for images in evidence.counts]
    recorded = [
        sum(process["threads"] for process in recording.report_json["processes"])
        for recording in evidence.record.values()
        if recording.report_json
    ]
    return max([1, *counted, *recorded])


def parents(evidence):
    """Bytes by which texts of a parent's number differ (bash keeps PPID): this judge's has fewer digits than mallow's, or more."""
    recorded = [recording.report_json["processes"] for recording in evidence.record.values() if recording.report_json]
    digits = [abs(len(str(process["pid"])) - len(str(evidence.parent))) for processes in recorded for process in processes]
    return max(digits, default=0) * max(map(len, recorded), default=0)


def is_within(evidence, word, value):
    """Is the value in the range that the counts show?"""
    shown = evidence.range(word)
    if "inside" in evidence.row.flags:
        return value >= shown.low
    if not word.endswith("_bytes"):
        more = HASHED_BLOCKS if "hashes" in evidence.row.flags else 0
        return shown.low - more <= value <= shown.high + more
    more = TLS_MODULE * threads(evidence) if threads(evidence) > 1 else 0
    either = DIGITS if "timed" in evidence.row.flags else HASHES if "hashes" in evidence.row.flags else 0
    either += parents(evidence)
    return shown.low - either <= value <= shown.high + more + either


def read_stat(text):
    """The totals that `mallow stat` prints."""
    found = {}
    if "No allocation was seen" in text:
        return dict.fromkeys(("allocations", "allocated_bytes", "frees", "remaining"), 0)
    for line in text.splitlines():
        match = re.match(
            r"\s+(-?[0-9,]+)\s+(allocations|frees|remaining|reallocs in place|reallocs moved)(?:\s+([0-9,]+))?\s*$",
            line,
        )
        if match:
            word = match[2].replace(" ", "_")
            found[word] = int(match[1].replace(",", ""))
            if match[3]:
                found["allocated_bytes"] = int(match[3].replace(",", ""))
    return found


def _stat(evidence, where, said):
    for word in ("allocations", "allocated_bytes", "frees"):
        if word not in said:
            yield _made(evidence, where, f"no {word}", f"{evidence.range(word)} {word}")
        elif not is_within(evidence, word, said[word]):
            yield _made(evidence, where, f"{said[word]:,} {word}", f"{evidence.range(word)}")
    if {"remaining", "allocations", "frees"} <= said.keys() and said["remaining"] != said["allocations"] - said[
        "frees"
    ]:
        yield _made(
            evidence,
            where,
            f"{said['remaining']:,} remaining",
            f"{said['allocations'] - said['frees']:,}: allocations minus frees",
        )


def _record(evidence, where, said):
    foreign = sum(process["foreign_frees"] for process in said["processes"])
    pairs = {
        "allocations": ("allocations", said["allocations"]),
        "allocated_bytes": ("allocated_bytes", said["allocated_bytes"]),
        "frees": ("frees", said["frees"] + foreign),
        "live": ("blocks live at the end", said["live"]),
        "live_bytes": ("bytes live at the end", said["live_bytes"]),
    }
    for word, (name, value) in pairs.items():
        if not is_within(evidence, word, value):
            yield _made(evidence, where, f"{value:,} {name}", str(evidence.range(word)), "record")
    # One that allocates nothing is no process of a recording.
    allocating = [[image for image in images if image.counts["allocations"]] for images in evidence.counts]
    images = Range.of([len(images) for images in [*evidence.counts, *allocating]])
    if len(said["processes"]) not in images:
        yield _made(evidence, where, f"{len(said['processes'])} process images", str(images), "record")


def peaks_by_program(images):
    """The peaks of each program's images, the largest first."""
    found = defaultdict(list)
    for executable, peak in images:
        found[executable].append(peak)
    return {executable: sorted(peaks, reverse=True) for executable, peaks in found.items()}


def _peaks(evidence, where, said):
    """Each program's images, the largest with the largest: they have other process ids in each run."""
    if "inside" in evidence.row.flags:
        return
    ours = peaks_by_program((process["executable"], process["own_peak_bytes"]) for process in said["processes"])
    counted = [
        peaks_by_program((image.executable, image.counts["peak_bytes"]) for image in images)
        for images in evidence.counts
    ]
    slack = PEAK_THREAD * threads(evidence) + TLS_MODULE * threads(evidence)
    for executable, peaks in ours.items():
        truths = [run.get(executable, []) for run in counted]
        for at, peak in enumerate(peaks):
            known = [truth[at] for truth in truths if at < len(truth)]
            if not known:
                continue
            shown = Range.of(known)
            if not shown.low * (1 - PEAK_SHARE) - slack <= peak <= shown.high * (1 + PEAK_SHARE) + slack:
                yield _made(
                    evidence, where, f"own peak of {executable.rsplit('/', 1)[-1]} {peak:,} B", f"{shown} B", "record"
                )
    most, all_peaks = max((p[0] for p in ours.values()), default=0), sum(sum(p) for p in ours.values())
    if not most <= said["peak_bytes"] <= all_peaks:
        yield _made(
            evidence,
            where,
            f"peak {said['peak_bytes']:,} B",
            f"from the largest own peak, {most:,} B, to their sum, {all_peaks:,} B",
            "record",
        )
