#!/usr/bin/env python3
"""How often errors are found where one allocation in many is guarded.

DETECTION_RUNS=1000 runs of a program with one error each (a block of 4 KiB is freed, and then read), under `mallow guard --sample`, with
each period in turn. Each run is a process of its own, so that its first allocations count, too. The number of runs with a report has a
binomial distribution: it must lie within four standard deviations of what the period says.
MALLOW_BIN is the mallow to run.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MALLOW = os.environ.get("MALLOW_BIN", str(ROOT / "target/release/mallow"))
RUNS = int(os.environ.get("DETECTION_RUNS", 1000))
SIZE = 4096
PERIODS = [2048, 8192, 32768]
LIMIT_SECONDS = 60


def main():
    with tempfile.TemporaryDirectory(prefix="mallow-detection-") as place:
        program = Path(place) / "errors"
        compiler = os.environ.get("CC", "cc")
        source = ROOT / "tests/targets/guard/errors.c"
        subprocess.run([compiler, "-g", "-O1", "-fno-builtin", "-o", program, source], check=True)
        tallies = {period: [0, 0] for period in PERIODS}
        for number in range(RUNS):
            period = PERIODS[number % len(PERIODS)]
            tallies[period][0] += 1
            tallies[period][1] += is_found(program, period, Path(place) / "report.json")
    print("| period | runs | found | expected | deviations |\n| --- | --- | --- | --- | --- |")
    return max([judged(period, *tally) for period, tally in tallies.items()])


def is_found(program, period, report):
    command = [MALLOW, "guard", "--json", "-o", report, "--sample", f"{period}B", "--", program, "1", str(SIZE)]
    run = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=LIMIT_SECONDS, check=False)
    errors = json.loads(report.read_text(encoding="utf-8"))["errors"]
    if run.returncode != (3 if errors else 0) or any(error["kind"] != "use-after-free" for error in errors):
        sys.exit(f"detection: {run.returncode}: {errors}: {run.stderr.decode(errors='replace')}")
    return len(errors)


def judged(period, runs, found):
    chance = 1 - math.exp(-SIZE / period)
    deviation = math.sqrt(runs * chance * (1 - chance)) or 1
    away = (found - runs * chance) / deviation
    print(f"| {period} | {runs} | {found} | {runs * chance:.1f} | {away:+.1f} |")
    return 1 if abs(away) > 4 else 0


if __name__ == "__main__":
    sys.exit(main())
