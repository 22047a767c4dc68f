"""The page of `mallow view`: how long its first screen, ranges of time, tables and flame graphs take; beside the viewers of others."""

import http.client
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import measure

RANGES = 24
"""Parts of the time; a range is some of them. Each run asks for another one: the server keeps what was asked before."""

IDLE_S = 1.0
"""A viewer without an end has read its file when its process has done nothing for so long."""

MEMRAY_SCRIPT = """
import sys
rest = []
def leaf(n):
    return [n] * 20
def branch(n, depth):
    return branch(n, depth - 1) if depth else leaf(n)
for n in range(int(sys.argv[1])):
    rest.append(branch(n, n % 20))
    if len(rest) > 1000:
        rest = rest[500:]
"""
"""A Python program: memray records no other. Each round is about two events of memray's."""


class Server:
    """`mallow view` on a file, and the requests of a page."""

    def __init__(self, mallow, recording):
        self.began = time.monotonic()
        command = [str(mallow), "view", "--no-browser", str(recording)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        start_new_session=True)
        address = self.process.stdout.readline()
        found = re.match(r"http://([^/]+)/\?token=(\S+)", address)
        if not found:
            self.end()
            raise measure.Failed(f"mallow view printed no address: {address!r}")
        self.connection = http.client.HTTPConnection(found.group(1), timeout=measure.TIMEOUT_S)
        self.headers = {"Authorization": f"Bearer {found.group(2)}"}

    def get(self, path):
        """The body of an answer."""
        self.connection.request("GET", path, headers=self.headers)
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise measure.Failed(f"{path}: {answer.status}: {body[:200]!r}")
        return body

    def timed(self, path):
        """Wall and processor time of one request, and the most memory so far."""
        before, began = processor(self.process.pid), time.monotonic()
        self.get(path)
        return self.row(time.monotonic() - began, before)

    def row(self, wall, before=0.0):
        memory = measure.MemoryWatch()
        memory.look(self.process.pid)
        return {"wall": wall, "processor": processor(self.process.pid) - before, "kib": memory.largest}

    def end(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def processor(pid):
    """Processor time of a process so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def one_run(mallow, recording, number):
    """What a page asks for, in the order in which it does."""
    server = Server(mallow, recording)
    try:
        for path in ("/api/about", "/api/report?limit=20"):
            server.get(path)
        rows = {"`view`: to the first screen's answers": server.row(time.monotonic() - server.began)}
        rows["`view`: flame graph"] = server.timed("/api/flame?by=bytes")
        while (read := json.loads(server.get("/api/time")))["state"] == "reading":
            time.sleep(measure.POLL_S)
        rows["`view`: until ranges can be chosen"] = server.row(time.monotonic() - server.began)
        for what in ("allocated", "left"):
            asked = f"from={bound(read, number % 8)}&to={bound(read, RANGES - 1 - number % 8)}&what={what}&by=bytes"
            rows[f"`view`: a range, {what}: functions"] = server.timed(f"/api/top?limit=100&{asked}")
            rows[f"`view`: a range, {what}: flame graph"] = server.timed(f"/api/flame?{asked}")
        return rows
    finally:
        server.end()


def bound(read, part):
    """A moment at which a range may begin."""
    bounds = read["boundaries"][::read["step"]]
    return bounds[len(bounds) * part // RANGES]


def runs(mallow, recording, count):
    """Rows of so many runs: name to list of figures, or to why it failed."""
    rows = {}
    try:
        for number in range(count):
            for name, row in one_run(mallow, recording, number).items():
                rows.setdefault(name, []).append(row)
    except measure.Failed as failure:
        return {"`view`": str(failure)}
    return rows


def heaptrack_gui(data):
    """How long heaptrack's viewer reads a file, without a screen. None: it is not there."""
    if not shutil.which("heaptrack_gui"):
        print("bench: heaptrack_gui is missing (left out)", file=sys.stderr)
        return None
    env = dict(os.environ, QT_QPA_PLATFORM="offscreen", HOME=str(measure.WORK))
    began = time.monotonic()
    viewer = subprocess.Popen(["heaptrack_gui", str(data)], env=env, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, start_new_session=True)
    watch = measure.MemoryWatch()
    busy, spent = began, 0.0
    try:
        while time.monotonic() - busy < IDLE_S or spent < 0.1:
            if viewer.poll() is not None:
                raise measure.Failed(f"heaptrack_gui: exit code {viewer.returncode}")
            if time.monotonic() - began > measure.TIMEOUT_S:
                raise measure.Failed(f"heaptrack_gui: still reading after {measure.TIMEOUT_S} s")
            time.sleep(measure.POLL_S)
            watch.look(viewer.pid)
            now = processor(viewer.pid)
            # A cursor that blinks is no work.
            if now - spent > 0.02:
                busy, spent = time.monotonic(), now
        return {"wall": busy - began, "processor": spent, "kib": watch.largest}
    finally:
        if viewer.poll() is None:
            os.killpg(viewer.pid, signal.SIGKILL)
        viewer.wait()


def memray_rows(millions, timed):
    """Rows of memray on a Python program with so many events, as name and function: its HTML, made and loaded."""
    program = shutil.which("memray")
    browser = shutil.which("chromium")
    if not program or not browser:
        print("bench: memray or chromium is missing (left out)", file=sys.stderr)
        return
    script, data, page = (measure.WORK / name for name in ("memray.py", "memray.bin", "memray.html"))
    script.write_text(MEMRAY_SCRIPT, encoding="utf-8")
    record = [program, "run", "-q", "-f", "--trace-python-allocators", "-o", str(data), str(script),
              str(round(millions * 1e6 / 2))]
    show = [program, "flamegraph", "-f", "-o", str(page), str(data)]
    load = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom",
            f"--user-data-dir={measure.WORK / 'chromium'}", page.as_uri()]
    yield "memray, a Python program included", lambda: timed(record)
    yield "memray flamegraph", lambda: timed(show)
    # It reserves more addresses than there are to use.
    yield "its HTML in Chromium", lambda: timed(load, resource.RLIM_INFINITY)
