#!/usr/bin/env python3
"""A judge that nobody chose: programs that a seed picks, bare and under each of Mallow's ways of running them.

    strangers.py [SEED [COUNT]] [--only NAME,…] [--load N]

For each kind of statement there is an oracle that is not Mallow's (oracles/). Disagreements are a table, each with the
command that shows it; the exit status is 1 if there is one.
"""

import argparse
import fcntl
import sys
import time
import traceback
from pathlib import Path

import inputs
import install
import report
import table
from disagreement import Disagreement
from counter import build, build_waiter
from evidence import LIMIT, Evidence, NotUsable, bare, count, count_elsewhere, gather, record_filled, walk_bare_heap
from memcheck import Memcheck
from oracles import errors, filters, highest, lost, names, output, parts, samples, static, text, totals
from pick import pick
from places import BUILD, MALLOW
from shape import shape_of_environment

ORACLES = (output, totals, parts, filters, lost, highest, names, text, errors, samples)

MORE_COUNTS = 22
"""Of a row whose totals or guarded allocations disagree: chance and addresses may decide a block once in several runs. What
happens in one run of five shows in 24 counts, but for one row in 200."""
SEEDED_S = 1.0
"""Pause before each: libxml2 and others seed the order of their tables by the time in seconds."""
COUNTING_S = 60.0
"""All of them take so long at the most: a slow program has fewer."""


def judge(evidence):
    """All disagreements of a row."""
    oracles = (output, static) if "static" in evidence.row.flags else ORACLES
    failed = [Disagreement("failure", evidence.row.name, where, said, "it ends, and can be read", command)
              for where, said, command in evidence.failures]
    return failed + [found for oracle in oracles for found in asked(oracle, evidence)]


def asked(oracle, evidence):
    """What an oracle finds. One that fails is a disagreement: the other rows are judged all the same."""
    try:
        return list(oracle.check(evidence))
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {error}, {Path(where.filename).name}:{where.lineno}"
        return [Disagreement(oracle.NAME, evidence.row.name, "the judge", said, "it does not fail", evidence.command("record"))]


def notes(evidence):
    """What could not be asked."""
    name = evidence.row.name
    if "static" not in evidence.row.flags and not isinstance(evidence.memcheck, Memcheck):
        yield f"{name}: lost blocks and memory errors: {evidence.memcheck}"
    if "inside" in evidence.row.flags:
        yield f"{name}: totals are a lower bound alone: {table.FLAGS['inside']}"
    if evidence.is_volatile and "volatile" not in evidence.row.flags:
        yield f"{name}: output compared loosely: two bare runs differ, and commands.tsv does not say so"
    if any(recording.page is None for condition, recording in evidence.record.items() if condition == "quiet"):
        yield f"{name}: the page: no browser"
    try:
        for line in sorted({line for recording in evidence.record.values() for line in text.unread(recording)}):
            yield f"{name}: a sentence that no rule reads: {line}"
    except Exception as error:
        yield f"{name}: sentences that no rule reads: the judge fails, {type(error).__name__}: {error}"


def check_table(rows):
    """Runs each command bare, and says which cannot be installed, fail, or differ without the flag that says so."""
    wrong = 0
    for row in rows:
        evidence = Evidence(row)
        why = install.install(row)
        try:
            if why:
                raise NotUsable(f"cannot be installed: {why}")
            bare(evidence)
        except NotUsable as unusable:
            why = str(unusable)
        else:
            seconds = evidence.bare[0].seconds
            why = f"takes {seconds:.1f} s" if seconds > 8 else None
            if evidence.is_volatile and "volatile" not in row.flags:
                why = "differs between two bare runs, and has no flag"
        if why:
            wrong += 1
            print(f"{row.name}: {why}", flush=True)
    return 1 if wrong else 0


def main():
    """Picks, installs, runs, judges, prints."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("seed", nargs="?", type=int, default=7)
    arguments.add_argument("count", nargs="?", type=int, default=20)
    arguments.add_argument("--only", default="", help="names of rows, instead of a pick")
    arguments.add_argument("--load", type=int, default=4, help="so many `yes` beside the second half of the runs")
    arguments.add_argument("--table", action="store_true", help="only check the table's flags, by bare runs")
    given = arguments.parse_args()
    if not MALLOW.exists():
        sys.exit(f"strangers: {MALLOW} is missing: make build, or MALLOW_BIN")
    BUILD.mkdir(parents=True, exist_ok=True)
    lock = (BUILD / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"strangers: another one runs in {BUILD}")
    inputs.make()
    build(), build_waiter()
    rows = table.read()
    names_of = given.only.split(",") if given.only else []
    chosen = [row for row in rows if row.name in names_of] if names_of else pick(rows, given.seed, given.count)
    if given.table:
        return check_table(chosen if names_of else rows)
    shape = shape_of_environment()
    found, skipped, remarks, judged = [], [], [], 0
    for row in chosen:
        began = time.monotonic()
        why = install.install(row)
        try:
            if why:
                raise NotUsable(f"cannot be installed: {why}")
            evidence = gather(row, shape, given.load)
        except NotUsable as unusable:
            skipped.append((row.name, str(unusable)))
            print(f"strangers: {row.name}: not judged: {unusable}", file=sys.stderr, flush=True)
            continue
        here = judge(evidence)
        if any(one.oracle in (totals.NAME, errors.NAME) for one in here):
            # What happens once in several runs, two counts do not show.
            count(evidence, shape, MORE_COUNTS, LIMIT, COUNTING_S, SEEDED_S)
            count_elsewhere(evidence, shape, LIMIT)
            here = judge(evidence)
        if any(one.oracle == lost.NAME for one in here):
            record_filled(evidence, LIMIT)
            walk_bare_heap(evidence)
            here = judge(evidence)
        judged += 1
        found += here
        remarks += notes(evidence)
        print(
            f"strangers: {row.name}: {len(here)} disagreements, {time.monotonic() - began:.0f} s",
            file=sys.stderr,
            flush=True,
        )
        for one in here:
            print(f"    {one.oracle} | {one.where} | {one.said} | {one.right}", file=sys.stderr, flush=True)
    print(report.text(found, skipped, remarks, judged, given.seed))
    return 1 if found or not judged else 0


if __name__ == "__main__":
    sys.exit(main())
