#!/usr/bin/env python3
"""Where `mallow go bench` and `go tool pprof -list` put the allocations of real packages, and which of the two is right.

Packages come from the module proxy in fixed versions. Each benchmark runs once for Mallow and twice with `-memprofile`
and `-memprofilerate 1`, with N and with 2N operations; `-list` of the first, divided by N, is what a person reads. Lines whose
numbers differ are sorted by why:

  set-up    what the second profile has more than the first, by operation, is Mallow's number: the rest is before the loop,
            the one operation that warms up, or Go's own test code
  runtime   so it is with the runtime's frames taken out (`-hide`): pprof has it on a line of Go's, Mallow on the line that
            calls it
  tiny      the line makes objects below 16 bytes without pointers: those that share a block are not in the profile
  other     none of these

With --count (as root, with bpftrace) each differing line is counted a third time: every entry of the allocator with the addresses
on the stack, in the program as it is, neither profiled nor changed.
All figures go to build/bench/go_attribution.json.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import workloads
from workloads import BUILD, Missing, need

MALLOW = os.environ.get("MALLOW_BIN", str(workloads.ROOT / "target" / "release" / "mallow"))

RUNTIME = r"^(internal/runtime/|internal/bytealg\.MakeNoZero|reflect\.(unsafe_New|unsafe_NewArray|mapassign0|mapassign_faststr0|makemap|growslice)$|maps\.clone$|time\.newTimer$)"
"""Functions of the runtime whose names do not begin with `runtime.`: those pprof hides by itself."""

LEAST = 0.05
"""What happens less often by operation is left out."""


@dataclass
class Real:
    """Benchmarks of a package."""

    module: str
    version: str
    package: str
    bench: str
    operations: int = 1000


PACKAGES = [
    Real("github.com/valyala/fastjson", "v1.6.10", ".", "BenchmarkParse$/^(small|medium)$", 200),
    Real("go.uber.org/zap", "v1.28.0", ".", "."),
    Real("github.com/rs/zerolog", "v1.35.1", ".", "."),
    Real("github.com/go-chi/chi/v5", "v5.5.0", ".", "."),
    Real("github.com/gorilla/mux", "v1.8.1", ".", "."),
    Real("github.com/json-iterator/go", "v1.1.12", "./misc_tests", "."),
    Real("google.golang.org/protobuf", "v1.36.12", "./encoding", ".", 50),
    Real("github.com/BurntSushi/toml", "v1.6.0", ".", ".", 200),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", action="store_true", help="count differing lines a third time, with bpftrace")
    parser.add_argument("--only", default="", help="packages whose path has this")
    parser.add_argument("--show", action="store_true", help="print each line that differs")
    options = parser.parse_args()
    try:
        need("go", "apt install golang-go")
        if options.count:
            need("bpftrace", "apt install bpftrace")
    except Missing as missing:
        print(f"bench: {missing}", file=sys.stderr)
        return 0
    reports = []
    for real in (real for real in PACKAGES if options.only in real.module):
        with tempfile.TemporaryDirectory(prefix="mallow-go-attribution-") as place:
            report = compared(real, Path(place), options)
        reports.append(report)
        print(row(report), flush=True)
        for line in (line for line in report["lines"] if options.show and line["why"] != "same"):
            print("   ", describe(line), flush=True)
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "go_attribution.json").write_text(json.dumps(reports, indent=1), encoding="utf-8")
    print(table(reports))
    return 0


def ran(command, place, **more):
    """What a command prints that must succeed."""
    result = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, **more)
    if result.returncode != 0:
        sys.exit(f"bench: {' '.join(map(str, command))}: {result.stderr[-2000:]}")
    return result.stdout


def compared(real, place, options):
    """All lines of a package's benchmarks, with the number that each of the two has."""
    source = json.loads(ran(["go", "mod", "download", "-json", f"{real.module}@{real.version}"], place))["Dir"]
    module = place / "module"
    shutil.copytree(source, module)
    ran(["chmod", "-R", "u+w", str(module)], place)
    times = f"{real.operations}x"
    command = [MALLOW, "go", "bench", real.package, "--bench", real.bench, "--benchtime", times, "--json"]
    package = json.loads(ran(command, module))["packages"][0]
    program = place / "the.test"
    ran(["go", "test", "-c", "-o", str(program), real.package], module)
    run = Run(program, module / real.package, place)
    lines = []
    for benchmark in (benchmark for benchmark in package["benchmarks"] if benchmark["allocs_per_op"] >= 1):
        if "error" in benchmark:
            sys.exit(f"bench: {benchmark['name']}: {benchmark['error']}")
        lines += of_benchmark(benchmark, run, real.operations, options.count)
    return {"module": real.module, "version": real.version, "package": real.package, "lines": lines}


