#!/usr/bin/env python3
"""Whether the first remedy of `mallow rss` releases what it says.

Each program is recorded, and `mallow rss --at end` names remedies with estimates. The first one that needs no change of the program is then
carried out without Mallow: a setting of the environment, or malloc_trim(0) at the end. The program's own RSS at its end, with and without it,
is the truth. Figures go to build/bench/predictions.json.
"""

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from workloads import BUILD, ROOT, Missing

MALLOW = Path(os.environ.get("MALLOW_BIN", ROOT / "target" / "release" / "mallow")).resolve()
AT_EXIT = BUILD / "libresident_at_exit.so"
NEAR = 0.10
"""Of the larger one of both: a prediction is right within this. One that is not sure has a range, and holds within that."""
WANTED = 0.8
"""The share of programs for which it has to be right or to hold."""

SQL = (
    "create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<300000) "
    "insert into t select x, x*7%1000||'text' from c; create index i on t(b); select count(*) from t; drop table t;"
)
PYTHON = "import json; x = [json.dumps({'a': i, 'b': [1, 2, 3]}) for i in range(200000)]; y = x[::50]; del x"
PERL = "my %h; $h{$_} = 'x' x ($_ % 300) for 1..200000; delete @h{grep { $_ % 9 } keys %h}; print scalar keys %h"
NODE = "let a = []; for (let i = 0; i < 300000; i++) a.push({i, s: 'x' + i}); a = a.filter(o => o.i % 9 == 0); console.log(a.length)"
CPP = "#include <map>\n#include <regex>\n#include <iostream>\nint main() { std::map<int, std::regex> m; std::cout << m.size(); }\n"
JAVA = (
    "import java.util.*; public class Main { public static void main(String[] a) { List<byte[]> l = new ArrayList<>(); "
    "for (int i = 0; i < 3000; i++) l.add(new byte[10000]); System.out.println(l.size()); } }"
)


RUNS = 3
"""With a setting, and without it."""


class Program:
    """A command, the name of its process, and what is set for it."""

    def __init__(self, name, command, process=None, environment=None, drive=None):
        self.name, self.command, self.process = name, command, process or name
        self.environment, self.drive = environment or {}, drive


def programs(place):
    """Those that are here."""
    (place / "m.cpp").write_text(CPP)
    (place / "Main.java").write_text(JAVA)
    rows = [{"id": n, "tags": ["a", "b", str(n)], "text": "x" * (n % 90)} for n in range(60000)]
    (place / "rows.json").write_text(json.dumps(rows))
    (place / "words").write_text("".join(f"{n * 7919 % 100003} word{n}\n" for n in range(400000)))
    preprocessed = place / "m.ii"
    found = []

    def add(name, tool, *arguments, **more):
        path = shutil.which(tool)
        if path is not None:
            found.append(Program(name, [path, *arguments], **{"process": os.path.basename(path), **more}))

    add("sqlite3", "sqlite3", ":memory:", SQL)
    add("python3", "/usr/bin/python3", "-c", PYTHON, environment={"PYTHONMALLOC": "malloc"})
    add("perl", "perl", "-e", PERL)
    add("git", "git", "-C", str(ROOT), "log", "--stat", "-n", "400")
    if shutil.which("g++"):
        subprocess.run(["g++", "-E", place / "m.cpp", "-o", preprocessed], check=True)
        compiler = subprocess.run(["g++", "-print-prog-name=cc1plus"], capture_output=True, text=True, check=True).stdout.strip()
        add("cc1plus", compiler, "-quiet", "-O1", str(preprocessed), "-o", str(place / "m.s"))
    add("jq", "jq", "map(select(.id % 9 == 0)) | length", str(place / "rows.json"))
    add("gdb", "gdb", "-batch", "-nx", "-ex", "info line main", "-ex", "info types map", str(MALLOW))
    add("mawk", "mawk", "{ a[$1] = $2 } END { for (k in a) if (k % 9) delete a[k]; print length(a) }", str(place / "words"))
    add("node", "node", "-e", NODE)
    add("java", "java", "-Xmx200m", str(place / "Main.java"))
    add("redis-server", "redis-server", "--port", "7391", "--save", "", "--appendonly", "no", drive=redis)
    add("sort", "sort", "--parallel=2", str(place / "words"))
    add("cmake", "cmake", "--help-full")
    add("clang-format", "clang-format", str(ROOT / "preload" / "walk" / "unwind.c"))
    return found


def redis(process):
    """Fills the server and empties most of it again."""
    cli = ["redis-cli", "-p", "7391"]
    while subprocess.run([*cli, "ping"], capture_output=True, text=True).stdout.strip() != "PONG":
        if process.poll() is not None:
            raise Missing("redis-server ended")
        time.sleep(0.1)
    fill = "for i = 1, 200000 do redis.call('set', 'k' .. i, string.rep('x', i % 400)) end"
    empty = "for i = 1, 200000 do if i % 20 ~= 0 then redis.call('del', 'k' .. i) end end"
    for script in (fill, empty):
        subprocess.run([*cli, "eval", script, "0"], check=True, capture_output=True)
    subprocess.run([*cli, "shutdown", "nosave"], capture_output=True)


