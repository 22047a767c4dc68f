#!/usr/bin/env python3
"""check_memory.py FILE: the footprints of a recording, as the independent reader finds them: a line of JSON."""

import json
import sys

from mallow_format import read

RESIDENT, SWAPPED, SHARED = 1, 2, 4


def main(path):
    with open(path, "rb") as file:
        recording = read(file.read(), maps=True)
    footprints = [footprint(recording, each) for each in recording.footprints]
    found = {"why": recording.why, "footprints": footprints, "rss": list(recording.rss.items()), "peaks": list(recording.peaks.items())}
    found["size_classes"] = list(recording.size_classes.items())
    print(json.dumps(found))


def footprint(recording, each):
    keys = "process ms is_highest is_last is_at_exit gap peak_rss live_blocks live_bytes recent_live totals".split()
    kinds, flags, faults = {}, 0, []
    for mapping in each["mappings"]:
        kinds[mapping["kind"]] = kinds.get(mapping["kind"], 0) + mapping["sizes"]["rss"]
        flags |= mapping["flags"]
        runs = [run for run in each["pages"] if mapping["start"] <= run[0] < mapping["end"]]
        found = sum(count for _, count, state in runs if state & RESIDENT) * each["page_bytes"]
        if mapping["has_pages"] and each["gap"] is None and found != mapping["sizes"]["rss"]:
            faults.append([mapping["kind"], mapping["name"], found, mapping["sizes"]["rss"]])
    blocks = each["blocks"]
    counted = {
        "pid": recording.processes[each["process"]].pid,
        "forked": recording.processes[each["process"]].forked,
        "kinds": kinds,
        "flags": flags,
        "largest_mapping": max(mapping["end"] - mapping["start"] for mapping in each["mappings"]),
        "faults": faults,
        "resident": sum(count for _, count, state in each["pages"] if state & RESIDENT),
        "own": sum(m["sizes"]["rss"] for m in each["mappings"] if m["kind"] == "mallow" and not m["name"]),
        "swapped": sum(count for _, count, state in each["pages"] if state & SWAPPED),
        "shared": sum(count for _, count, state in each["pages"] if state & SHARED),
        "blocks": len(blocks),
        "caches": each.get("caches", {}).get("caches", 0),
        "cached_bytes": sum(8 + size for _, size in each.get("caches", {}).get("blocks", [])),
        "block_bytes": sum(size for _, size, _ in blocks),
        "ascending": all(a[0] < b[0] for a, b in zip(blocks, blocks[1:])),
    }
    return {key: each[key] for key in keys} | counted


if __name__ == "__main__":
    main(sys.argv[1])