@dataclass
class Run:
    """A test program."""

    program: Path
    directory: Path
    place: Path

    def arguments(self, name, operations):
        pattern = "/".join(f"^{re.escape(part)}$" for part in name.split("/"))
        return ["-test.run=^$", f"-test.bench={pattern}", f"-test.skip={pattern}/.", f"-test.benchtime={operations}x", "-test.timeout=0"]

    def profile(self, name, operations):
        file = self.place / f"{operations}.pb.gz"
        more = [f"-test.memprofile={file}", "-test.memprofilerate=1"]
        ran([str(self.program), *self.arguments(name, operations), *more], self.directory)
        return file

    def listed(self, profile, *more):
        """`go tool pprof -list .`: what each line has flat."""
        command = ["go", "tool", "pprof", "-sample_index=alloc_objects", *more, "-list=.", str(self.program), str(profile)]
        flat, place = Counter(), None
        for line in ran(command, self.directory).splitlines():
            if routine := re.match(r"ROUTINE =+ (.*) in (\S+)$", line):
                place = (plain(routine[1]), routine[2])
            elif (numbers := re.match(r"\s*(\d+)\s+\S+\s+(\d+):", line)) and place:
                flat[(*place, int(numbers[2]))] += int(numbers[1])
        return flat

    def counted(self, name, operations):
        """Entries of the allocator by file and line, of all operations."""
        script = 'uprobe:PROGRAM:"runtime.mallocgc*" { @[*reg("sp"), ustack(perf, 28)] = count(); }'
        # bpftrace splits the command at blanks; nothing else has a meaning.
        command = " ".join([str(self.program), *self.arguments(name, operations)])
        environment = {**os.environ, "BPFTRACE_MAP_KEYS_MAX": "100000"}
        script = script.replace("PROGRAM", str(self.program))
        said = ran(["bpftrace", "-e", script, "-c", command], self.directory, env=environment)
        if "Benchmark" not in said or "lost" in said.lower():
            sys.exit(f"bench: bpftrace did not count {name}")
        stacks = []
        for returns, frames, count in re.findall(r"@\[(\d+), *\n((?:\t.*\n)*)\]: (\d+)", said):
            # The first is the probe itself, the second would be its caller, had it made its frame already.
            outer = [int(frame.split()[0], 16) for frame in frames.splitlines() if frame.split()][1:]
            stacks.append(([int(returns), *outer], int(count)))
        places = self.places({address for stack, _ in stacks for address in stack})
        lines = Counter()
        for stack, count in stacks:
            functions = [places[address] for address in stack]
            # Each allocation enters mallocgc, and from there one of its kind, where all frames are made.
            if not functions[0][0].startswith("runtime.mallocgc"):
                continue
            for function, file, line in functions:
                if not function.startswith("runtime.") and not re.match(RUNTIME, function) and "/src/runtime/" not in file and "/src/internal/runtime/" not in file:
                    lines[(file, line)] += count
                    break
        return lines

    def places(self, addresses):
        """Function, file and line of calls by the addresses behind them."""
        addresses = sorted(addresses)
        said = ran(["go", "tool", "addr2line", str(self.program)], self.place, input="".join(f"{a - 1:x}\n" for a in addresses)).splitlines()
        places = {}
        for address, function, place in zip(addresses, said[::2], said[1::2]):
            file, _, line = place.rpartition(":")
            places[address] = (function, file, int(line) if line.isdigit() else 0)
        return places


def plain(function):
    """The name without type arguments, which pprof does not have."""
    return re.sub(r"\[.*\]", "[...]", function)


