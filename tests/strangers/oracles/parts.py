"""Parts add up to their whole, in each JSON document. Oracle: addition."""

from disagreement import Disagreement

NAME = "parts"
ADDITIVE = (
    "allocations",
    "allocated_bytes",
    "frees",
    "freed_bytes",
    "temporary",
    "temporary_bytes",
    "live",
    "live_bytes",
)
MEASURE = {
    "allocations": "allocations",
    "bytes": "allocated_bytes",
    "peak": "peak_bytes",
    "live": "live_bytes",
    "temporary": "temporary",
}


def check(evidence):
    """Adds up what all recordings of the row say."""
    for condition, recording in evidence.record.items():
        for view, sums in (
            ("report", report(recording.report_json)),
            ("leaks", leaks(recording.leaks_json)),
            ("rss", rss(recording.rss_json)),
        ):
            for said, right in sums:
                command = f"mallow {view} --json {recording.file}"
                yield Disagreement(NAME, evidence.row.name, f"{view} --json, {condition}", said, right, command)
    for condition, (_, document) in evidence.rss.items():
        for said, right in rss(document):
            yield Disagreement(
                NAME, evidence.row.name, f"rss --json, {condition}", said, right, evidence.command("rss")
            )


def report(document):
    """Pairs of a sum and the whole that it should be."""
    if not document:
        return
    for word in ADDITIVE:
        parts = sum(process[word] for process in document["processes"])
        if parts != document[word]:
            yield f"processes have {parts:,} {word}", f"{document[word]:,} in all"
    for whole, name in [
        (document, "the run"),
        *((process, f"pid {process['pid']}") for process in document["processes"]),
    ]:
        for word in ("allocations", "allocated_bytes"):
            parts = sum(family[word] for family in whole["families"])
            if parts != whole[word]:
                yield f"functions of {name} have {parts:,} {word}", f"{whole[word]:,}"
        if whole["allocations"] - whole["frees"] != whole["live"]:
            yield (
                f"{whole['live']:,} live at the end of {name}",
                f"{whole['allocations'] - whole['frees']:,}: allocations minus frees",
            )
    for places in document["largest"]:
        word = MEASURE[places["by"]]
        parts = sum(place[word] for place in places["largest"]) + ((places.get("hidden") or {}).get(word) or 0)
        # libstdc++'s own block is of no place, and stands beside the list.
        parts += (document.get("emergency_pool") or {}).get(word) or 0
        if parts != places["total"]:
            yield f"places by {places['by']} have {parts:,}", f"{places['total']:,}"
        values = [place[word] for place in places["largest"]]
        if values != sorted(values, reverse=True):
            yield f"places by {places['by']} in another order", "the largest first"
    yield from states(document)


def states(document):
    """Lost, reachable and unscanned blocks, and those given back by exec, are all that was live at the end."""
    if "lost_blocks" not in document:
        return
    for word, (lost, reachable, at_exec) in {
        "live": ("lost_blocks", "reachable_blocks", "live_at_exec_blocks"),
        "live_bytes": ("lost_bytes", "reachable_bytes", "live_at_exec_bytes"),
    }.items():
        unscanned = sum(part[word] for part in document["unscanned"])
        # Null: no process was scanned.
        parts = sum(document[state] or 0 for state in (lost, reachable, at_exec)) + unscanned
        if parts != document[word]:
            yield f"{lost} + {reachable} + {at_exec} + unscanned = {parts:,}", f"{document[word]:,} {word}"


def leaks(document):
    """The same of `mallow leaks`."""
    if not document:
        return
    for word in ("live", "live_bytes"):
        reported = document["reported" if word == "live" else "reported_bytes"]
        suppressed = document["suppressed" if word == "live" else "suppressed_bytes"]
        # What exec gave back is in no list.
        at_exec = document.get("live_at_exec_blocks" if word == "live" else "live_at_exec_bytes") or 0
        if reported + suppressed + at_exec != document[word]:
            yield f"reported + suppressed + at exec {word} = {reported + suppressed + at_exec:,}", f"{document[word]:,}"
        for key, hidden in (("sites", "hidden"), ("leak_causes", "leak_causes_hidden")):
            parts = sum(site[word] for site in document[key]) + ((document.get(hidden) or {}).get(word) or 0)
            if parts != reported:
                yield f"{key} have {parts:,} {word}", f"{reported:,} reported"
    yield from states(document)


def rss(document):
    """The parts of RSS, and the mappings' RSS."""
    if not document or "parts" not in document:
        return
    parts = sum(part["bytes"] for part in document["parts"])
    if parts != document["rss"]:
        yield f"parts of RSS add up to {parts:,} B", f"{document['rss']:,} B"
    if document["rss"] > document["peak_rss"]:
        yield f"RSS {document['rss']:,} B", f"at most its highest, {document['peak_rss']:,} B"
    live = next((part["bytes"] for part in document["parts"] if part["part"] == "live"), 0)
    if live + document.get("elsewhere_bytes", 0) != document["live_bytes"] and live != document["live_bytes"]:
        yield f"{live:,} B in the part of live blocks", f"{document['live_bytes']:,} B live"
    negative = [
        part for part in document["parts"] if part["bytes"] < 0 and part["part"] not in ("never_touched", "unsettled")
    ]
    for part in negative:
        yield f"{part['part']} has {part['bytes']:,} B", "0 or more: only never_touched and unsettled are below 0"
