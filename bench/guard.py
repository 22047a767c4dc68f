#!/usr/bin/env python3
"""What guarding costs: sampled guards beside plain sampling, and a guard for every allocation beside memcheck and other
allocators with guard pages.

Three tables: a pair of malloc and free where samples are guarded (`watch --guard` over `watch`, and GWP-ASan over its
allocator); peak memory of programs under the same; and eight programs with every allocation guarded. Figures are medians of
BENCH_RUNS alternating runs (default 5), in table 3 of three at most. All figures go to build/bench/guard.json.
"""

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import bench
import measure
import variants
import workloads
from workloads import BUILD, Missing, Workload, need, write_once

PAIRS = 20_000_000
SLOT_PAIRS = 50_000
GOAL_NS = 1.0
"""Nanoseconds that a pair may take more because its sample is guarded."""
GOAL_MEMORY = 1.0
"""Per cent of peak memory."""
SLOT_RUNS = 3


# ---- ways to guard ----


class Guard(variants.Mallow):
    """`mallow guard`, with the options in `mode`."""

    def command(self, target, out):
        return [str(self.program()), "guard", *self.mode.split(), "-o", f"{out}.txt", "--", *target]

    def recording(self, out):
        return None


class Watched(variants.Watched):
    """`mallow watch`, with the options in `mode`."""

    def command(self, target, out):
        return [str(self.program()), "watch", *self.mode.split(), "--every", "1h", "--period", f"{variants.PERIOD}B",
                "-o", f"{out}.txt", "--", *target]


class Memcheck(variants.Variant):
    """valgrind's default tool. It runs the target in its own process, so its start is the target's."""

    def check(self):
        need("valgrind", "apt-get install valgrind")

    def command(self, target, out):
        timed = target[:3]
        return [*timed, "valgrind", f"--log-file={out}.txt", *target[3:]]


@dataclass
class Library(variants.Variant):
    """Another allocator, which guards."""

    pattern: str
    package: str
    settings: dict

    def library(self):
        return sorted(Path("/usr/lib").glob(self.pattern))[-1:]

    def check(self):
        if not self.library():
            raise Missing(f"{Path(self.pattern).name} is missing: apt-get install {self.package}")

    def environment(self):
        return {"LD_PRELOAD": str(self.library()[0]), **self.settings}


SCUDO = ("llvm-*/lib/clang/*/lib/linux/libclang_rt.scudo_standalone-x86_64.so", "libclang-rt-19-dev")
# An allocation in 4,096 of 128 bytes is one in 512 KiB.
GWP_ASAN = {"SCUDO_OPTIONS": "GWP_ASAN_SampleRate=4096:GWP_ASAN_MaxSimultaneousAllocations=2048"}

SAMPLING = [
    Watched("watch", "mallow watch", ""),
    Watched("watch-guard", "**mallow watch --guard**", "--guard"),
    Library("scudo", "scudo", *SCUDO, {"SCUDO_OPTIONS": "GWP_ASAN_Enabled=false"}),
    Library("gwp-asan", "scudo's GWP-ASan, 1 in 4,096", *SCUDO, GWP_ASAN),
]
OVER = {"watch-guard": "watch", "gwp-asan": "scudo"}

EVERY = [
    variants.Variant("bare", "bare"),
    Guard("guard", "**mallow guard**", ""),
    Guard("guard-sample", "**mallow guard --sample 64KiB**", "--sample 64KiB"),
    Memcheck("memcheck", "valgrind memcheck"),
    Library("efence", "Electric Fence", "libefence.so.0", "electric-fence", {"EF_PROTECT_FREE": "1", "EF_ALLOW_MALLOC_0": "1"}),
    Library("duma", "DUMA", "libduma.so.0", "duma", {"DUMA_PROTECT_FREE": "-1", "DUMA_OUTPUT_STDERR": "0"}),
    Library("tcmalloc", "gperftools' page fence", "*/libtcmalloc_debug.so.4", "libgoogle-perftools4",
            {"TCMALLOC_PAGE_FENCE": "1"}),
]


