"""What whole programs pay while a tool is attached to them: processor time of sqlite3 and redis-server at the same work.

A program is started bare and attached to before its work begins, so that the work alone is measured. It runs once bare and once
under each tool, in turn; a ratio is over the bare run of its turn."""

import functools
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import workloads
from workloads import BUILD, ROOT, Missing

MALLOW = os.environ.get("MALLOW_BIN", str(ROOT / "target/release/mallow"))
PATIENCE = 30
"""Seconds until a tool is attached, or a program answers."""


class Sqlite:
    """The sqlite3 shell, with the script that `bench.py` runs."""

    name = "sqlite"

    def __init__(self, quick, place):
        *shell, script = workloads.sqlite(quick).command
        pipe = subprocess.PIPE
        self.script = script
        self.process = subprocess.Popen(shell, stdin=pipe, stdout=pipe, text=True, cwd=place)
        self.until("ready")

    def until(self, word):
        """All that it does before it prints the word."""
        self.process.stdin.write(f".print {word}\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.strip() == word:
                return
        raise Ended

    def work(self):
        self.process.stdin.write(f"{self.script}\n")
        self.until("done")


class Redis:
    """redis-server under redis-benchmark, as `bench.py` runs it."""

    name = "redis"

    def __init__(self, quick, place):
        workload = workloads.redis(quick)
        self.client, self.place = workload.client, place
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(workload.command, stdout=quiet, stderr=quiet, cwd=place)
        end = time.monotonic() + PATIENCE
        while self.run(self.client.ready) != 0:
            if time.monotonic() > end:
                raise Ended
            time.sleep(0.02)

    def run(self, command):
        quiet = subprocess.DEVNULL
        return subprocess.run(command, stdout=quiet, stderr=quiet, cwd=self.place).returncode

    def work(self):
        if self.run(self.client.work) != 0:
            raise Ended


PROGRAMS = [Sqlite, Redis]


class Ended(Exception):
    """The program ended while a tool was attached to it."""


def processor_seconds(pid):
    """What all threads of a process have used."""
    tasks = Path(f"/proc/{pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9


def wait_for(pid, text, tool):
    """Waits until a file of this name is mapped into the process."""
    end = time.monotonic() + PATIENCE
    while text not in (maps := Path(f"/proc/{pid}/maps").read_text()):
        # A process that has ended has none.
        if not maps or tool.poll() is not None or time.monotonic() > end:
            raise Ended
        time.sleep(0.02)
    # The library is there before all functions are patched.
    time.sleep(0.5)


@functools.cache
def heaptrack_can_attach():
    """It and gdb are there, and gdb can call functions in a process.

    gdb 13 cannot where the processor has AMX: it writes fewer registers back than the kernel asks for ("Couldn't write extended state
    status: Bad address"), heaptrack's library is not loaded, and the interrupted system call of the program fails with an error of
    the kernel's own. A program that does not expect that ends: neither heaptrack nor the benchmark ends it."""
    if not (shutil.which("heaptrack") and shutil.which("gdb")):
        return False
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as target:
        command = ["gdb", "--batch", "-n", "-p", str(target.pid), "-ex", "print (int) getpid()"]
        run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        target.kill()
    can = f"= {target.pid}\n" in run.stdout
    if not can:
        last = (run.stderr.strip().splitlines() or ["it printed no reason"])[-1]
        print(f"bench: no heaptrack --pid: gdb cannot call functions in a process here: {last}", file=sys.stderr)
    return can


def tools():
    """How each tool attaches, and a file that is mapped into the process then."""
    quiet = ["--no-report", "-o", "x.mallow"]
    modes = {"stat": ["stat"], "watch": ["watch"], "record": ["record", *quiet]}
    found = {f"mallow {mode} -p": ([MALLOW, *words, "-p"], "/mallow-") for mode, words in modes.items()}
    if heaptrack_can_attach():
        found["heaptrack --pid"] = (["heaptrack", "-o", "data", "-p"], "libheaptrack_inject")
    return found


def once(kind, quick, tool):
    """Processor time of the work, in seconds."""
    with tempfile.TemporaryDirectory(prefix="mallow-bench-") as place:
        program = kind(quick, place)
        attached = None
        try:
            pid = program.process.pid
            if tool:
                command, mapped = tool
                quiet = subprocess.DEVNULL
                attached = subprocess.Popen([*command, str(pid)], cwd=place, stdout=quiet, stderr=quiet, start_new_session=True)
                wait_for(pid, mapped, attached)
            before = processor_seconds(pid)
            program.work()
            return processor_seconds(pid) - before
        except (OSError, BrokenPipeError):
            raise Ended from None
        finally:
            if attached and attached.poll() is None:
                os.killpg(attached.pid, signal.SIGINT)
                try:
                    attached.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    os.killpg(attached.pid, signal.SIGKILL)
                    attached.wait()
            program.process.kill()
            program.process.communicate()


def measured(quick, runs, deadline):
    """Seconds of each run by program and tool; None: the program ended. `deadline`: no further turn begins after it."""
    BUILD.mkdir(parents=True, exist_ok=True)
    times = {}
    for turn in range(runs):
        for kind in PROGRAMS:
            if turn > 0 and time.monotonic() > deadline:
                return times
            try:
                seconds = {"bare": once(kind, quick, None)}
            except Missing as missing:
                print(f"bench: {missing}")
                continue
            for title, tool in tools().items():
                try:
                    seconds[title] = once(kind, quick, tool)
                except Ended:
                    if title.startswith("mallow"):
                        raise SystemExit(f"bench: {kind.name} ended under {title}") from None
                    seconds[title] = None
            for title, value in seconds.items():
                times.setdefault(kind.name, {}).setdefault(title, []).append(value)
    return times


def table(times):
    lines = ["\nProcessor time of programs that are attached to, over bare\n"]
    lines += ["| | " + " | ".join(times) + " |", "| --- |" + " --- |" * len(times)]
    titles = next(iter(times.values()), {})
    for title in titles:
        lines.append(f"| {title} | " + " | ".join(figure(times[name], title) for name in times) + " |")
    return "\n".join(lines)


def figure(times, title):
    bare, own = times["bare"], times.get(title, [])
    if title == "bare":
        return f"{statistics.median(bare):.2f} s"
    if None in own:
        return f"it ended in {own.count(None)} of {len(own)}"
    return f"{statistics.median(time / over for time, over in zip(own, bare)):.2f}×" if own else "not there"
