"""Running one variant on one workload, and what that took."""

import atexit
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from workloads import BUILD

BUILD.mkdir(parents=True, exist_ok=True)
# Of this process alone, so that two benches do not read each other's files.
WORK = Path(tempfile.mkdtemp(prefix="work-", dir=BUILD))
atexit.register(shutil.rmtree, WORK)

TIMED = str(BUILD / "timed")
TIMEOUT_S = 600
READY_S = 60
POLL_S = 0.02


class Failed(Exception):
    """A run that gave no figure, and the reason."""


@dataclass
class Run:
    """What `timed` wrote about the target, and what lay around it."""

    times: dict
    """`wall` and `processor`: in seconds, or in nanoseconds a pair."""
    maxrss_kib: int
    output: str
    recording_bytes: int


@dataclass
class Report:
    """From the command to the report on the screen."""

    total: float
    after: float
    """After the target's end."""
    tool_kib: int
    """The largest process of the tool."""
    tool_process: str
    recording_bytes: int


def run(variant, workload, extra=None):
    """Run the workload once under the variant; the target's own time is measured inside."""
    out = clean()
    command = variant.command(timed(workload), out)
    with (WORK / "text").open("wb") as text:
        status = finish(start(command, workload, environment(variant, workload, extra), text), workload)
    target = target_result()
    if target["status"] != 0 or status != 0:
        raise Failed(f"exit code {status}: {last_line(WORK / 'text')}")
    output = (WORK / "output").read_text()
    times = {"wall": target["wall"], "processor": target["user"] + target["sys"]}
    if workload.pair:
        times = figures(output)
    if workload.client:
        times["wall"] = figures((WORK / "client-time").read_text())["wall"]
        output += (WORK / "client-results").read_text()
    return Run(times, int(target["maxrss_kib"]), output, size(variant.recording(out)))


def report(variant, workload, memory_bytes):
    """Run the variant's commands up to the report. `memory_bytes` bounds each process."""
    out = clean()
    began = time.monotonic()
    watch = MemoryWatch()
    for number, command in enumerate(variant.report(timed(workload), out)):
        # The first runs the target, and the others read what it wrote.
        runs = workload if number == 0 else None
        watched(command, environment(variant, workload), memory_bytes, watch, WORK / f"text{number}", runs)
        if number == 0 and not size(variant.report_recording(out)):
            raise Failed("no recording was written")
    ended = time.monotonic()
    return Report(ended - began, ended - target_result()["ended"], watch.largest, watch.process,
                  size(variant.report_recording(out)))


def watched(command, env, memory_bytes, watch, text_path, workload=None):
    def bound():
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))

    with text_path.open("wb") as text:
        process = start(command, workload, env, text, bound)
        with watch.on(process.pid):
            status = finish(process, workload)
    # A reader that dies in the middle of a pipeline does not show in the exit code.
    fatal = re.search(r"^.*(terminate called|bad_alloc|out of memory|Segmentation fault).*$",
                      text_path.read_text(errors="replace"), re.MULTILINE)
    if fatal:
        raise Failed(f"its reader died, with {memory_bytes >> 30} GB to use: {fatal.group(0).strip()}")
    if status != 0:
        raise Failed(f"{Path(command[0]).name}: exit code {status}: {last_line(text_path)}")


def start(command, workload, env, text, prepare=None):
    # In a session of its own, so that all of it can be ended.
    where = WORK if workload and workload.client else None
    return subprocess.Popen(command, env=env, cwd=where, stdout=text, stderr=text, preexec_fn=prepare,
                            start_new_session=True)


def finish(process, workload):
    """The exit code. A server ends when its client has used it."""
    try:
        if workload and workload.client:
            use(workload.client, process)
        return process.wait(TIMEOUT_S)
    except BaseException as failure:
        # Until it is waited for, nobody else has its number.
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if isinstance(failure, subprocess.TimeoutExpired):
            raise Failed(f"no end after {TIMEOUT_S} s") from None
        raise


def use(client, server):
    def succeeds(command, output=os.devnull):
        with (WORK / output).open("wb") as file:
            return subprocess.run(command, cwd=WORK, stdout=file, stderr=file, timeout=TIMEOUT_S).returncode == 0

    patience = time.monotonic() + READY_S
    while not succeeds(client.ready):
        if server.poll() is not None or time.monotonic() > patience:
            raise Failed(f"the server does not come up: {last_line(WORK / 'text')}")
        time.sleep(POLL_S)
    for command, output in (([TIMED, "client-time", os.devnull, *client.work], "client-text"),
                            (client.results, "client-results"), (client.end, "client-text")):
        if not succeeds(command, output):
            raise Failed(f"the server's client: {Path(command[0]).name} failed: {last_line(WORK / output)}")


class MemoryWatch:
    """The largest resident size that any of the tool's processes reached; the target's own do not count."""

    def __init__(self):
        self.largest = 0
        self.process = ""

    def on(self, pid):
        return _Watching(self, pid)

    def look(self, pid):
        name, kib = self._status(pid)
        if name == "timed":
            return
        if kib > self.largest:
            self.largest, self.process = kib, name
        for child in self._children(pid):
            self.look(child)

    @staticmethod
    def _status(pid):
        try:
            text = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return "", 0
        name = re.search(r"^Name:\t(.*)$", text, re.MULTILINE)
        high = re.search(r"^VmHWM:\s+(\d+) kB$", text, re.MULTILINE)
        return name.group(1) if name else "", int(high.group(1)) if high else 0

    @staticmethod
    def _children(pid):
        try:
            tasks = list(Path(f"/proc/{pid}/task").iterdir())
            return [int(child) for task in tasks for child in (task / "children").read_text().split()]
        except OSError:
            return []


class _Watching:
    def __init__(self, watch, pid):
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._poll, args=(watch, pid), daemon=True)

    def _poll(self, watch, pid):
        while not self.over.wait(POLL_S):
            watch.look(pid)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def clean():
    """Empty the working directory; the result is the stem of the names of a run's files."""
    for path in WORK.iterdir():
        path.unlink()
    return WORK / "out"


def timed(workload):
    return [TIMED, str(WORK / "result"), str(WORK / "output"), *workload.command]


def environment(variant, workload, extra=None):
    return {**os.environ, **workload.environment, **variant.environment(), **(extra or {})}


def target_result():
    path = WORK / "result"
    if not path.exists() or not path.stat().st_size:
        raise Failed(f"the target did not run: {last_line(WORK / 'text')}")
    return figures(path.read_text())


def figures(text):
    """Lines of a name and a number."""
    return {key: float(value) for key, value in (line.split() for line in text.splitlines())}


def size(path):
    return path.stat().st_size if path and path.exists() else 0


def last_line(path):
    lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
    return lines[-1] if lines else "(it said nothing)"
