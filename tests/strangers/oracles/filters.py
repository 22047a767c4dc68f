"""What filters take apart adds up to the whole; the gate for leaks agrees with what leaks lists. Oracle: addition."""

from disagreement import Disagreement

NAME = "filters"
SUMS = ("live", "live_bytes", "lost_blocks", "lost_bytes", "reachable_blocks", "reachable_bytes")


def check(evidence):
    """Looks at the recordings whose filters were tried."""
    for condition, recording in evidence.record.items():
        for flags, said, right in [*processes(recording), *gates(recording)]:
            command = f"mallow leaks {flags} {recording.file}"
            yield Disagreement(NAME, evidence.row.name, f"leaks {flags}, {condition}", said, right, command)


def processes(recording):
    """The leaks of all processes are the recording's."""
    whole, parts = recording.leaks_json, list(recording.by_process.values())
    pids = {process["pid"] for process in (recording.report_json or {}).get("processes", [])}
    if not whole or not parts or set(recording.by_process) != pids:
        return
    if None in parts:
        yield "--process PID", "no document of a process", "one"
        return
    for word in SUMS:
        # Of a recording without a scan there are no lost and no reachable blocks, and so no keys.
        added = sum(part.get(word) or 0 for part in parts)
        if added != (whole.get(word) or 0):
            yield (
                "--json --process PID",
                f"{word} of all processes: {added:,}",
                f"{whole.get(word) or 0:,} without a filter",
            )


def gates(recording):
    """The exit status is 3 if anything is listed; 4 if nothing is lost of what was scanned, and something live was not; else 0."""
    document = recording.leaks_json
    if not document or not recording.gates:
        return
    listed = {"": document["reported"], "lost": document.get("lost_blocks") or 0}
    for only, status in recording.gates.items():
        # Of what a runtime keeps, the document of all states does not say how much is lost.
        if only == "lost" and document.get("kept"):
            continue
        is_known = only == "" or not any(part["live"] for part in document.get("unscanned", []))
        right = 3 if listed[only] else 0 if is_known else 4
        if status != right:
            flags = " ".join(["--fail-on-leak", *(["--only", only] if only else [])])
            yield flags, f"exit status {status}", f"{right}: {listed[only]:,} blocks are listed"