def run(program, before, environment, place):
    """Runs it to its end."""
    own = {**os.environ, **program.environment, **environment}
    with open(place / "output", "wb") as out:
        process = subprocess.Popen([*before, *program.command], stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=own, cwd=place)
        try:
            if program.drive:
                program.drive(process)
            process.wait(300)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def at_end(program, environment, place):
    """RSS at the end, and after malloc_trim where that is asked for."""
    answer = place / "answer"
    answer.unlink(missing_ok=True)
    preload = " ".join(filter(None, [str(AT_EXIT), os.environ.get("LD_PRELOAD")]))
    run(program, [], {"RESIDENT_AT_EXIT": str(answer), "LD_PRELOAD": preload, **environment}, place)
    lines = [line.rsplit(" ", 2) for line in answer.read_text().splitlines()] if answer.exists() else []
    sizes = [(int(before), int(after)) for name, before, after in lines if name.startswith(program.process[:15])]
    if not sizes:
        raise Missing(f"{program.name} did not say what it had at its end")
    return max(sizes)


def carry_out(program, remedy, place):
    """What the remedy released."""
    if remedy["remedy"] == "malloc_trim":
        before, after = at_end(program, {"RESIDENT_TRIM": "1"}, place)
        return before, before - after
    name, value = remedy["setting"].split("=", 1)
    # Runs differ: medians of some, in turns.
    runs = [(at_end(program, {}, place)[0], at_end(program, {name: value}, place)[0]) for _ in range(RUNS)]
    before, after = (statistics.median(sizes) for sizes in zip(*runs))
    return int(before), int(before - after)


NOTHING = {"remedy": "malloc_trim", "setting": "malloc_trim(0)", "expected_bytes": 0, "certainty": "none"}


def judged(program, place):
    """The prediction and the truth of a program."""
    recording = place / f"{program.name}.mallow"
    run(program, [MALLOW, "record", "--no-report", "-o", recording, "--"], {}, place)
    view = [MALLOW, "rss", "--json", "--at", "end", "--process", program.process, recording]
    shown = subprocess.run(view, capture_output=True, text=True)
    if shown.returncode != 0:
        raise Missing(f"{program.name}: {shown.stderr.strip()}")
    account = json.loads(shown.stdout)
    can = [remedy for remedy in account["remedies"] if remedy["setting"]]
    remedy = can[0] if can else NOTHING
    before, released = carry_out(program, remedy, place)
    expected = remedy["expected_bytes"]
    # What is less than a hundredth of RSS has no row: then the remedy must release no more than that.
    near = max(NEAR * max(expected, released), before / 100 if remedy is NOTHING else 0)
    return {
        "program": program.name,
        "remedy": remedy["setting"] if remedy is not NOTHING else "none (malloc_trim(0))",
        "certainty": remedy["certainty"],
        "rss": account["rss"],
        "rss_bare": before,
        "expected": expected,
        "released": released,
        "right": abs(expected - released) <= near,
        "holds": remedy.get("least_bytes", 0) * (1 - NEAR) <= released <= expected * (1 + NEAR) + near,
    }


def main():
    rows = []
    wanted = sys.argv[1:]
    with tempfile.TemporaryDirectory() as place:
        place = Path(place)
        for program in programs(place):
            if wanted and program.name not in wanted:
                continue
            try:
                rows.append(judged(program, place))
            except Missing as missing:
                print(f"bench: {missing}", file=sys.stderr)
                continue
            row = rows[-1]
            print(f"{row['program']}: {row['remedy']} expected {row['expected']:,}, released {row['released']:,}", file=sys.stderr)
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "predictions.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    print("| program | RSS at the end | first remedy | expected | released | off |")
    print("| --- | --- | --- | --- | --- | --- |")
    megabytes = lambda size: f"{size / 1e6:.2f} MB"
    for row in rows:
        larger = max(abs(row["expected"]), abs(row["released"]), 1)
        off = f"{(row['expected'] - row['released']) / larger:+.1%}{'' if row['right'] else ' in range' if row['holds'] else ' *'}"
        sizes = [megabytes(row[key]) for key in ("expected", "released")]
        print(f"| {row['program']} | {megabytes(row['rss_bare'])} | {row['remedy']} | {sizes[0]} | {sizes[1]} | {off} |")
    right = sum(row["right"] for row in rows)
    holds = sum(row["right"] or row["holds"] for row in rows)
    print(f"\n{right} of {len(rows)} within {NEAR:.0%}, {holds} of {len(rows)} within that or within the range that was reported")
    return 0 if rows and holds >= WANTED * len(rows) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Missing as missing:
        sys.exit(f"bench: {missing}")
