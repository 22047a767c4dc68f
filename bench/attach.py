#!/usr/bin/env python3
"""What a program pays for being attached to: how long it stands still, what a pair of malloc and free costs, and what whole
programs cost, beside heaptrack --pid.

The program of the pauses and pairs (bench/pauses.c) measures both itself: the longest time in which its busy thread made no
progress, with and without the time in which it waited for a processor, and the processor time of that thread. "bare" is without any
tool; its longest pause is the scheduler's. Pauses are
medians and 99th percentiles of BENCH_ATTACHMENTS attachments (default 50: the 99th percentile is then the longest one) to one
process; heaptrack, which stops a process by gdb, gets two, and a new process for each. It has no figures where gdb cannot call
functions in a process: gdb 13 ends the program on processors with AMX. Costs are medians of BENCH_RUNS (default 3)
attachments, each against the second before it. Programs: see attached_programs.py. Latencies of redis-server: see latencies.py, of
BENCH_ROUNDS (default 5) rounds. No new attachment begins once the part has used up its time; all of it takes less than seven minutes.
All figures go to build/bench/attach.json.
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import attached_programs
import latencies
from workloads import BUILD, ROOT, Missing, need

MALLOW = os.environ.get("MALLOW_BIN", str(ROOT / "target/release/mallow"))
THREADS = [1, 64]
SECONDS = 0.1
"""Of one attachment, and of one measurement without any."""
PAUSES, PAIRS, PROGRAMS, LATENCIES = 20, 40, 50, 150
"""Seconds after which no further attachment begins: of each tool and number of threads, of the pairs, of the programs, of the latencies."""
HEAPTRACKS = 2
"""Processes that heaptrack attaches to."""


def main():
    # A shell ignores it for background jobs, and what is started here would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one attachment each: does everything work?")
    parser.add_argument("--attachments", type=int, default=int(os.environ.get("BENCH_ATTACHMENTS", 50)),
                        help="(BENCH_ATTACHMENTS) default 50")
    parser.add_argument("--runs", type=int, default=int(os.environ.get("BENCH_RUNS", 3)), help="(BENCH_RUNS) default 3")
    parser.add_argument("--rounds", type=int, default=int(os.environ.get("BENCH_ROUNDS", 5)), help="(BENCH_ROUNDS) default 5")
    options, _ = parser.parse_known_args()
    count = 1 if options.quick else max(options.attachments, 1)
    try:
        program = built()
    except Missing as missing:
        print(f"bench: {missing}", file=sys.stderr)
        return 0
    pauses = {title: {} for title in TOOLS}
    for threads in THREADS:
        for title, tool in TOOLS.items():
            pauses[title][threads] = tool(program, threads, count, time.monotonic() + PAUSES)
    runs = 1 if options.quick else max(options.runs, 1)
    costs = pair_costs(program, runs, time.monotonic() + PAIRS)
    programs = attached_programs.measured(options.quick, runs, time.monotonic() + PROGRAMS)
    waits = latencies.measured(options.quick, 1 if options.quick else max(options.rounds, 1), time.monotonic() + LATENCIES)
    figures_of_all = {"pauses": pauses, "costs": costs, "programs": programs, "latencies": waits}
    (BUILD / "attach.json").write_text(json.dumps(figures_of_all, indent=1), encoding="utf-8")
    print(pause_table(pauses))
    print(cost_table(costs))
    print(attached_programs.table(programs))
    print(latencies.table(waits))
    return 0


def built():
    """The program."""
    BUILD.mkdir(parents=True, exist_ok=True)
    out = BUILD / "pauses"
    source = ROOT / "bench" / "pauses.c"
    subprocess.run([need("cc", "apt-get install gcc"), "-std=gnu11", "-O2", "-g", "-pthread", "-o", out, source], check=True)
    return out


class Target:
    """A process of it."""

    def __init__(self, program, threads):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([program, str(threads)], stdin=pipe, stdout=pipe, text=True)
        self.process.stdout.readline()

    def __enter__(self):
        self.pause()
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def ask(self):
        """Longest pause, longest one without waits for a processor, and time of a round since it was asked last, in nanoseconds. None: it
        has ended."""
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            pause, stop, rounds = self.process.stdout.readline().split()
            return int(pause), int(stop), float(rounds)
        except (BrokenPipeError, ValueError):
            return None

    def pause(self):
        """Both pauses."""
        answer = self.ask()
        return answer and answer[:2]

    def round(self):
        """What a round takes in the second to come."""
        self.ask()
        time.sleep(1)
        answer = self.ask()
        if answer is None:
            raise SystemExit("bench: the program ended")
        return answer[2]


def bare(program, threads, count, deadline):
    found = []
    with Target(program, threads) as target:
        while len(found) < count and (not found or time.monotonic() < deadline):
            time.sleep(SECONDS)
            found.append(target.pause())
    return found


def mallow(mode):
    """Attached by mallow in that mode."""

    def pauses(program, threads, count, deadline):
        found = []
        with Target(program, threads) as target, tempfile.TemporaryDirectory(prefix="mallow-bench-") as place:
            command = [MALLOW, *mode, "--for", f"{SECONDS}s", "-p", str(target.process.pid)]
            while len(found) < count and (not found or time.monotonic() < deadline):
                target.pause()
                run = subprocess.run(command, cwd=place, capture_output=True, text=True)
                if run.returncode != 0:
                    raise SystemExit(f"bench: {run.stderr}")
                found.append(target.pause())
                for recording in Path(place).iterdir():
                    recording.unlink()
        return found

    return pauses


def heaptrack(program, threads, count, deadline):
    if not attached_programs.heaptrack_can_attach():
        return []
    found = []
    for turn in range(min(count, HEAPTRACKS)):
        if turn > 0 and time.monotonic() > deadline:
            break
        with Target(program, threads) as target, tempfile.TemporaryDirectory(prefix="mallow-bench-") as place:
            command = ["heaptrack", "-o", f"{place}/data", "-p", str(target.process.pid)]
            run = subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
            with contextlib.suppress(attached_programs.Ended):
                attached_programs.wait_for(target.process.pid, "libheaptrack_inject", run)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGINT)
            try:
                run.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, signal.SIGKILL)
                run.communicate()
            found.append(target.pause() if target.process.poll() is None else None)
    return found


TOOLS = {
    "bare": bare,
    "mallow stat": mallow(["stat"]),
    "mallow record": mallow(["record", "--no-report", "-o", "x.mallow"]),
    "heaptrack": heaptrack,
}


def pair_costs(program, runs, deadline):
    """What a round takes longer while mallow is attached, in nanoseconds, by mode."""
    modes = {"stat": ["stat"], "watch": ["watch"], "record": ["record", "--no-report", "-o", "x.mallow"]}
    costs = {mode: [] for mode in modes}
    with tempfile.TemporaryDirectory(prefix="mallow-bench-") as place:
        for turn in range(runs):
            if turn > 0 and time.monotonic() > deadline:
                break
            for mode, words in modes.items():
                with Target(program, 1) as target:
                    bare = target.round()
                    command = [MALLOW, *words, "-p", str(target.process.pid)]
                    run = subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                    time.sleep(2)
                    costs[mode].append(target.round() - bare)
                    run.send_signal(signal.SIGINT)
                    _, error = run.communicate()
                    if run.returncode != 0:
                        raise SystemExit(f"bench: {error.decode()}")
                    (Path(place) / "x.mallow").unlink(missing_ok=True)
    return costs


def cost_table(costs):
    lines = ["\nWhat a pair of 128 B takes longer in a program that is attached to\n", "| | |", "| --- | --- |"]
    lines += [f"| mallow {mode} -p | {statistics.median(times):+.1f} ns |" for mode, times in costs.items()]
    return "\n".join(lines)


def pause_table(pauses):
    lines = [
        "\nThe longest pause of a program that is attached to and detached from; stopped: without waits for a processor\n",
        "| | " + " | ".join(f"{n} thread{'s' * (n > 1)}, p50 | p99 | stopped, p50 | p99" for n in THREADS) + " |",
        "| --- |" + " --- |" * 4 * len(THREADS),
    ]
    for title, by_threads in pauses.items():
        kinds = [[found and found[kind] for found in by_threads[n]] for n in THREADS for kind in (0, 1)]
        cells = [cell for pauses in kinds for cell in figures(pauses)]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def figures(pauses):
    """Median and 99th percentile."""
    if not pauses:
        return ["not there", "not there"]
    if None in pauses:
        return [f"it ended in {pauses.count(None)} of {len(pauses)}", ""]
    last = sorted(pauses)[min(len(pauses) - 1, len(pauses) * 99 // 100)]
    return [f"{value / 1e6:.1f} ms" for value in (statistics.median(pauses), last)]


if __name__ == "__main__":
    sys.exit(main())
