#!/usr/bin/env python3
"""Attaches to a storm of allocations and detaches again and again; every other time mallow is killed at a random moment.

It fails where the program dies, stands still, or is not as it was at the end. SOAK_CYCLES says how often (2500) with each of
SOAK_ALLOCATORS (all), SOAK_THREADS how many threads allocate (64)."""

import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MALLOW = os.environ.get("MALLOW_BIN", str(ROOT / "target/release/mallow"))
CYCLES = int(os.environ.get("SOAK_CYCLES", "2500"))
THREADS = os.environ.get("SOAK_THREADS", "64")
ALLOCATORS = {
    "glibc": [],
    "jemalloc": ["-l:libjemalloc.a", "-lm", "-ldl", "-lstdc++", "-fno-builtin"],
    "tcmalloc": ["-Wl,--no-as-needed", "-l:libtcmalloc_minimal.so.4"],
    "mimalloc": ["-Wl,--no-as-needed", "-l:libmimalloc.so.2"],
}
"""What each is linked by: one inside of the program, two as libraries."""
SPAN = 0.6
"""Seconds in which a mallow is killed or asked to leave: while it attaches, detaches, and between."""
FIRST = 20 if os.geteuid() == 0 else 0
"""By how much nicer the storm is than mallow and this script, which would have one of 65 shares of the processors each otherwise: a
cycle would take as many times longer."""
LONGEST = 300
"""Seconds within which a mallow must end, and a program answer."""


class Storm:
    def __init__(self, place, allocator):
        program = place / f"attached-{allocator}"
        source = ROOT / "tests/targets/attached.c"
        flags = ["-O2", "-g", "-pthread", "-o", str(program), str(source), *ALLOCATORS[allocator]]
        subprocess.run(["cc", *flags], check=True)
        command = ["nice", "-n", str(FIRST), str(program), "storm", THREADS]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def work(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], LONGEST)[0]:
            self.process.kill()
            raise SystemExit(f"soak: the program gave no answer for {LONGEST} s")
        return int(self.process.stdout.readline().split()[0])

    def works(self):
        """Whether it does more than it has done by now."""
        before, deadline = self.work(), time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.work() > before + 1000:
                return True
        return False

    def text(self):
        found = []
        with open(f"/proc/{self.process.pid}/mem", "rb") as memory:
            for line in Path(f"/proc/{self.process.pid}/maps").read_text().splitlines():
                fields = line.split(None, 5)
                if "x" in fields[1] and len(fields) > 5 and fields[5].startswith("/") and "memfd:" not in fields[5]:
                    start, end = (int(number, 16) for number in fields[0].split("-"))
                    memory.seek(start)
                    found.append((fields[5], memory.read(end - start)))
        return found

    def mappings(self):
        return len(Path(f"/proc/{self.process.pid}/maps").read_text().splitlines())

    def descriptors(self):
        """Without the one that the program opens at any time after its start."""
        directory = Path(f"/proc/{self.process.pid}/fd")
        return sum("eventpoll" not in os.readlink(file) for file in directory.iterdir())


def attach(pid, place):
    mode = random.choice([["stat"], ["record", "--no-report", "-o", str(place / "x.mallow")], ["watch"]])
    (place / "x.mallow").unlink(missing_ok=True)
    command = [MALLOW, *mode, "-p", str(pid)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def ended(mallow):
    """Its messages, once it has ended."""
    try:
        return mallow.communicate(timeout=LONGEST)[1]
    except subprocess.TimeoutExpired:
        mallow.kill()
        mallow.communicate()
        raise SystemExit(f"soak: a mallow did not end within {LONGEST} s") from None


def soak(place, allocator):
    """Whether all went well."""
    storm = Storm(place, allocator)
    text, descriptors, mappings = storm.text(), storm.descriptors(), 0
    pid, kills, fault, begin = storm.process.pid, 0, None, time.monotonic()
    for cycle in range(CYCLES):
        if cycle % 2:
            mallow = attach(pid, place)
            time.sleep(random.random() * SPAN)
            mallow.kill()
            ended(mallow)
            kills += 1
        else:
            mallow = attach(pid, place)
            time.sleep(random.random() * SPAN)
            mallow.send_signal(signal.SIGINT)
            error = ended(mallow)
            # One that ends before it has attached leaves what a killed one before it has left.
            attached = mallow.returncode == 0 and storm.process.poll() is None
            if attached and storm.text() != text:
                fault = f"the code is not what it was: {error}"
            elif attached and storm.descriptors() != descriptors:
                fault = f"descriptors are left: {error}"
        # Threads that allocate may take memory of their own at any time: the first cycles bring most of it, and the library.
        if storm.process.poll() is not None:
            fault = f"the program ended with {storm.process.returncode}"
        elif not storm.works():
            fault = "the program stands still"
        elif cycle < 20:
            mappings = max(mappings, storm.mappings())
        elif storm.mappings() > mappings + 300:
            fault = f"mappings are left: {storm.mappings()}, {mappings} after the first cycles"
        if fault:
            print(f"soak: {allocator}, cycle {cycle}: {fault}", file=sys.stderr)
            break
        if cycle % 100 == 99:
            print(f"soak: {allocator}: {cycle + 1} of {CYCLES}", file=sys.stderr, flush=True)
    storm.process.kill()
    pace = 60 * (cycle + 1) / (time.monotonic() - begin)
    done = f"attached {cycle + 1} times, {pace:.0f} a minute, {kills} of them killed"
    print(f"{allocator}: {done}; {'failed' if fault else 'passed'}", flush=True)
    return fault is None


def main():
    # A shell ignores it for background jobs, and what is started here would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.nice(-FIRST)
    chosen = os.environ.get("SOAK_ALLOCATORS", ",".join(ALLOCATORS)).split(",")
    with tempfile.TemporaryDirectory(prefix="mallow-soak-") as name:
        passed = [soak(Path(name), allocator) for allocator in chosen]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
