#!/usr/bin/env python3
"""What `mallow go bench` costs beside `go test -bench -benchmem -memprofile`, on one package with the same operations.

The package is examples/go/elvis, in a copy. The first row is a build of its test program from nothing but Go's own cache,
the second the same call again, with nothing changed. Figures are medians of BENCH_RUNS runs (default 3).
All figures go to build/bench/go.json.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import workloads
from workloads import BUILD, Missing, need

MALLOW = os.environ.get("MALLOW_BIN", str(workloads.ROOT / "target" / "release" / "mallow"))
LIMIT = 1.3
"""So much of go test's time may mallow go bench take, beside a second of its own."""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few operations and one run: does everything work?")
    parser.add_argument("--runs", type=int, default=int(os.environ.get("BENCH_RUNS", 3)), help="(BENCH_RUNS) default 3")
    options, _ = parser.parse_known_args()
    try:
        need("go", "apt install golang-go")
    except Missing as missing:
        print(f"bench: {missing}", file=sys.stderr)
        return 0
    runs = 1 if options.quick else max(options.runs, 1)
    operations = "100000x" if options.quick else "2000000x"
    with tempfile.TemporaryDirectory(prefix="mallow-bench-go-") as place:
        module, cache = Path(place) / "elvis", Path(place) / "cache"
        shutil.copytree(workloads.ROOT / "examples" / "go" / "elvis", module)
        rows = measured(module, cache, operations, runs)
    (BUILD / "go.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    print(table(rows, operations))
    return 0


def measured(module, cache, operations, runs):
    """Seconds of each command, alternating, with the test program built anew each time and with all that is kept."""
    go = ["go", "test", "-run", "^$", "-bench", ".", "-benchtime", operations, "-benchmem", "-memprofile", "mem.out"]
    mallow = [MALLOW, "go", "bench", "--benchtime", operations]
    timed(go, module, cache)  # Go's own cache
    timed(mallow, module, cache)
    rows = []
    for title, again in [("the test program is built", False), ("nothing changed", True)]:
        seconds = {"go test": [], "mallow go bench": []}
        for run in range(runs):
            for name, command in [("go test", go), ("mallow go bench", mallow)]:
                if not again:
                    # A comment that changes makes a new program, and the compiler's words are asked for anew.
                    with (module / "doc.go").open("a", encoding="utf-8") as file:
                        file.write(f"\n// {name} {run}\n")
                seconds[name].append(timed(command, module, cache))
        rows.append({"what": title, **{name: statistics.median(times) for name, times in seconds.items()}, "runs": seconds})
    return rows


def timed(command, module, cache):
    """Wall time of a command that must succeed."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    environment.setdefault("GOCACHE", str(cache / "go-build"))
    start = time.perf_counter()
    subprocess.run(command, cwd=module, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def table(rows, operations):
    lines = [
        f"\n`mallow go bench` beside `go test -bench -benchmem -memprofile`, {operations} operations; at most {LIMIT} of it and a second\n",
        "| | go test | mallow go bench | of it |",
        "| --- | --- | --- | --- |",
    ]
    for row in rows:
        go, mallow = row["go test"], row["mallow go bench"]
        within = "" if mallow <= LIMIT * go + 1 else ", too much"
        lines.append(f"| {row['what']} | {go:.2f} s | {mallow:.2f} s | {mallow / go:.2f}×{within} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