def of_benchmark(benchmark, run, operations, count):
    """The lines of a benchmark, with why they differ."""
    name = benchmark["name"]
    first, second = run.profile(name, operations), run.profile(name, 2 * operations)
    listed = run.listed(first)
    hide = f"-hide={RUNTIME}"
    hidden, twice = run.listed(first, hide), run.listed(second, hide)
    mallow, entries = Counter(), defaultdict(list)
    for line in benchmark["lines"]:
        inner = line["chain"][0]
        key = (plain(inner["function"]), inner["file"], inner["line"])
        mallow[key] += line["allocations"]
        entries[key].append(line)
    near = lambda a, b: abs(a - b) <= max(0.02 * max(a, b), LEAST)
    lines = []
    for key in {*listed, *hidden, *mallow}:
        mine, theirs = mallow[key], listed[key] / operations
        if max(mine, theirs) < LEAST:
            continue
        slope, taken = (twice[key] - hidden[key]) / operations, hidden[key] / operations
        small = [line for line in entries[key] if may_be_tiny(line)]
        if near(mine, theirs):
            why = "same"
        elif near(mine, taken) or (near(mine, slope) and not near(taken, theirs)):
            why = "runtime"
        elif near(mine, slope) or abs(mine - slope) < abs(mine - theirs) / 4:
            why = "set-up"
        elif mine < LEAST and in_testing(key):
            why = "set-up"
        elif small and mine > slope:
            why = "tiny"
        else:
            why = "other"
        line = {"benchmark": name, "function": key[0], "file": key[1], "line": key[2], "why": why, "entries": len(entries[key])}
        line |= {"mallow": mine, "list": theirs, "hidden": taken, "slope": slope, "set_up": any("part" in l for l in entries[key])}
        line["allocates"] = sorted({line["what"] for line in entries[key]})
        lines.append(line)
    differing = [line for line in lines if line["why"] != "same"]
    if count and differing:
        few, many = run.counted(name, operations // 2), run.counted(name, operations)
        together = Counter()
        for line in lines:
            together[(line["file"], line["line"])] += line["mallow"]
        for line in differing:
            at = (line["file"], line["line"])
            line["counted"] = (many[at] - few[at]) / (operations - operations // 2)
            line["right"] = near(together[at], line["counted"])
    lines.sort(key=lambda line: -max(line["mallow"], line["list"]))
    return lines


def in_testing(key):
    """Patterns are compiled into regular expressions for each run, with as many allocations as the order of a map makes."""
    return key[0].startswith(("regexp.", "regexp/syntax.", "testing."))


def may_be_tiny(line):
    """It has no pointers, as far as is known. A slice that grows is small at first."""
    call = line.get("call") or {}
    return not (call.get("type") or {}).get("pointers", False)


def describe(line):
    counted = f", counted {line['counted']:.3f}{'' if line['right'] else ' (!)'}" if "counted" in line else ""
    return (
        f"{line['why']:8} mallow {line['mallow']:.3f}, list {line['list']:.3f}{counted}: {line['benchmark']} "
        f"{os.path.basename(line['file'])}:{line['line']} {line['function']} {line['allocates']} slope {line['slope']:.3f} hidden {line['hidden']:.3f}"
    )


def sums(report):
    by = defaultdict(lambda: [0, 0.0])
    for line in report["lines"]:
        by[line["why"]][0] += 1
        by[line["why"]][1] += max(line["mallow"], line["list"])
    return by


def row(report):
    by = sums(report)
    lines = report["lines"]
    cells = [f"{report['module']} {report['package']}".removesuffix(" ."), str(len({l["benchmark"] for l in lines})), str(len(lines))]
    cells += [str(by[why][0]) for why in ["same", "set-up", "runtime", "tiny", "other"]]
    cells.append(str(sum(1 for line in lines if line["entries"] > 1)))
    counted = [line for line in lines if "right" in line]
    cells.append(f"{sum(line['right'] for line in counted)} of {len(counted)}" if counted else "")
    return "| " + " | ".join(cells) + " |"


def table(reports):
    head = "| | benchmarks | lines | the same | set-up | runtime | tiny | other | several entries | Mallow as counted |"
    return "\n".join(["", head, "| --- " * 10 + "|", *(row(report) for report in reports)])


if __name__ == "__main__":
    sys.exit(main())
