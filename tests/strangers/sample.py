"""One program of which everything that Mallow says is true: tests change a word of it, and an oracle has to notice."""

import copy
from pathlib import Path

import memcheck
import table
from counter import Image
from evidence import Evidence, Recording
from run import Run

ROW = table.Row("leak", "c", "base", frozenset(), "leak 3")
TOTALS = {
    "allocations": 10,
    "allocated_bytes": 12_340,
    "frees": 7,
    "freed_bytes": 2_340,
    "temporary": 2,
    "temporary_bytes": 200,
    "live": 3,
    "live_bytes": 10_000,
    "peak": 5,
    "peak_bytes": 11_000,
    "reallocs_in_place": 1,
    "reallocs_moved": 0,
}
FAMILIES = [
    {"family": "malloc", "allocations": 9, "allocated_bytes": 12_000},
    {"family": "realloc", "allocations": 1, "allocated_bytes": 340},
]
STACK = {"frames": [{"function": "grow"}, {"function": "load"}, {"function": "main"}], "cut": False}
PLACE = {
    "function": "grow",
    "file": "a.c",
    "line": 3,
    "module": "/bin/leak",
    "address": "0x1234",
    "sites": 1,
    "largest_site": STACK,
}


def places(by, word):
    """One list of the report: two places, and the rest hidden."""
    whole = TOTALS[word]
    return {
        "by": by,
        "total": whole,
        "places": 3,
        "largest": [{**PLACE, word: whole - 1 - whole // 4}, {**PLACE, "function": "other", word: whole // 4}],
        "hidden": {"rows": 1, word: 1},
    }


REPORT = {
    "command": ["leak", "3"],
    "duration_ms": 200,
    "ran_ms": 200,
    "run_begin_ms": 0,
    "exit_wait_ms": 0,
    "table_wait_ms": 0,
    "other_waits_ms": 0,
    "threads_in_all": 1,
    "exit_status": 0,
    "lost": 0,
    "damaged": 0,
    **TOTALS,
    "peak_ms": 100,
    "families": FAMILIES,
    "processes": [
        {
            "pid": 7,
            "executable": "/bin/leak",
            "arguments": ["leak"],
            "start_ms": 10,
            "end_ms": 200,
            "threads": 1,
            "foreign_frees": 0,
            "own_peak_bytes": 11_000,
            "families": FAMILIES,
            **TOTALS,
        }
    ],
    "highest_rss": {
        "pid": 7,
        "ms": 150,
        "peak_rss": 4_000_000,
        "rss": 4_000_000,
        "live": 3,
        "live_bytes": 10_000,
        "recorded_live_bytes": 10_000,
        "live_resident_bytes": 8_000,
        "mallow_bytes": 1_500_000,
        "swap": 0,
    },
    "largest": [places("peak", "peak_bytes"), places("allocations", "allocations")],
    "leak_causes_in_all": 1,
    "leak_causes": [{**PLACE, "live": 3, "live_bytes": 10_000}],
    "leak_causes_hidden": None,
    "live_at_exec_blocks": 0,
    "live_at_exec_bytes": 0,
    "lost_blocks": 1,
    "lost_bytes": 4_000,
    "reachable_blocks": 2,
    "reachable_bytes": 6_000,
    "unscanned": [],
    "insights_in_all": 1,
    "small_in_all": 0,
    "insights": [
        {
            "kind": "temporary_block",
            "function": "grow",
            "malloc_share": 0.2,
            "peak_share": 0.0,
            "run_share": 0.02,
            "saves": {"allocations": 2, "copied_bytes": 0, "freed_by_others": 0, "peak_bytes": 0, "large_bytes": 0},
        }
    ],
    "cpu_us": 100,
    "malloc_time": {"least": 0.01, "most": 0.9},
    "verdict": {
        "whole": True,
        "statements": [
            {"kind": "lost", "bytes": 4_000, "place_bytes": 4_000},
            {"kind": "at_peak", "bytes": 11_000, "place_bytes": 8_249},
            {"kind": "time_saving", "of_whole": 0.2, "of_run": [0.01, 0.9]},
        ],
    },
}
REPORT_TEXT = """leak 3
ran 200 ms, exit status 0; 1 process, 1 thread used malloc; --all shows more
  allocations  10   12.3 kB  50.0 /s; malloc 9, realloc 1
  frees         7   2.34 kB  reallocs: 1 in place, 0 moved
  temporary     2     200 B  20.0 % of allocations
  live at peak  5   11.0 kB  at 100 ms, 50.0 % of the recording
  live at end   3   10.0 kB  4.00 kB of it lost
  highest RSS       4.00 MB  at 150 ms; 1.50 MB of it Mallow's own
  live then     3   10.0 kB  8.00 kB of it in memory, 0.2 % of RSS then

Most bytes live at the peak  (the largest 2 of 3)
  75.0 %  8.25 kB  grow a.c:3 ← main
  25.0 %  2.75 kB  other a.c:3 ← main

Lost, by cause: 4.00 kB in 1 block
  100.0 %  4.00 kB  once  grow a.c:3 ← main

Best insight  what it may save, estimated
  20.0 % of malloc's time  grow a.c:3
          2 blocks of 100 B, each freed before its thread allocates there again. Keep one outside of the loop.

Verdict: 4.00 kB lost, all from grow a.c:3; 11.0 kB at the peak, 75.0 % from grow
"""
LEAKS = {
    "command": ["leak", "3"],
    "live": 5,
    "live_bytes": 10_000,
    "reported": 5,
    "reported_bytes": 10_000,
    "suppressed": 0,
    "suppressed_bytes": 0,
    "sites": [{"live": 5, "live_bytes": 10_000}],
    "hidden": None,
    "leak_causes": [{"live": 5, "live_bytes": 10_000}],
    "leak_causes_hidden": None,
    "live_at_exec_blocks": 0,
    "live_at_exec_bytes": 0,
    "lost_blocks": 3,
    "lost_bytes": 4_000,
    "reachable_blocks": 2,
    "reachable_bytes": 6_000,
    "unscanned": [],
}
CAUSE = {"live": 3, "live_bytes": 4_000, "sites": 1, "oldest_ms": 167, "youngest_ms": 167, "heads": 1}
LOST = {**LEAKS, "leak_causes": [CAUSE]}
LEAKS_TEXT = """4.00 kB in 3 blocks lost: no pointer to them was found

4.00 kB, 100.0 %: one leak, once, with 2 blocks that it holds; allocated 167 ms before the end
    grow a.c:3

In addition, 6.00 kB in 2 blocks still reachable at the end; --only reachable shows them
"""
RSS = {
    "pid": 7,
    "executable": "/bin/leak",
    "ms": 150,
    "rss": 4_000_000,
    "pss": 3_000_000,
    "peak_rss": 4_000_000,
    "live_bytes": 10_000,
    "parts": [
        {"part": "live", "bytes": 10_000},
        {"part": "never_touched", "bytes": -4_096},
        {"part": "text", "bytes": 3_994_096},
    ],
    "cause": {"part": "text", "bytes": 3_994_096, "place": None, "mapping": "/bin/leak"},
    "remedies": [
        {"expected_bytes": 1_000_000, "certainty": "sure"},
        {"expected_bytes": 3_000_000, "own_bytes": 2_000_000, "certainty": "at_most"},
    ],
    "freed_after": {"ms": 167, "live_bytes": 4_000},
}
RSS_TEXT = """leak (7), highest RSS: 4.00 MB, the kernel's maximum
Divided: 4.00 MB at 150 ms; live blocks: 10.0 kB requested
Cause: 3.99 MB, 99.9 %: code of files; the largest is /bin/leak

What would help
  -1.00 MB  sure  malloc_trim(0) at this moment
  -2.00 MB  at most now  MALLOC_TRIM_THRESHOLD_=131072: gives the heap's end back, and large blocks; with what would lie elsewhere, at most 3.00 MB; mallopt in the program has precedence

  10.0 kB   0.3 %  live blocks             grow a.c:3 75.0 %
  -4.10 kB -0.1 %  of live, never touched
  3.99 MB  99.9 %  code of files
  4.00 MB          = RSS; PSS 3.00 MB
No memory was read between this moment and the end of the process at 167 ms, where 4.00 kB were live, 6.00 kB less.
"""
PAGE = """leak
Live at peak
11.0 kB
Live at end
10.0 kB
Highest RSS
4.00 MB
Verdict
4.00 kB lost, all from grow a.c:3; 11.0 kB at the peak, 75.0 % from grow; malloc takes at least 1.0 % of the run's
CPU time, about 20.0 % of that can be saved in grow"""
COUNTS = {
    "allocations": 10,
    "allocated_bytes": 12_340,
    "frees": 7,
    "foreign_frees": 0,
    "live": 3,
    "live_bytes": 10_000,
    "peak_bytes": 11_000,
    "reallocs_in_place": 1,
    "reallocs_moved": 0,
    "threads": 0,
}
BARE = Run(0, b"out\n", b"", {"f": "1"}, 0.1)


def a_run(**changes):
    """A run under a tool that is equal to bare, but for these changes."""
    return Run(**{**BARE.__dict__, **changes})


def evidence(**changes):
    """A row of which everything that Mallow says is true, but for these changes."""
    found = Evidence(ROW, parent=8, bare=[BARE, BARE], counts=[[Image("/bin/leak", dict(COUNTS))]] * 2)
    found.memcheck = memcheck.Memcheck(processes=1, lost=1, lost_bytes=4_000)
    recording = Recording(
        Path("quiet.mallow"),
        a_run(stderr=REPORT_TEXT.encode()),
        REPORT_TEXT,
        copy.deepcopy(REPORT),
        LEAKS_TEXT,
        copy.deepcopy(LEAKS),
        RSS_TEXT,
        copy.deepcopy(RSS),
        page=PAGE,
        lost_json=LOST,
    )
    found.record = {"quiet": recording}
    found.stat = {"quiet": (BARE, {"allocations": 10, "allocated_bytes": 12_340, "frees": 7, "remaining": 3})}
    found.guard = {"quiet": (BARE, {"errors": [], "guarded": 10, "unguarded": 0, "unfit": 0})}
    interval = {"value": 10_000, "low": 9_000, "high": 11_000}
    found.watch = {"quiet": (BARE, {"growing": 0, "growing_places": 0, "period_bytes": 100, "live_bytes": interval,
                              "processes": [{"executable": "/bin/leak"}]})}
    found.rss = {"quiet": (a_run(stdout=b"out\nleak (7), highest"), copy.deepcopy(RSS))}
    found.highest = {"quiet": (4_000_000, copy.deepcopy(REPORT))}
    for name, value in changes.items():
        setattr(found, name, value)
    return found
