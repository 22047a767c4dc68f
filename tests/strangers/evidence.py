"""What is known of one command: its bare runs, what oracles counted, what Mallow wrote in each way of running it."""

import json
import os
import shlex
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import bare_heap
import counter
import memcheck
import page
from places import FOUND, MALLOW
from run import WORK, Run, environment, load, run

QUIET, LOADED = "quiet", "beside yes"
PERIOD = "16KiB"
"""Of watch: small, so that small programs have samples."""
LIMIT = 60.0
"""Seconds that a bare command may take; slower ones are no rows for this table."""
SLOWER = 30.0
"""A run under a tool may take so many times as long as bare, and LIMIT more."""
PROCESSES = 12
"""Of a recording with more processes, filters are not tried: each is a run of mallow."""


@dataclass
class Recording:
    """What Mallow says of one recording, in each of its documents."""

    file: Path
    run: Run
    report: str = ""
    report_json: dict = field(default_factory=dict)
    leaks: str = ""
    leaks_json: dict = field(default_factory=dict)
    rss: str = ""
    rss_json: dict | None = None
    page: str | None = None
    lost_json: dict | None = None
    """What `leaks --only lost` says."""
    reachable_json: dict | None = None
    """What `leaks --only reachable` says, which leaves out what is suppressed."""
    by_process: dict = field(default_factory=dict)
    """What `leaks --process PID` says, of each process id."""
    gates: dict = field(default_factory=dict)
    """Exit statuses of `leaks --fail-on-leak`, by what `--only` selects; "" is everything."""


@dataclass
class Evidence:
    """All of a row. A key of the dictionaries is QUIET or LOADED."""

    row: object
    parent: int = field(default_factory=os.getpid)
    """Parent of the processes that are counted."""
    bare: list = field(default_factory=list)
    counts: list = field(default_factory=list)
    elsewhere: list = field(default_factory=list)
    """Counts with another allocator: blocks lie elsewhere, as they do under guard, and programs may order by addresses."""
    memcheck: object = "not asked"
    stat: dict = field(default_factory=dict)
    record: dict = field(default_factory=dict)
    watch: dict = field(default_factory=dict)
    guard: dict = field(default_factory=dict)
    rss: dict = field(default_factory=dict)
    highest: dict = field(default_factory=dict)
    filled: dict | None = None
    """The report of a run in which glibc fills each block that it hands out, where lost blocks disagree."""
    bare_walk: bare_heap.BareHeap | None = None
    """What nothing reaches in a bare run, where lost blocks disagree."""
    failures: list = field(default_factory=list)
    """Where, what went wrong, and the command that shows it."""

    @property
    def is_volatile(self):
        """Do two bare runs differ, or does the table say that they do?"""
        first, second = self.bare
        same = (first.stdout, first.stderr, first.status, first.files) == (
            second.stdout,
            second.stderr,
            second.status,
            second.files,
        )
        return "volatile" in self.row.flags or not same

    def range(self, word):
        """What the counts show of one of their words, over all processes."""
        return counter.Range.of([counter.total(images, word) for images in self.counts])

    def command(self, *mallow):
        """The command line that shows something."""
        line = f"mallow {shlex.join(map(str, mallow))} -- {shlex.join(self.row.arguments)}"
        return line + (f" < {self.row.stdin}" if self.row.stdin else "")


class NotUsable(Exception):
    """The command itself is none for this judge: it fails, or takes too long."""


def gather(row, shape, load_count):
    """Runs everything."""
    evidence = Evidence(row)
    place = FOUND / row.name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    bare(evidence)
    limit = LIMIT + SLOWER * max(run.seconds for run in evidence.bare)
    if "static" not in row.flags:
        count(evidence, shape, 2, limit)
        evidence.memcheck = memcheck.check(row)
    for condition, count_of_loads in ((QUIET, 0), (LOADED, load_count)):
        for tool in (stat, record, watch, guard, rss):
            with load(count_of_loads):
                tool(evidence, condition, place, limit)
    return evidence


def bare(evidence):
    """Twice, after once for caches; then it is known whether its output is always the same."""
    row = evidence.row
    for _ in range(3):
        done = run(row.arguments, row.stdin, limit_s=LIMIT)
        if done.timed_out:
            raise NotUsable(f"it takes more than {LIMIT:.0f} s")
        evidence.bare.append(done)
    evidence.bare.pop(0)
    fails = evidence.bare[0].status != 0
    if fails != ("fails" in row.flags):
        last = evidence.bare[0].stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise NotUsable(f"exit status {evidence.bare[0].status} {' '.join(last)[:120]}")


JEMALLOC = "libjemalloc.so.2"


def count_elsewhere(evidence, shape, limit):
    """Counts it naively twice, with jemalloc below the counter."""
    tally = counter.Counter(shape)
    try:
        below = {**tally.environment, "LD_PRELOAD": f"{tally.environment['LD_PRELOAD']}:{JEMALLOC}"}
        for _ in range(2):
            if run(evidence.row.arguments, evidence.row.stdin, below, limit).status == evidence.bare[0].status:
                evidence.elsewhere.append(tally.read())
    finally:
        tally.close()


FEW = 4
"""So many are made, however long a busy machine takes for them."""


def count(evidence, shape, times, limit, budget_s=None, pause_s=0.0):
    """Counts it naively, so often, with a pause before each; but FEW times, no more once `budget_s` seconds are over."""
    tally = counter.Counter(shape)
    began = time.monotonic()
    try:
        for counted in range(times):
            if budget_s is not None and counted >= FEW and time.monotonic() - began > budget_s:
                break
            time.sleep(pause_s)
            done = run(evidence.row.arguments, evidence.row.stdin, tally.environment, limit)
            if done.timed_out:
                raise NotUsable("the naive counter did not end")
            evidence.counts.append(tally.read())
    finally:
        tally.close()


