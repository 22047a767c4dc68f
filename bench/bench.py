#!/usr/bin/env python3
"""Mallow beside its peers: one command, tables in Markdown.

All figures go to build/bench/results.json (with --quick: results-quick.json). Every variant runs every workload in turn
(A B C A B C …), once to warm up and then BENCH_RUNS times; figures are medians. The target's own time is taken inside
the profiler, around the target alone. The time until the report is on the screen, and the memory of the tool, come from
runs of their own, since watching memory disturbs.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time

import measure
import tables
import variants
import workloads



def main():
    options = parse_arguments()
    chosen_variants, left_out = usable_variants(options)
    results = {
        "machine": machine(),
        "runs": options.runs,
        "quick": options.quick,
        "began": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "load_before": os.getloadavg(),
        "left_out": left_out,
        "workloads": {},
    }
    path = workloads.BUILD / ("results-quick.json" if options.quick else "results.json")
    progress = Progress(len(options.workloads))
    for name in options.workloads:
        progress.next_workload(name)
        try:
            workload = workloads.ALL[name](options.quick)
        except workloads.Missing as missing:
            results["left_out"].append(f"{name}: {missing}")
            continue
        results["workloads"][name] = measure_workload(workload, chosen_variants, options, progress)
        results["load_after"] = os.getloadavg()
        path.write_text(json.dumps(results, indent=1), encoding="utf-8")
    progress.end()
    print(tables.render(results, chosen_variants))
    print(f"All figures: {path.relative_to(workloads.ROOT)}")
    return 1 if tables.mallow_failures(results) else 0


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [variant.name for variant in variants.ALL]
    parser.add_argument("--quick", action="store_true", help="small workloads and one run: does everything work?")
    parser.add_argument("--runs", type=int, default=int(os.environ.get("BENCH_RUNS", 5)), help="(BENCH_RUNS) default 5")
    parser.add_argument("--workloads", default=os.environ.get("BENCH_WORKLOADS", ""),
                        help=f"(BENCH_WORKLOADS) some of {','.join(workloads.ALL)}")
    parser.add_argument("--variants", default=os.environ.get("BENCH_VARIANTS", ""),
                        help=f"(BENCH_VARIANTS) some of {','.join(names)}")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs: at least 1")
    if options.quick:
        options.runs = 1
    options.workloads = choose(parser, options.workloads, list(workloads.ALL))
    # Everything is relative to bare, or to what it is over.
    chosen = {"bare", *choose(parser, options.variants, names)}
    chosen |= {variant.over for variant in variants.ALL if variant.name in chosen}
    options.variants = [variant for variant in variants.ALL if variant.name in chosen]
    return options


def choose(parser, text, names):
    chosen = [word for word in text.replace(",", " ").split()] or names
    unknown = [word for word in chosen if word not in names]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(names)}")
    return chosen


def usable_variants(options):
    usable, left_out = [], []
    for variant in options.variants:
        try:
            variant.check()
            usable.append(variant)
        except workloads.Missing as missing:
            print(f"bench: {missing} (left out)", file=sys.stderr)
            left_out.append(f"{variant.name}: {missing}")
    return usable, left_out


def measure_workload(workload, chosen, options, progress):
    """Everything about one workload, as it goes into results.json."""
    progress.step("counting events")
    entry = {"command": workload.command, "pair": workload.pair, "title": workload.title, "variants": {}}
    entry.update(count_events(workload))
    runs = {variant.name: [] for variant in chosen}
    failures = {}
    for turn in range(options.runs + 1):
        for variant in chosen:
            if variant.name in failures:
                continue
            progress.step(f"run {turn}/{options.runs}: {variant.name}")
            try:
                result = measure.run(variant, workload)
                check_output(workload, result, entry)
            except measure.Failed as failed:
                failures[variant.name] = str(failed)
                continue
            if turn > 0:  # the first warms caches up: the files', and Mallow's of unwind tables
                runs[variant.name].append(result)
    for variant in chosen:
        figures = summary(workload, runs[variant.name], failures.get(variant.name))
        if not workload.pair and not figures.get("failed"):
            figures.update(measure_reports(workload, variant, options, progress))
        entry["variants"][variant.name] = figures
    return entry


def count_events(workload):
    """Allocations, allocated bytes and frees of the workload, counted by the shared-atomics peer; and its output."""
    counter = next(variant for variant in variants.ALL if variant.name == "atomic")
    path = measure.WORK / "counts"
    result = measure.run(counter, workload, {"ATOMIC_COUNT_FILE": str(path)})
    counts = {key: int(value) for key, value in measure.figures(path.read_text()).items()}
    return {**counts, "events": counts["allocations"] + counts["frees"], "output": result.output}


def check_output(workload, result, entry):
    """A target that prints something else under a tool was disturbed by it."""
    if not workload.pair and result.output != entry["output"]:
        raise measure.Failed("the target's output is not the same as without the tool")


def summary(workload, runs, failure):
    if failure:
        return {"failed": failure}
    times = {clock: [run.times[clock] for run in runs] for clock in ("wall", "processor")}
    return {
        "unit": "ns" if workload.pair else "s",
        "times": times,
        "target_maxrss_kib": statistics.median(run.maxrss_kib for run in runs),
        "recording_bytes": statistics.median(run.recording_bytes for run in runs),
    }


def measure_reports(workload, variant, options, progress):
    if not variant.report(workload.command, measure.WORK / "out"):
        return {}
    count = min(options.runs, 3)
    reports = []
    for turn in range(count):
        progress.step(f"report {turn + 1}/{count}: {variant.name}")
        try:
            reports.append(measure.report(variant, workload, memory_bound()))
        except measure.Failed as failed:
            return {"report_failed": str(failed)}
    return {
        "report_s": statistics.median(report.total for report in reports),
        "report_after_s": statistics.median(report.after for report in reports),
        "tool_kib": max(report.tool_kib for report in reports),
        "tool_process": reports[-1].tool_process,
        "report_recording_bytes": statistics.median(report.recording_bytes for report in reports),
    }


def memory_bound():
    """Address space for each process of a report run: a reader without measure shall not take the machine down."""
    return max(8 << 30, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)


def machine():
    models = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8") if "model name" in line]
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "heaptrack": heaptrack_version(),
        "python": platform.python_version(),
    }


def heaptrack_version():
    heaptrack = next(variant for variant in variants.ALL if variant.name == "heaptrack")
    try:
        heaptrack.check()
    except workloads.Missing:
        return None
    return heaptrack.version()


class Progress:
    """One line on the error stream: rewritten on a terminal, one a workload elsewhere."""

    def __init__(self, total):
        self.total = total
        self.number = 0
        self.name = ""
        self.terminal = sys.stderr.isatty()

    def next_workload(self, name):
        self.number += 1
        self.name = name
        if not self.terminal:
            print(f"bench: {self.number}/{self.total} {name}", file=sys.stderr, flush=True)

    def step(self, what):
        if self.terminal:
            print(f"\r\033[Kbench: {self.number}/{self.total} {self.name}: {what}", end="", file=sys.stderr, flush=True)

    def end(self):
        if self.terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