# ---- programs ----


def sqlite(quick):
    shell = need("sqlite3", "apt-get install sqlite3")
    rows = 300 if quick else 3000
    script = write_once(f"guard-{rows}.sql", lambda: (workloads.ROOT / "examples/sqlite/events.sql").read_text().replace("300000", str(rows)))
    return Workload("sqlite", "sqlite3", [shell, "-batch", ":memory:", f".read {script}"])


def python(quick):
    count = 1 if quick else 20
    program = f"import ast, json, string; [ast.dump(ast.parse(open(string.__file__).read())) for i in range({count})]; print(len(json.dumps(list(range({count}000)))))"
    return Workload("python", "python3", [sys.executable, "-c", program], {"PYTHONMALLOC": "malloc"})


def jq(quick):
    tool = need("jq", "apt-get install jq")
    document = write_once("guard.json", lambda: json.dumps([{"id": n, "name": f"n{n % 97}", "of": [n, n + 1]} for n in range(2000)]))
    return Workload("jq", "jq", [tool, "-c", ".[:20]" if quick else "group_by(.name) | map({n: .[0].name, s: (map(.of | add) | add)})", str(document)])


def cc1(quick):
    driver = need("gcc", "apt-get install gcc")
    source = workloads.ROOT / "bench" / ("timed.c" if quick else "pair.c")
    expanded = BUILD / "input" / f"{source.stem}.i"
    expanded.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([driver, "-E", "-o", expanded, source], check=True)
    compiler = subprocess.run([driver, "-print-prog-name=cc1"], check=True, capture_output=True, text=True).stdout.strip()
    level = "-O0" if quick else "-O2"
    return Workload("cc1", "cc1", [compiler, "-fpreprocessed", "-quiet", level, "-o", os.devnull, str(expanded)])


def git(quick):
    tool = need("git", "apt-get install git")
    where = BUILD / "input" / "guard.git"
    if not where.exists():
        subprocess.run([tool, "init", "-q", "--bare", f"{where}.new"], check=True)
        subprocess.run([tool, "-C", f"{where}.new", "fast-import", "--quiet"], input=history(), check=True)
        Path(f"{where}.new").rename(where)
    return Workload("git", "git log", [tool, "-C", str(where), "--no-pager", "log", "--stat", "-n", "20" if quick else "400", "main"])


def history():
    """400 commits, as git reads them."""
    stream = []
    for number in range(400):
        text = "".join(f"line {line * number % 89}\n" for line in range(60))
        stream.append(f"commit refs/heads/main\ncommitter A <a@example.com> {1700000000 + number} +0000\ndata 6\nchange\n"
                      f"M 644 inline file{number % 23}\ndata {len(text)}\n{text}\n")
    return "".join(stream).encode()


PERL = """
my (%counts, $sum);
for my $i (1 .. COUNT * 1500) { $counts{"key" . $i * 7919 % 100003 . "x" . $i % 37} .= "v$i;" }
for my $key (sort keys %counts) {
    next unless $key =~ /(\\d+)x(\\d+)$/ and $1 % 3 == $2 % 3;
    my @parts = split /;/, $counts{$key};
    (my $upper = $key) =~ s/([a-z])/uc $1/ge;
    $sum += @parts + length $upper;
}
my @records = map { { id => $_, name => "n$_", tags => [$_, $_ + 1, "t$_"] } } 1 .. COUNT * 150;
$sum += $_->{tags}[1] for @records;
print "$sum\\n";
"""

NODE = """
const records = Array.from({length: COUNT * 300}, (_, i) => ({id: i, name: `name${i}`, tags: [`a${i % 13}`], of: {x: [i, i + 1]}}));
const text = JSON.stringify(records), zlib = require("zlib"), vm = require("vm");
let sum = 0;
for (let turn = 0; turn < 10; turn++) {
    for (const record of JSON.parse(text)) sum += record.of.x[1];
    for (let i = 0; i < COUNT * 30; i++) sum += Buffer.allocUnsafeSlow(100 + i).length;
}
for (let i = 0; i < COUNT / 5; i++) sum += zlib.inflateSync(zlib.deflateSync(text.slice(0, 200000))).length;
for (let i = 0; i < COUNT; i++) sum += vm.runInNewContext("x * 2", {x: i});
console.log(sum);
"""

