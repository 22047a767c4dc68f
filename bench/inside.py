#!/usr/bin/env python3
"""What Mallow adds to a pair of malloc and free where the allocator is inside of the program, beside the same allocator as
a library.

The program is bench/pair.c, with jemalloc as a shared library and with jemalloc linked into it. Figures are nanoseconds of
processor time a pair: medians of BENCH_RUNS alternating runs (default 5). All figures go to build/bench/inside.json.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

import measure
import variants
from workloads import BUILD, ROOT, Missing, Workload, need

PAIRS = 5_000_000
LIMIT = 5.0
"""Nanoseconds that a pair may take more than with the library."""
MODES = ["bare", "stat", "record"]
KINDS = {"library": ["-ljemalloc"], "inside": ["-l:libjemalloc.a", "-lm", "-ldl", "-lstdc++"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few pairs and one run: does everything work?")
    parser.add_argument("--runs", type=int, default=int(os.environ.get("BENCH_RUNS", 5)), help="(BENCH_RUNS) default 5")
    options, _ = parser.parse_known_args()
    try:
        programs = {kind: linked(kind) for kind in KINDS}
    except Missing as missing:
        print(f"bench: {missing}", file=sys.stderr)
        return 0
    runs = 1 if options.quick else max(options.runs, 1)
    times = measured(programs, PAIRS // 10 if options.quick else PAIRS, runs)
    (BUILD / "inside.json").write_text(json.dumps(times, indent=1), encoding="utf-8")
    print(table(times))
    return 0


def linked(kind):
    """The program with jemalloc of that kind."""
    out = BUILD / f"pair-jemalloc-{kind}"
    command = [need("cc", "apt-get install gcc"), "-std=gnu11", "-O2", "-g", "-o", out, ROOT / "bench" / "pair.c"]
    if subprocess.run([*command, *KINDS[kind], "-pthread"], capture_output=True).returncode != 0:
        raise Missing("jemalloc cannot be linked: apt-get install libjemalloc-dev")
    return out


def measured(programs, pairs, runs):
    """Nanoseconds a pair of each run, by mode and kind."""
    modes = [variant for variant in variants.ALL if variant.name in MODES]
    times = {mode.name: {kind: [] for kind in programs} for mode in modes}
    for mode in modes:
        mode.check()
    for _ in range(runs):
        for kind, program in programs.items():
            workload = Workload(kind, kind, [str(program), "128", "1", str(pairs)], pair=True)
            for mode in modes:
                times[mode.name][kind].append(measure.run(mode, workload).times["processor"])
    return times


def table(times):
    lines = [
        f"\nA pair of 128 B with jemalloc as a library, and inside of the program; at most {LIMIT:.0f} ns more than with the library\n",
        "| | library | inside | inside − library |",
        "| --- | --- | --- | --- |",
    ]
    for mode in MODES:
        library, inside = (statistics.median(times[mode][kind]) for kind in KINDS)
        more = inside - library
        lines.append(f"| {mode} | {library:.1f} ns | {inside:.1f} ns | {more:+.1f} ns{', too much' if more > LIMIT else ''} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
