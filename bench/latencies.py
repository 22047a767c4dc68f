"""How long clients of redis-server wait while `mallow watch` is attached to it: median and 99th percentile of four commands.

A server is started and filled for each run; runs with mallow and without it alternate, the order changes from round to
round. A figure is the median of the runs' own percentiles, as redis-benchmark reports them: on two processors, which the
server and the benchmark use up, those of one run differ by half from those of the next."""

import csv
import io
import signal
import statistics
import subprocess
import tempfile
import time

import attached_programs
from workloads import Missing, need

COMMANDS = ["set", "get", "lpush", "lrange_100"]
"""The last one's replies have 21 kB, so that one in 25 has a sample."""
MODES = {"bare": None, "watch": ["watch", "--every", "1h", "-o", "reports", "-p"]}


def once(quick, mode):
    """Milliseconds of the median and the 99th percentile, by command."""
    load = [need("redis-benchmark", "apt-get install redis-tools"), "-s", "socket"]
    count = "2000" if quick else "100000"
    with tempfile.TemporaryDirectory(prefix="mallow-bench-") as place:
        server, attached = attached_programs.Redis(quick, place), None
        process = server.process
        try:
            if mode:
                quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
                attached = subprocess.Popen([attached_programs.MALLOW, *mode, str(process.pid)], cwd=place, **quiet)
                attached_programs.wait_for(process.pid, "/mallow-", attached)
            server.run([*load, "-n", count, "-t", ",".join(COMMANDS)])
            run = [*load, "--csv", "-n", count, "-t", ",".join(COMMANDS)]
            report = subprocess.run(run, cwd=place, capture_output=True, text=True, check=True).stdout
            if attached and attached.poll() is not None:
                raise attached_programs.Ended
            return read(report)
        finally:
            if attached and attached.poll() is None:
                attached.send_signal(signal.SIGINT)
                attached.wait(attached_programs.PATIENCE)
            process.kill()
            process.wait()


def read(report):
    """By command, from redis-benchmark's CSV. LPUSH stands there twice: once before LRANGE, to fill the list."""
    found = {}
    for row in csv.DictReader(io.StringIO(report)):
        name = row["test"].split()[0].lower()
        found.setdefault(name, (float(row["p50_latency_ms"]), float(row["p99_latency_ms"])))
    return {name: found[name] for name in COMMANDS}


def measured(quick, runs, deadline):
    """Both percentiles of each run, by command and mode. `deadline`: no further round begins after it."""
    found = {}
    for turn in range(runs):
        if turn > 0 and time.monotonic() > deadline:
            break
        for mode in list(MODES)[:: 1 if turn % 2 == 0 else -1]:
            try:
                figures = once(quick, MODES[mode])
            except Missing as missing:
                print(f"bench: {missing}")
                return {}
            except attached_programs.Ended:
                raise SystemExit(f"bench: redis-server, or mallow {mode}, ended") from None
            for command, percentiles in figures.items():
                found.setdefault(command, {}).setdefault(mode, []).append(percentiles)
    return found


def table(found):
    rounds = max((len(of) for modes in found.values() for of in modes.values()), default=0)
    lines = [
        f"\nWhat clients of redis-server wait, bare and with mallow watch attached; medians of {rounds} alternating runs\n",
        "| | p50, bare | watched | | p99, bare | watched | |",
        "| --- |" + " --- |" * 6,
    ]
    for command, modes in found.items():
        cells = []
        for which in (0, 1):
            bare, watched = (statistics.median(run[which] for run in modes[mode]) for mode in ("bare", "watch"))
            cells += [f"{bare:.3f} ms", f"{watched:.3f} ms", f"{watched / bare:.2f}×"]
        lines.append(f"| {command} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
