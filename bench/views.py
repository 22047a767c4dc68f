#!/usr/bin/env python3
"""The views of large recordings, beside heaptrack's on the same program and memray's on another: one command, a table in Markdown.

Records the example "stacks" (34 frames deep) for so many millions of events as BENCH_EVENTS says, reads each recording
with each view BENCH_RUNS times in turn, and prints medians: wall time, processor time, and the most memory. 100 million
events need 2 GB of disk while they are recorded, and some minutes. All figures go to build/bench/views.json.
"""

import argparse
import json
import os
import statistics
import sys
import time

import bench
import measure
import page
import tables
import variants
import workloads

EVENTS_A_ROUND = 5785
"""Of the example, on average; it is chosen by rounds."""

MALLOW = next(variant for variant in variants.ALL if variant.name == "record")
HEAPTRACK = next(variant for variant in variants.ALL if variant.name == "heaptrack")
RECORD = "`record`, the program included"

VIEWS = {
    "`report`": ["report"],
    "`top`": ["top"],
    "`tree`": ["tree"],
    "`flame`": ["flame", "-o", os.devnull],
    "`timeline`": ["timeline"],
    "a window: `report --time 20%..60%`": ["report", "--time", "20%..60%"],
    "what was live in it: `report --time 20%..60% --when live`": ["report", "--time", "20%..60%", "--when", "live"],
    "`top --size 64..`": ["top", "--size", "64.."],
    "`top --lifetime ..1ms`": ["top", "--lifetime", "..1ms"],
}


def main():
    options = parse_arguments()
    results = {"machine": bench.machine(), "load_before": os.getloadavg(), "recordings": []}
    for millions in options.events:
        results["recordings"].append(measure_recording(millions, options))
        results["load_after"] = os.getloadavg()
        (workloads.BUILD / "views.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
    print(render(results))
    return 1 if any("failed" in row for recording in results["recordings"] for row in mallow_rows(recording)) else 0


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", default=os.environ.get("BENCH_EVENTS", "10"),
                        help="(BENCH_EVENTS) millions of events, as 10,100; default 10")
    parser.add_argument("--runs", type=int, default=int(os.environ.get("BENCH_RUNS", 5)), help="(BENCH_RUNS) default 5")
    options = parser.parse_args()
    try:
        options.events = [float(word) for word in options.events.replace(",", " ").split()]
    except ValueError:
        parser.error(f"--events: {options.events} is no list of numbers")
    if options.runs < 1 or not options.events or min(options.events) <= 0:
        parser.error("--runs, --events: at least one")
    return options


def measure_recording(millions, options):
    """One recording and all that reads it."""
    rounds = max(1, round(millions * 1e6 / EVENTS_A_ROUND))
    target = [str(workloads.EXAMPLES / "stacks"), str(rounds)]
    out = measure.clean()
    entry = {"millions": millions, "command": target, "rows": {}}
    commands = {RECORD: MALLOW.command(target, out)}
    reading = {name: [str(MALLOW.program()), *view, str(MALLOW.recording(out))] for name, view in VIEWS.items()}
    entry["rows"] |= run_all(commands, 1)
    entry["bytes"] = measure.size(MALLOW.recording(out))
    entry["rows"] |= run_all(reading, options.runs)
    entry["rows"] |= medians(page.runs(MALLOW.program(), MALLOW.recording(out), options.runs))
    for name, measure_row in page.memray_rows(millions, timed):
        entry["rows"] |= medians(once(name, measure_row))
    try:
        HEAPTRACK.check()
    except workloads.Missing as missing:
        print(f"bench: {missing} (left out)", file=sys.stderr)
        return entry
    record, show = HEAPTRACK.report(target, out)
    entry["rows"] |= run_all({"heaptrack, the program included": record}, 1)
    entry["rows"] |= run_all({"heaptrack_print": show}, options.runs)
    data = HEAPTRACK.report_recording(out)
    entry["rows"] |= medians(once("heaptrack_gui, reading", lambda: page.heaptrack_gui(data)))
    return entry


def once(name, measure_row):
    """One run of a row, or why it failed; nothing where what it measures is missing."""
    try:
        row = measure_row()
        return {name: [row]} if row else {}
    except measure.Failed as failure:
        return {name: str(failure)}


def run_all(commands, runs):
    """In turn, so that what disturbs the machine disturbs all."""
    rows = {name: [] for name in commands}
    failed = {}
    for _ in range(runs):
        for name, command in commands.items():
            if name not in failed:
                try:
                    rows[name].append(timed(command))
                except measure.Failed as failure:
                    failed[name] = str(failure)
    return medians(rows | failed)


def medians(rows):
    """Of each row with its runs, or with why it failed."""
    figures = ("wall", "processor", "kib")
    return {
        name: {"failed": runs} if isinstance(runs, str)
        else {figure: statistics.median(run[figure] for run in runs) for figure in figures} | {"runs": runs}
        for name, runs in rows.items()
    }


def timed(command, memory=None):
    """Wall and processor time of a command, and the memory of its largest process. `memory` bounds the addresses of each."""
    watch = measure.MemoryWatch()
    before, began = os.times(), time.monotonic()
    measure.watched(command, dict(os.environ), memory or bench.memory_bound(), watch, measure.WORK / "text")
    after = os.times()
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    return {"wall": time.monotonic() - began, "processor": processor, "kib": watch.largest}


def mallow_rows(recording):
    return [row for name, row in recording["rows"].items() if not name.startswith(("heaptrack", "memray", "its "))]


def render(results):
    """Rows are views, columns are recordings."""
    machine = results["machine"]
    load = f"{results['load_before'][0]:.1f} before, {results['load_after'][0]:.1f} after"
    tool = machine["heaptrack"] or "no heaptrack"
    about = f"{machine['processor']}, {machine['cores']} cores, {tool}; load average {load}."
    heads = [f"{r['millions']:g} M events, {r['bytes'] / 1e6:.0f} MB" for r in results["recordings"]]
    names = dict.fromkeys(name for recording in results["recordings"] for name in recording["rows"])
    rows = [[name, *(cell(recording["rows"].get(name)) for recording in results["recordings"])] for name in names]
    failed = [f"- {name} of {recording['millions']:g} M events: {row['failed']}"
              for recording in results["recordings"] for name, row in recording["rows"].items() if "failed" in row]
    table = tables.markdown(["wall time, processor time, peak memory", *heads], rows)
    return "\n\n".join([about, table, *(["\n".join(failed)] if failed else [])]) + "\n"


def cell(row):
    if row is None:
        return "–"
    if "failed" in row:
        return "died"
    return f"{row['wall']:.2f} s, {row['processor']:.2f} s, {row['kib'] / tables.MIB:.0f} MB"


if __name__ == "__main__":
    sys.exit(main())
