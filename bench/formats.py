#!/usr/bin/env python3
"""How fast large files of other tools are read, and with how much memory: Mallow beside the tools that they belong to.

Ten million events as heaptrack's data, which Mallow exports, and a pprof profile of 100 MB, which is made here.
After that, comparing two profiles, which are made here too: of the second, one function in twenty has another name, and one
in thirty was put into its callers. Beside `go tool pprof -diff_base`, and for heaptrack's data beside `heaptrack_print -d`.

Figures are medians of BENCH_RUNS runs (default 3), after one to warm caches up. With --quick the files are a tenth.
All figures go to build/bench/formats.json.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys

import measure as bench
import workloads
from workloads import BUILD, Missing, need

MALLOW = os.environ.get("MALLOW_BIN", str(workloads.ROOT / "target" / "release" / "mallow"))
INPUT = BUILD / "input"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small files and one run: does everything work?")
    parser.add_argument("--runs", type=int, default=int(os.environ.get("BENCH_RUNS", 3)), help="(BENCH_RUNS) default 3")
    # bench.py's own settings come along in BENCH_OPTIONS.
    options, _ = parser.parse_known_args()
    runs = 1 if options.quick else max(options.runs, 1)
    figures = []
    for title, path, readers in inputs(options.quick):
        for name, command in readers:
            print(f"bench: {path.name}: {name}", file=sys.stderr, flush=True)
            figures.append({"file": title, "bytes": path.stat().st_size, "reader": name, **measure(command, runs)})
    for title, size, comparers in comparisons(options.quick):
        for name, command in comparers:
            print(f"bench: {title}: {name}", file=sys.stderr, flush=True)
            figures.append({"file": title, "bytes": size, "reader": name, **measure(command, runs)})
    (BUILD / "formats.json").write_text(json.dumps(figures, indent=1), encoding="utf-8")
    print(table(figures))
    return 1 if any("failed" in row for row in figures if row["reader"].startswith("mallow")) else 0


def inputs(quick):
    """Title, path, and the readers of each file with their commands."""
    events = exported(recorded(quick))
    profile = pprof(10_000_000 if quick else 100_000_000)

    def mallow(*words, path):
        return f"mallow {' '.join(words)}", [MALLOW, *words, str(path)]

    heaptrack = [mallow("top", path=events)]
    go = [mallow("top", path=profile), mallow("report", path=profile)]
    for readers, tool, package, name, command in [
        (heaptrack, "heaptrack_print", "heaptrack", "heaptrack_print", ["heaptrack_print", str(events)]),
        (go, "go", "golang-go", "go tool pprof -top", ["go", "tool", "pprof", "-top", str(profile)]),
    ]:
        if present(tool, package):
            readers.append((name, command))
    return [
        ("heaptrack's data", events, heaptrack),
        ("pprof", profile, go),
    ]


def comparisons(quick):
    """Title, size of both files, and who compares them with which command."""
    for stacks in (1_000,) if quick else (10_000, 100_000):
        before, after = pair(stacks)
        comparers = [("mallow diff", [MALLOW, "diff", str(before), str(after)])]
        if present("go", "golang-go"):
            command = ["go", "tool", "pprof", "-top", f"-diff_base={before}", str(after)]
            comparers.append(("go tool pprof -diff_base", command))
        yield f"two of {stacks:,} stacks", before.stat().st_size + after.stat().st_size, comparers
    # The events of half of the workload, and of all of it.
    before, after = exported(recorded(True)), exported(recorded(quick))
    comparers = [("mallow diff", [MALLOW, "diff", str(before), str(after)])]
    if present("heaptrack_print", "heaptrack"):
        comparers.append(("heaptrack_print -d", ["heaptrack_print", "-d", str(before), str(after)]))
    yield "two of heaptrack's data", before.stat().st_size + after.stat().st_size, comparers


def present(tool, package):
    try:
        need(tool, f"apt-get install {package}")
    except Missing as missing:
        print(f"bench: {missing} (left out)", file=sys.stderr)
        return False
    return True


def recorded(quick):
    """The python workload's events: five million allocations, and their frees."""
    path = INPUT / ("formats-quick.mallow" if quick else "formats.mallow")
    workload = workloads.python(quick)
    INPUT.mkdir(parents=True, exist_ok=True)
    subprocess.run([MALLOW, "record", "--no-report", "-o", str(path), *workload.command], check=True,
                   env={**os.environ, **workload.environment}, stdout=subprocess.DEVNULL)
    return path


def exported(recording):
    path = recording.with_suffix(".heaptrack")
    subprocess.run([MALLOW, "export", "--format", "heaptrack", "-o", str(path), str(recording)], check=True)
    return path


