#!/usr/bin/env python3
"""What one mallow that watches a quiet fleet costs.

FLEET_PROCESSES (200) processes start under `mallow run`; each allocates and frees a little, and three of them leak. One `mallow watch
--match` watches them for FLEET_MINUTES (10). Printed are the time until all are watched, mallow's processor time as a share of one
core, its memory, and whether the last report names the three, and nobody else, with the function that leaks. Processor time counts:
another load on the machine disturbs it little. All figures go to build/bench/fleet.json.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from workloads import BUILD, ROOT

MALLOW = os.environ.get("MALLOW_BIN", str(ROOT / "target/release/mallow"))
LEAKING = 3
FUNCTION = "leak_session"
STARTED = 120
"""Seconds for all processes to start, and for all to be watched, at the most."""


def main():
    # A shell ignores it for background jobs, and what is started here would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=int(os.environ.get("FLEET_PROCESSES", 200)))
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("FLEET_MINUTES", 10)))
    options, _ = parser.parse_known_args()
    figures = measure(max(options.processes, LEAKING), options.minutes)
    print(f"{figures['processes']} processes, watched for {figures['minutes']:.1f} min by one mallow "
          f"(load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors)")
    print(f"  until all were watched   {figures['seconds_until_watched']:.1f} s, {figures['first_cpu_seconds']:.2f} s of processor time")
    print(f"  from then on             {figures['core_percent']:.2f} % of a core")
    print(f"  memory                   {figures['peak_mb']:.0f} MB at the most")
    print(f"  processes that grow      {figures['growing_processes']}; of the {LEAKING} that leak, "
          f"{figures['leaks_named']} named with {FUNCTION}")
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "fleet.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0 if figures["leaks_named"] == LEAKING else 1


def measure(processes, minutes):
    program = ROOT / "build/bench/fleet_process"
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        # A name of its own: another bench may run beside this one.
        mine = place / f"fleet-{os.getpid()}"
        mine.symlink_to(program)
        started = []
        for number in range(processes):
            leak = ["leak"] if number < LEAKING else []
            process = subprocess.Popen([MALLOW, "run", "--", mine, *leak], stdin=subprocess.DEVNULL)
            stack.callback(end, process)
            started.append(process)
        until(lambda: all(name_of(process.pid) == mine.name for process in started), "all processes run")
        reports = place / "reports"
        every = max(int(minutes * 60 / 4), 5)
        command = [MALLOW, "watch", "--match", f"/{mine.name}$", "--json", "-o", reports, "--every", f"{every}s"]
        warm_up = min(180, int(minutes * 60 / 2))
        began = time.monotonic()
        watch = subprocess.Popen([*command, "--warm-up", f"{warm_up}s"], stdin=subprocess.DEVNULL)
        stack.callback(end, watch)
        until(lambda: watched(watch.pid) >= processes, "all processes are watched")
        figures = {"processes": processes, "minutes": minutes, "seconds_until_watched": time.monotonic() - began}
        first, first_at = cpu_seconds(watch.pid), time.monotonic()
        time.sleep(minutes * 60)
        later = cpu_seconds(watch.pid)
        figures["first_cpu_seconds"] = first
        figures["core_percent"] = (later - first) / (time.monotonic() - first_at) * 100
        figures["peak_mb"] = peak_bytes(watch.pid) / 1e6
        watch.send_signal(signal.SIGTERM)
        watch.wait(60)
        last = json.loads(reports.read_text(encoding="utf-8").splitlines()[-1])
        leaking = {process.pid for process in started[:LEAKING]}
        growing = {member["pid"]: member["places"] for program in last["programs"] for member in program["members"]
                   if member["verdict"] in ("growing", "so_far")}
        named = {pid for pid, places in growing.items() if places and places[0]["function"] == FUNCTION}
        figures["growing_processes"] = len(growing)
        figures["leaks_named"] = len(leaking & named)
        return figures


def until(reached, what):
    patience = time.monotonic() + STARTED
    while not reached():
        if time.monotonic() > patience:
            sys.exit(f"bench: waited {STARTED} s in vain until {what}")
        time.sleep(0.05)


def name_of(pid):
    try:
        return Path(os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0])).name
    except OSError:
        return None


def watched(pid):
    """How many process files it has mapped."""
    lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()
    return len({line.split()[-1] for line in lines if "/mallow-" in line and "/p-" in line})


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_bytes(pid):
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def end(process):
    process.kill()
    process.wait()


if __name__ == "__main__":
    sys.exit(main())
