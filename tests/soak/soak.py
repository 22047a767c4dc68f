#!/usr/bin/env python3
"""Watches a program that churns for a long time: joins and leaves it, changes the period, kills mallow twice.

It fails where the program's results change, where the program, mallow or the run directory grow, where samples are lost without
being counted, or where something stays behind. SOAK_MINUTES says how long (30)."""

import glob
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MALLOW = os.environ.get("MALLOW_BIN", str(ROOT / "target/release/mallow"))
MINUTES = float(os.environ.get("SOAK_MINUTES", "30"))
PERIODS = ["16KiB", "64KiB", "512KiB", "4MiB"]
GROWTH = 1.3
"""The last third may need so many times what the second needed."""


def rss_kb(pid):
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS:")), 0)


def directory_kb(directory):
    return sum(os.stat(path).st_blocks for path in glob.glob(f"{directory}/**", recursive=True) if os.path.exists(path)) // 2


def directory_of(pid):
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        path = line.split(None, 5)[-1]
        if f"/p-{pid}-" in path:
            return str(Path(path).parent)
    return None


def built(place):
    program = place / "churn"
    command = ["cc", "-O2", "-g", "-pthread", "-o", str(program), str(ROOT / "tests/soak/churn.c")]
    subprocess.run(command, check=True)
    return program


def thirds(measured):
    third = len(measured) // 3
    return max(measured[third : 2 * third], default=0), max(measured[2 * third :], default=0)


def main():
    place = Path(tempfile.mkdtemp(prefix="mallow-soak-"))
    program = built(place)
    seconds = int(MINUTES * 60)
    target = subprocess.Popen([MALLOW, "run", "--", str(program), str(seconds)], stdout=subprocess.PIPE, text=True)
    time.sleep(1)
    directory = directory_of(target.pid)
    assert directory, "the program does not take part"
    end = time.monotonic() + seconds
    kills = [time.monotonic() + seconds * part for part in (0.3, 0.6)]
    target_kb, mallow_kb, directory_sizes = [], [], []
    joined = killed = 0
    lost = {}
    while target.poll() is None and time.monotonic() < end - 2:
        joined += 1
        reports = place / f"reports-{joined}"
        period = random.choice(PERIODS)
        stay = min(random.uniform(5, 25), end - time.monotonic())
        command = [MALLOW, "watch", "-p", str(target.pid), "--period", period, "--every", "1s", "--older-than", "1s"]
        watch = subprocess.Popen([*command, "--json", "-o", str(reports)], stderr=subprocess.DEVNULL)
        until = time.monotonic() + stay
        while time.monotonic() < until and target.poll() is None:
            time.sleep(0.5)
            target_kb.append(rss_kb(target.pid))
            directory_sizes.append(directory_kb(directory))
            if time.monotonic() - until + stay > 3:
                mallow_kb.append(rss_kb(watch.pid))
            if random.random() < 0.1:
                change = [MALLOW, "watch", "-p", str(target.pid), "--period", random.choice(PERIODS), "--set"]
                subprocess.run(change, stderr=subprocess.DEVNULL, check=False)
        if kills and time.monotonic() >= kills[0]:
            kills.pop(0)
            killed += 1
            watch.send_signal(signal.SIGKILL)
        else:
            watch.send_signal(signal.SIGINT)
        watch.wait()
        for line in reports.read_text().splitlines() if reports.exists() else []:
            try:
                report = json.loads(line)
            except ValueError:
                continue  # the line that the killed one was writing
            for what, number in report["lost"].items():
                lost[what] = max(lost.get(what, 0), number)
        reports.unlink(missing_ok=True)
        time.sleep(random.uniform(0, 2))
    output, _ = target.communicate()
    faults = []
    if output.strip() != "wrong 0, failed 0" or target.returncode != 0:
        faults.append(f"the program's results changed: {output.strip()!r}, status {target.returncode}")
    figures = {"target": thirds(target_kb), "mallow": thirds(mallow_kb), "run directory": thirds(directory_sizes)}
    for what, (before, after) in figures.items():
        print(f"{what}: {before} kB at most in the second third, {after} kB in the last")
        if after > before * GROWTH + 2048:
            faults.append(f"{what} grew from {before} to {after} kB")
    print(f"joined {joined} times, {killed} of them killed; lost, as counted: {lost or 'nothing'}")
    if lost.get("damaged"):
        faults.append(f"{lost['damaged']} records made no sense")
    print(f"{MINUTES:g} minutes, {'failed' if faults else 'passed'}")
    for fault in faults:
        print(f"soak: {fault}", file=sys.stderr)
    subprocess.run(["rm", "-rf", str(place), directory], check=False)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
