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
"""Of the larger one of both: a prediction is right within this. The table names those that only lie in the range that was reported."""
WANTED = 0.8
"""The share of programs with a remedy for which it has to be right."""

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


TCL = """
for {set i 0} {$i < 200000} {incr i} { lappend all [list $i [string repeat x [expr {$i % 90}]]] }
set kept {}
foreach pair $all { if {[lindex $pair 0] % 9 == 0} { lappend kept $pair } }
unset all pair
puts [llength $kept]
"""
# A line each: that is how it reads them.
POSTGRES = """
select count(*) from (select array_agg(n) from generate_series(1, 400000) n group by n % 50000) a
create table t as select n, repeat('x', n % 90) as text from generate_series(1, 200000) n
select count(distinct text || n) from t
select length(string_agg(text, ',' order by n % 77)) from t
"""


RUNS = 3
"""With a remedy, and without it; and of recordings. Medians count: runs of programs with threads differ."""


class Program:
    """A command, the name of its process, what is set for it, what it reads, and what it is started by."""

    def __init__(self, name, command, process=None, environment=None, drive=None, reads=os.devnull, by=()):
        self.name, self.command, self.process = name, command, process or name
        self.environment, self.drive, self.reads, self.by = environment or {}, drive, reads, by


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
    server = ["redis-server", "--port", "7391", "--save", "", "--appendonly", "no"]
    add("redis-server", *server, drive=redis)
    # Its own library stays, and the C library's functions come first.
    add("redis-server with glibc", *server, drive=redis, environment={"LD_PRELOAD": "libc.so.6"})
    packs = place / "packs"
    subprocess.run(["git", "clone", "-q", "--bare", "--no-hardlinks", ROOT, packs], check=True)
    add("git repack", "git", "-C", str(packs), "repack", "-adfq")
    add("vim", "vim", "-u", "NONE", "-es", "+%s/word/another/g", "+%s/7/seven/g", "+q!", str(place / "words"), process="vim")
    (place / "lists.tcl").write_text(TCL)
    add("tclsh", "tclsh", str(place / "lists.tcl"), process="tclsh")
    add("nm", "nm", "--demangle", "--size-sort", str(MALLOW))
    add("readelf", "readelf", "--debug-dump=decodedline", str(AT_EXIT))
    if shutil.which("g++"):
        add("clang", "clang", "-cc1", "-O1", "-std=c++17", "-fcxx-exceptions", "-fexceptions", "-emit-obj", "-o", str(place / "m.o"), str(preprocessed))
    found.extend(postgres(place))
    add("sort", "sort", "--parallel=2", str(place / "words"))
    add("cmake", "cmake", "--help-full")
    add("clang-format", "clang-format", str(ROOT / "preload" / "walk" / "unwind.c"))
    return found


def postgres(place):
    """One backend with its tables, which root may not start."""
    found = shutil.which("postgres")
    programs = Path(found).resolve().parent if found else place
    if not (programs / "initdb").exists():
        return
    data = place / "postgres"
    data.mkdir()
    by = []
    if os.getuid() == 0:
        by = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        shutil.chown(data, "nobody", "nogroup")
    subprocess.run([*by, programs / "initdb", "-D", data, "-A", "trust", "-N"], check=True, capture_output=True, cwd="/")
    (place / "queries").write_text(POSTGRES)
    command = [str(programs / "postgres"), "--single", "-D", str(data), "postgres"]
    yield Program("postgres", command, reads=place / "queries", by=by)


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
    command = [*program.by, *before, *program.command]
    with open(place / "output", "wb") as out, open(program.reads, "rb") as reads:
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=reads, env=own, cwd=place)
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
    preload = " ".join(filter(None, [str(AT_EXIT), program.environment.get("LD_PRELOAD", os.environ.get("LD_PRELOAD"))]))
    run(program, [], {"RESIDENT_AT_EXIT": str(answer), "LD_PRELOAD": preload, **environment}, place)
    lines = [line.rsplit(" ", 2) for line in answer.read_text().splitlines()] if answer.exists() else []
    sizes = [(int(before), int(after)) for name, before, after in lines if name.startswith(program.process[:15])]
    if not sizes:
        raise Missing(f"{program.name} did not say what it had at its end")
    return max(sizes)


def carry_out(program, remedy, place):
    """What the remedy released."""
    if remedy["remedy"] == "malloc_trim":
        runs = [at_end(program, {"RESIDENT_TRIM": "1"}, place) for _ in range(RUNS)]
        released = statistics.median(before - after for before, after in runs)
        return int(statistics.median(before for before, _ in runs)), int(released)
    name, value = remedy["setting"].split("=", 1)
    runs = [(at_end(program, {}, place)[0], at_end(program, {name: value}, place)[0]) for _ in range(RUNS)]
    before, after = (statistics.median(sizes) for sizes in zip(*runs))
    return int(before), int(before - after)


NOTHING = {"remedy": "malloc_trim", "setting": "malloc_trim(0)", "expected_bytes": 0, "certainty": "none"}


def account_of(program, place):
    """What Mallow says of a run's end."""
    recording = place / f"{program.name}.mallow"
    run(program, [MALLOW, "record", "--no-report", "-o", recording, "--"], {}, place)
    view = [MALLOW, "rss", "--json", "--at", "end", "--process", program.process, recording]
    shown = subprocess.run(view, capture_output=True, text=True)
    if shown.returncode != 0:
        raise Missing(f"{program.name}: {shown.stderr.strip()}")
    return json.loads(shown.stdout)


def judged(program, place):
    """The prediction and the truth of a program."""
    accounts = [account_of(program, place) for _ in range(RUNS)]
    account = accounts[0]
    can = [remedy for remedy in account["remedies"] if remedy["setting"]]
    remedy = can[0] if can else NOTHING
    same = [one for account in accounts for one in account["remedies"] if can and one["setting"] == remedy["setting"]]
    before, released = carry_out(program, remedy, place)
    expected = int(statistics.median(one["expected_bytes"] for one in same)) if same else 0
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
        # Somebody else's process writes there, too.
        place.chmod(0o777)
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
    # That nothing helps is easily said.
    helped = [row for row in rows if row["certainty"] != "none"]
    others = [row for row in rows if row["certainty"] == "none"]
    right = sum(row["right"] for row in helped)
    holds = sum(row["right"] or row["holds"] for row in helped)
    print(f"\n{right} of {len(helped)} within {NEAR:.0%}, {holds} within that or within the range that was reported")
    print(f"{sum(row['right'] for row in others)} of {len(others)} for which nothing helps: nothing did")
    return 0 if helped and right >= WANTED * len(helped) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Missing as missing:
        sys.exit(f"bench: {missing}")
