#!/usr/bin/env python3
"""How often the intervals of `mallow watch` cover the truth, measured on a built program.

The simulations of crates/estimates draw their own samples. Here the target draws them: a program with SITES call sites, each of one
size and a known number of blocks, is watched COVERAGE_RUNS times (200), once with all sites in one thread and once with the work
split among 400 threads that live shortly. It fails where the pooled coverage is further than four standard errors from 95 in a
hundred, or where a site is picked more or less often than its size and the period say."""

import json
import math
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MALLOW = os.environ.get("MALLOW_BIN", str(ROOT / "target/release/mallow"))
RUNS = int(os.environ.get("COVERAGE_RUNS", "200"))
SITES = 64
PERIOD = 64 << 10
PICKS = [8, 10, 12, 15, 20, 30, 50, 100]
"""A site allocates what is picked one of these numbers of times on average."""

MAIN = """
static long round_number;
static void *work(void *number) {
    for (int i = 0; i < SITES; i++) {
        long in_round = sites[i].blocks / 50 + (sites[i].blocks % 50 > round_number);
        for (long j = (long)number; j < in_round; j += THREADS)
            sites[i].allocate();
    }
    return 0;
}
int main(void) {
    for (round_number = 0; round_number < 50; round_number++) {
        pthread_t threads[THREADS];
        for (long n = 1; n < THREADS; n++)
            if (pthread_create(&threads[n], 0, work, (void *)n)) return 1;
        if (THREADS > 1) {
            if (pthread_create(&threads[0], 0, work, 0)) return 1;
            for (long n = 0; n < THREADS; n++) pthread_join(threads[n], 0);
        } else {
            work(0);
        }
    }
}
"""


def draw_sites():
    """(size, number of blocks) of each site: the same ones in each run."""
    generator = random.Random(5)
    sites = []
    for _ in range(SITES):
        size = int(16 * 2 ** (14 * generator.random()))
        sites.append((size, max(1, generator.choice(PICKS) * PERIOD // size)))
    return sites


def build(place, sites, threads):
    lines = ["#include <pthread.h>", "#include <stdlib.h>", f"enum {{ SITES = {SITES}, THREADS = {threads} }};"]
    lines.append("static _Thread_local void *volatile sink;")
    for number, (size, _) in enumerate(sites):
        lines.append(f"__attribute__((noinline)) void site_{number}(void) {{ sink = malloc({size}); __asm__ volatile(\"\"); }}")
    table = ", ".join(f"{{site_{number}, {blocks}}}" for number, (_, blocks) in enumerate(sites))
    lines.append(f"static const struct {{ void (*allocate)(void); long blocks; }} sites[] = {{ {table} }};")
    source = place / f"sites{threads}.c"
    source.write_text("\n".join(lines) + MAIN)
    program = place / f"sites{threads}"
    subprocess.run(["cc", "-O1", "-g", "-pthread", "-o", str(program), str(source)], check=True)
    return program


def watch(program):
    """The last report: {site: entry}, and the number of samples that were lost."""
    options = ["--period", str(PERIOD), "--older-than", "0s", "--json", "--limit", "0"]
    run = subprocess.run([MALLOW, "watch", *options, "--", str(program)], capture_output=True, text=True, check=True)
    report = json.loads(run.stderr.splitlines()[-1])
    found = {}
    for entry in report["sites"]:
        names = [frame["function"] or "" for frame in entry["frames"]]
        name = next((name for name in names if name.startswith("site_")), None)
        if name is not None:
            found[int(name.removeprefix("site_"))] = entry
    return found, sum(report["lost"].values())


class Coverage:
    """Of the intervals of one quantity."""

    def __init__(self):
        self.covered = self.too_low = self.too_high = 0

    def add(self, estimate, truth):
        if estimate["low"] is None:
            return
        if estimate["high"] + 0.5 < truth:
            self.too_low += 1
        elif estimate["low"] - 0.5 > truth:
            self.too_high += 1
        else:
            self.covered += 1

    def print(self, name):
        """Whether it is within four standard errors of 95."""
        shown = self.covered + self.too_low + self.too_high
        percent = 100 * self.covered / shown
        error = 100 * math.sqrt(0.95 * 0.05 / shown)
        print(f"{name:<24} {shown:>8} shown {percent:>7.2f} ± {2 * error:.2f} covered, {self.too_low} below, {self.too_high} above")
        return abs(percent - 95) < 4 * error


def measure(program, sites, name):
    blocks, sizes = Coverage(), Coverage()
    picks = [0] * len(sites)
    lost = 0
    for number in range(RUNS):
        found, lost_here = watch(program)
        lost += lost_here
        for site, entry in found.items():
            size, count = sites[site]
            blocks.add(entry["live"], count)
            sizes.add(entry["live_bytes"], size * count)
            picks[site] += entry["samples"]
        if sys.stderr.isatty():
            print(f"\r{name}: {number + 1} of {RUNS} runs", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    held = [blocks.print(f"{name}: blocks"), sizes.print(f"{name}: bytes")]
    worst = 0.0
    for (size, count), picked in zip(sites, picks):
        chance = -math.expm1(-size / PERIOD)
        spread = math.sqrt(RUNS * count * chance * (1 - chance))
        worst = max(worst, abs(picked - RUNS * count * chance) / spread)
    print(f"{name}: picks            a site is off by {worst:.1f} standard deviations at most; {lost} samples lost")
    return all(held) and worst < 4.5 and lost == 0


def main():
    sites = draw_sites()
    with tempfile.TemporaryDirectory(prefix="mallow-coverage-") as place:
        programs = [(build(Path(place), sites, 1), "one thread"), (build(Path(place), sites, 8), "400 threads")]
        held = [measure(program, sites, name) for program, name in programs]
    return 0 if all(held) else "an interval does not cover what it should"


if __name__ == "__main__":
    sys.exit(main())