def _run(evidence, limit, *mallow):
    done = run([MALLOW, *mallow, "--", *evidence.row.arguments], evidence.row.stdin, limit_s=limit)
    if done.timed_out:
        evidence.failures.append((f"mallow {mallow[0]}", f"did not end in {limit:.0f} s", evidence.command(*mallow)))
    return done


def _read(file):
    return file.read_text(errors="replace") if file.exists() else ""


def _written(evidence, condition, place, limit, tool, *options, last=str):
    """What a tool wrote: JSON on a quiet machine, text beside load, as one run cannot print both. `last` finds the document."""
    out = place / f"{tool}-{condition.split()[0]}"
    asked = ["--json"] if condition == QUIET else []
    done = _run(evidence, limit, tool, *asked, "-o", out, *options)
    text = _read(out)
    if condition == QUIET:
        text = last(text)
        return done, None if text is None else parsed(evidence, text, evidence.command(tool, *asked))
    return done, text


def _last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else None


def stat(evidence, condition, place, limit):
    """Under `mallow stat`."""
    evidence.stat[condition] = _written(evidence, condition, place, limit, "stat")


def record(evidence, condition, place, limit):
    """Records it, and asks for all views of the recording."""
    file = place / f"{condition.split()[0]}.mallow"
    done = _run(evidence, limit, "record", "-o", file)
    recording = evidence.record[condition] = Recording(file, done)
    if not file.exists():
        return
    recording.report, recording.leaks, recording.rss = (view(name, file) for name in ("report", "leaks", "rss"))
    recording.report_json, recording.leaks_json, recording.rss_json = (
        document(evidence, name, "--json", file) for name in ("report", "leaks", "rss")
    )
    recording.lost_json = document(evidence, "leaks", "--json", "--only", "lost", file)
    recording.reachable_json = document(evidence, "leaks", "--json", "--only", "reachable", file)
    if condition == QUIET:
        recording.page = page.text(file)
        pids = sorted({process["pid"] for process in (recording.report_json or {}).get("processes", [])})
        recording.by_process = {pid: document(evidence, "leaks", "--json", "--process", pid, file) for pid in pids[:PROCESSES]}
        recording.gates = {only: gate(only, file) for only in ("", "lost")}


def record_filled(evidence, limit):
    """Records it once more, with blocks that do not begin with what was freed there. memcheck's heap reuses little."""
    file = FOUND / evidence.row.name / "filled.mallow"
    row, filling = evidence.row, {"GLIBC_TUNABLES": "glibc.malloc.perturb=85"}
    command = [MALLOW, "record", "--no-report", "-o", file, "--", *row.arguments]
    if not run(command, row.stdin, filling, limit).timed_out and file.exists():
        evidence.filled = document(evidence, "report", "--json", file)


def walk_bare_heap(evidence):
    """Asks for what nothing reaches in a bare run, where lost blocks disagree."""
    WORK.mkdir(parents=True, exist_ok=True)
    evidence.bare_walk = bare_heap.walk(evidence.row, environment(), WORK)


def watch(evidence, condition, place, limit):
    """Under `mallow watch`: the last of its reports counts."""
    options = ("--period", PERIOD)
    evidence.watch[condition] = _written(evidence, condition, place, limit, "watch", *options, last=_last_line)


def guard(evidence, condition, place, limit):
    """Under `mallow guard`."""
    evidence.guard[condition] = _written(evidence, condition, place, limit, "guard")


def rss(evidence, condition, place, limit):
    """Under `mallow rss`, with a parent that asks the kernel for the truth of this very run."""
    row = evidence.row
    result = place / f"ru-maxrss-{condition.split()[0]}"
    waiter = counter.build_waiter()
    command = [MALLOW, "rss", "--", waiter, result, *row.arguments]
    done = run(command, row.stdin, limit_s=limit)
    kept = place / f"rss-{condition.split()[0]}.mallow"
    made = WORK / "waiter.mallow"
    if made.exists():
        shutil.move(made, kept)
    evidence.rss[condition] = (done, document(evidence, "rss", "--json", kept) if kept.exists() else None)
    if result.exists() and kept.exists():
        kib = int(result.read_text().split()[0])
        evidence.highest[condition] = (kib * 1024, document(evidence, "report", "--json", kept))


def gate(only, file):
    """The exit status of the gate for leaks."""
    selected = ["--only", only] if only else []
    command = [MALLOW, "leaks", "--fail-on-leak", *selected, file]
    return subprocess.run(command, capture_output=True, env=environment(), timeout=300).returncode


def view(*arguments):
    """What a view prints."""
    done = subprocess.run([MALLOW, *map(str, arguments)], capture_output=True, env=environment(), timeout=300)
    return done.stdout.decode(errors="replace")


def unique(pairs):
    """An object of JSON. Of two values of one key readers take either, and neither says so."""
    keys = [key for key, _ in pairs]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise ValueError(f"keys twice: {', '.join(twice)}")
    return dict(pairs)


def document(evidence, *arguments):
    """A view's JSON; None where it has nothing to show. Other JSON that cannot be read is a failure."""
    printed = view(*arguments)
    return parsed(evidence, printed, f"mallow {shlex.join(map(str, arguments))}") if printed.strip() else None


def parsed(evidence, printed, command):
    """JSON as an object; None, and a failure, where it cannot be read."""
    try:
        return json.loads(printed, object_pairs_hook=unique)
    except ValueError as error:
        evidence.failures.append(("JSON", str(error), command))
        return None