def pprof(size, functions=40_000):
    """A heap profile like Go's: stacks of up to 60 frames, which share their outer ones with the stack before."""
    path = INPUT / f"made-{size}-{functions}.pb"
    if path.exists():
        return path
    INPUT.mkdir(parents=True, exist_ok=True)
    dice = random.Random(1)
    locations = 4 * functions
    unfinished = path.with_suffix(".new")
    with unfinished.open("wb") as out:
        out.write(tables(functions))
        stack = [dice.randrange(1, locations + 1) for _ in range(30)]
        while out.tell() < size:
            stack = stack[:dice.randrange(5, max(len(stack), 6))]
            stack = (stack + [dice.randrange(1, locations + 1) for _ in range(dice.randrange(1, 12))])[:60]
            objects = dice.randrange(1, 1000)
            values = [objects, objects * 64, objects // 3, objects // 3 * 64]
            out.write(field(2, field(1, *map(varint, reversed(stack))) + field(2, *map(varint, values))))
    unfinished.rename(path)
    return path


def pair(stacks, functions=40_000):
    """Two heap profiles of as many stacks, of 8 to 30 functions each: before and after a change."""
    paths = [INPUT / f"pair-{stacks}-{functions}-{side}.pb" for side in ("before", "after")]
    if all(path.exists() for path in paths):
        return paths
    INPUT.mkdir(parents=True, exist_ok=True)
    dice = random.Random(2)
    renamed = {i for i in range(functions) if dice.randrange(20) == 0}
    inlined = {i for i in range(functions) if dice.randrange(30) == 0}
    bodies = [tables(functions), tables(functions, renamed)]
    outs = [[body] for body in bodies]
    for _ in range(stacks):
        stack = [dice.randrange(functions) for _ in range(dice.randrange(8, 31))]
        objects = dice.randrange(1, 5000)
        values = field(2, *map(varint, [objects, objects * 64, objects // 3, objects // 3 * 64]))
        for out, gone in zip(outs, (set(), inlined)):
            ids = [varint(4 * i + 1) for i in stack if i not in gone]
            out.append(field(2, field(1, *ids) + values))
    for path, out in zip(paths, outs):
        path.write_bytes(b"".join(out))
    return paths


def tables(functions, renamed=frozenset()):
    """Sample types, one mapping, functions, four locations of each, and the strings."""
    texts = ["", "alloc_objects", "count", "alloc_space", "bytes", "inuse_objects", "inuse_space", "/usr/bin/server"]
    first = len(texts)
    name = {True: "Renamed", False: "Method"}
    texts += [f"example.com/service/package{i % 400}.(*Type{i % 4000}).{name[i in renamed]}{i}" for i in range(functions)]
    files = len(texts)
    texts += [f"/src/service/package{i}/file.go" for i in range(400)]
    out = [field(1, number(1, kind), number(2, unit)) for kind, unit in ((1, 2), (3, 4), (5, 2), (6, 4))]
    out.append(field(3, number(1, 1), number(2, 0x400000), number(3, 0x4000000), number(5, 7), number(7, 1)))
    for i in range(functions):
        out.append(field(5, number(1, i + 1), number(2, first + i), number(4, files + i % 400)))
    for i in range(4 * functions):
        line = field(4, number(1, i // 4 + 1), number(2, i % 1000 + 1))
        out.append(field(4, number(1, i + 1), number(2, 1), number(3, 0x400000 + 16 * i), line))
    out += [field(6, text.encode()) for text in texts]
    return b"".join(out)


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(tag, *parts):
    content = b"".join(parts)
    return varint(tag << 3 | 2) + varint(len(content)) + content


def number(tag, value):
    return varint(tag << 3) + varint(value)


def measure(command, runs):
    """Medians of wall and processor seconds, and the largest process."""
    results = []
    result, output = bench.WORK / "result", bench.WORK / "output"
    for turn in range(runs + 1):
        # A small program starts it: a process's peak memory begins with that of the one that started it.
        run = subprocess.run([bench.TIMED, result, output, *command], stderr=subprocess.PIPE, text=True)
        if run.returncode != 0:
            return {"failed": f"exit code {run.returncode}: {(run.stderr.strip().splitlines() or ['(it said nothing)'])[-1]}"}
        if turn > 0:
            figures = bench.figures(result.read_text())
            results.append((figures["wall"], figures["user"] + figures["sys"], figures["maxrss_kib"]))
    wall, processor, memory = (statistics.median(column) for column in zip(*results))
    return {"wall_s": wall, "processor_s": processor, "peak_kib": memory}


def table(figures):
    lines = ["## Reading and comparing large files", "", "| file | size | reader | time | processor | peak memory |", "| --- | --- | --- | --- | --- | --- |"]
    for row in figures:
        size = f"{row['bytes'] / 1e6:.1f} MB"
        if "failed" in row:
            cells = [row["failed"], "", ""]
        else:
            cells = [f"{row['wall_s']:.2f} s", f"{row['processor_s']:.2f} s", f"{row['peak_kib'] * 1024 / 1e6:.0f} MB"]
        lines.append(f"| {' | '.join([row['file'], size, row['reader'], *cells])} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