LUA = """
local texts, sum = {}, 0
for i = 1, COUNT * 600 do texts[i] = "k" .. i .. ":" .. i * 7919 % 100003 end
for turn = 1, 6 do
    for _, text in ipairs(texts) do
        local a, b = text:match("k(%d+):(%d+)")
        sum = sum + #(a .. b .. turn)
    end
end
local objects = {}
for i = 1, COUNT * 600 do objects[i] = {id = i, name = "n" .. i, f = function() return i end} end
for _, object in ipairs(objects) do sum = sum + object.f() end
print(sum, #table.concat(texts, ","))
"""


def script(name, package, suffix, text):
    """An interpreter, which allocates each value by itself."""

    def make(quick):
        tool = need(name, f"apt-get install {package}")
        count = 2 if quick else 100
        return Workload(name, name, [tool, str(write_once(f"guard-{count}.{suffix}", lambda: text.replace("COUNT", str(count))))])

    return make


SCRIPTS = [script("perl", "perl", "pl", PERL), script("node", "nodejs", "js", NODE), script("lua5.4", "lua5.4", "lua", LUA)]
PROGRAMS = [sqlite, python, jq, cc1, git, *SCRIPTS]


# ---- measuring ----


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small programs and one run: does everything work?")
    parser.add_argument("--runs", type=int, default=int(os.environ.get("BENCH_RUNS", 5)), help="(BENCH_RUNS) default 5")
    options, _ = parser.parse_known_args()
    runs = 1 if options.quick else max(options.runs, 1)
    programs = made(options.quick)
    pairs = pair("pair", PAIRS // 100 if options.quick else PAIRS)
    slots = pair("slots", SLOT_PAIRS // 100 if options.quick else SLOT_PAIRS)
    results = {"machine": bench.machine(), "runs": runs, "load": os.getloadavg()}
    results["pair"] = measured(usable(SAMPLING), [pairs], runs)
    results["memory"] = measured(usable(SAMPLING), programs, runs)
    results["every"] = measured(usable(EVERY), [slots, *programs], min(runs, SLOT_RUNS))
    (BUILD / "guard.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
    print("\n".join([*pair_table(results), *memory_table(results), *every_table(results)]))
    return 1 if failures(results) else 0


def made(quick):
    programs = []
    for make in PROGRAMS:
        try:
            programs.append(make(quick))
        except Missing as missing:
            print(f"bench: {missing} (left out)", file=sys.stderr)
    return programs


def usable(chosen):
    found = []
    for variant in chosen:
        try:
            variant.check()
            found.append(variant)
        except Missing as missing:
            print(f"bench: {missing} (left out)", file=sys.stderr)
    return [variant for variant in found if OVER.get(variant.name) in (None, *(other.name for other in found))]


def pair(name, count):
    return Workload(name, "100 B pair", [str(BUILD / "pair"), "128", "1", str(count)], pair=True)


def measured(chosen, programs, runs):
    """The runs of each program under each variant: {program: {variant: [figures] or a reason}}."""
    results = {}
    for program in programs:
        print(f"bench: guard: {program.name}", file=sys.stderr, flush=True)
        bare = measure.run(variants.Variant("bare", "bare"), program).output
        entry = results[program.name] = {variant.name: [] for variant in chosen}
        for turn in range(runs + 1):
            for variant in chosen:
                if isinstance(entry[variant.name], str):
                    continue
                figures = attempt(variant, program, bare)
                if turn > 0 or isinstance(figures, str):  # the first warms caches up
                    entry[variant.name] = figures if isinstance(figures, str) else [*entry[variant.name], figures]
    return results


def attempt(variant, program, bare):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        result = measure.run(variant, program)
        bench.check_output(program, result, {"output": bare})
    except measure.Failed as failed:
        return reason(str(failed))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    whole = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**result.times, "command": whole, "kib": result.maxrss_kib}


def reason(text):
    """Why a run gave no figure, from the last words of the target."""
    error = (measure.WORK / "text").read_text(errors="replace")
    said = re.search(r"^.*(Cannot allocate memory|failed|out of memory|Abort).*$", error, re.MULTILINE | re.IGNORECASE)
    return (said.group(0) if said else text).strip()[:100]


def failures(results):
    """Runs of Mallow's that failed."""
    return [f"{program}: {name}" for part in ("pair", "memory", "every") for program, entry in results[part].items()
            for name, runs in entry.items() if isinstance(runs, str) and name.startswith(("guard", "watch"))]


# ---- tables ----


def middle(runs, key):
    return statistics.median(run[key] for run in runs)


def pair_table(results):
    entry = results["pair"]["pair"]
    lines = [f"\n1. A pair of 128 B, CPU time; a sample's guard may add {GOAL_NS:.0f} ns\n", "| | median | least | over the same without guards |", "| --- | --- | --- | --- |"]
    for variant in [v for v in SAMPLING if v.name in entry]:
        runs = entry[variant.name]
        if isinstance(runs, str):
            lines.append(f"| {variant.title} | failed: {runs} | | |")
            continue
        least = min(run["processor"] for run in runs)
        more = ""
        base = entry.get(OVER.get(variant.name))
        if base and not isinstance(base, str):
            median = middle(runs, "processor") - middle(base, "processor")
            more = f"{median:+.2f} ns; {least - min(run['processor'] for run in base):+.2f} ns{', too much' if median > GOAL_NS else ''}"
        lines.append(f"| {variant.title} | {middle(runs, 'processor'):.2f} ns | {least:.2f} ns | {more} |")
    return lines


def memory_table(results):
    programs = results["memory"]
    lines = [f"\n2. Peak memory of the target where samples are guarded; goal: {GOAL_MEMORY:.0f} % more\n", f"| | {' | '.join(programs)} |", "| --- |" + " --- |" * len(programs)]
    for variant in SAMPLING:
        cells = []
        for entry in programs.values():
            runs, base = entry.get(variant.name), entry.get(OVER.get(variant.name))
            if runs is None:
                break
            if isinstance(runs, str):
                cells.append(f"failed: {runs}")
                continue
            share = f" ({100 * (middle(runs, 'kib') / middle(base, 'kib') - 1):+.1f} %)" if base and not isinstance(base, str) else ""
            cells.append(f"{middle(runs, 'kib') / 1024:.1f} MB{share}")
        if cells:
            lines.append(f"| {variant.title} | {' | '.join(cells)} |")
    return lines


def every_table(results):
    programs = {name: entry for name, entry in results["every"].items() if name != "slots"}
    lines = ["\n3. Every allocation guarded: wall time of the target, CPU time of the whole command, peak memory of the target\n",
             f"| | {' | '.join(programs)} | pairs a second |", "| --- |" + " --- |" * (len(programs) + 1)]
    for variant in [v for v in EVERY if v.name in results["every"]["slots"]]:
        cells = [cell(entry[variant.name]) for entry in programs.values()]
        slots = results["every"]["slots"][variant.name]
        cells.append(f"failed: {slots}" if isinstance(slots, str) else f"{1e9 / middle(slots, 'wall'):,.0f}")
        lines.append(f"| {variant.title} | {' | '.join(cells)} |")
    return lines


def cell(runs):
    if isinstance(runs, str):
        return f"failed: {runs}"
    return f"{middle(runs, 'wall'):.2f} s; {middle(runs, 'command'):.2f} s; {middle(runs, 'kib') / 1024:.0f} MB"


if __name__ == "__main__":
    sys.exit(main())
