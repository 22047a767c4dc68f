"""Runs a command: bare or under a tool, with a bound on its time, in a directory that is the same each time."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass

from install import path
from places import BUILD

WORK = BUILD / "work"
"""The current directory of every run; emptied before it, so that its path is the same."""
HOME = BUILD / "home"
"""Kept: programs fill caches in it, and the first run of each command is not compared."""
LOAD_BOUND_S = 60


@dataclass(frozen=True)
class Run:
    """How a run ended, and what it printed and wrote."""

    status: int
    stdout: bytes
    stderr: bytes
    files: dict
    seconds: float
    timed_out: bool = False


def environment():
    """The same for every run. Nothing of the session's own reaches a command."""
    kept = {name: os.environ[name] for name in ("RUSTUP_HOME", "CARGO_HOME", "OPENBLAS_CORETYPE") if name in os.environ}
    real = os.path.expanduser("~")
    kept.setdefault("RUSTUP_HOME", f"{real}/.rustup")
    kept.setdefault("CARGO_HOME", f"{real}/.cargo")
    return {
        **kept,
        "PATH": path(),
        "HOME": str(HOME),
        "LC_ALL": "C.UTF-8",
        "TERM": "dumb",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
    }


def run(arguments, stdin=None, extra=None, limit_s=60.0):
    """Runs it. `extra`: more environment. After `limit_s` its process group is killed."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    HOME.mkdir(parents=True, exist_ok=True)
    outputs = BUILD / "stdout", BUILD / "stderr"
    began = time.monotonic()
    timed_out = False
    with open(stdin or os.devnull, "rb") as reads, open(outputs[0], "wb") as out, open(outputs[1], "wb") as err:
        process = subprocess.Popen(
            list(map(str, arguments)),
            stdin=reads,
            stdout=out,
            stderr=err,
            cwd=WORK,
            env={**environment(), **(extra or {})},
            start_new_session=True,
        )
        try:
            status = process.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            timed_out = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
    seconds = time.monotonic() - began
    status = 128 - status if status < 0 else status
    return Run(status, outputs[0].read_bytes(), outputs[1].read_bytes(), written_files(), seconds, timed_out)


def written_files():
    """What a run left in its directory: a digest for each name. Recordings of mallow's are its own."""
    found = {}
    for directory, _, names in os.walk(WORK):
        for name in names:
            file = os.path.join(directory, name)
            if name.endswith(".mallow"):
                continue
            relative = os.path.relpath(file, WORK)
            try:
                with open(file, "rb") as opened:
                    found[relative] = hashlib.sha256(opened.read()).hexdigest() if os.path.isfile(file) else "special"
            except OSError:
                found[relative] = "unreadable"
    return found


@contextlib.contextmanager
def load(count):
    """So many `yes` beside what runs within; they end after LOAD_BOUND_S at the latest. One load at a time."""
    if not count:
        yield
        return
    lock_path = os.environ.get("STRANGERS_LOCK", str(BUILD / "load.lock"))
    with open(lock_path, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = ["timeout", str(LOAD_BOUND_S), "yes"]
        started = [subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) for _ in range(count)]
        try:
            yield
        finally:
            for process in started:
                # timeout passes the signal on to its yes.
                process.terminate()
            for process in started:
                process.wait()
