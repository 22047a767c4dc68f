"""What is tried on each system, a function each: it raises Failed where what Mallow says is not what is true."""

import fcntl
import json
import select
import signal
import subprocess
import time

from roots import PLACE

# worker.c has the same numbers.
KEPT, KEPT_BYTES, DROPPED, DROPPED_BYTES, LOST_BYTES = 2000, 4000, 500, 100, 5000
OWN = {
    "allocations": KEPT + DROPPED + 1,
    "allocated_bytes": KEPT * KEPT_BYTES + DROPPED * DROPPED_BYTES + LOST_BYTES,
    "frees": DROPPED,
}
WORDS = tuple(OWN)
WORKER = f"{PLACE}/worker"
LATE = 3 * 64 * 4096
"""Bytes that the kernel may add late to its figure on two processors: it counts on each apart."""
PATIENCE = 60
"""Seconds within which a program or mallow must answer."""


class Failed(Exception):
    """What was said, and what is true."""


def expect(what, said, right):
    if said != right:
        raise Failed(f"{what}: {said}, not {right}")


def succeed(root, command, **options):
    """Standard output of a command that must end with 0."""
    status, out, err = root.run(command, **options)
    if status != 0:
        raise Failed(f"{' '.join(command[:3])} ended with {status}: {' '.join((err or out).split())[:300]}")
    return out


def written(root, name):
    return json.loads((root.place / name).read_text())


def first_place(places):
    """Function and file of the largest place."""
    first = next(iter(places), {})
    return first.get("function"), (first.get("file") or "").rsplit("/", 1)[-1]


# ---- the ways ----


def stat(root):
    succeed(root, ["mallow", "stat", "--json", "-o", "stat.json", "--", WORKER])
    said = written(root, "stat.json")
    expect("stat", {word: said[word] for word in WORDS}, OWN)


def reports_work(report):
    """A report of the work: its sums, and the place that has most at the peak."""
    expect("sums", {word: report[word] for word in WORDS}, OWN)
    of_peak = next(places for places in report["largest"] if places["by"] == "peak")
    expect("the largest place", first_place(of_peak["largest"]), ("keep_rows", "worker.c"))
    expect("its bytes", of_peak["largest"][0]["peak_bytes"], KEPT * KEPT_BYTES)


def record(root):
    succeed(root, ["mallow", "record", "-o", "work.mallow", "--", WORKER])
    said = json.loads(succeed(root, ["mallow", "report", "--json", "work.mallow"]))
    reports_work(said)
    expect("reasons why parts are missing", (said["unrecorded"] if "unrecorded" in said else [], said["lost"]), ([], 0))


def leaks(root):
    said = json.loads(succeed(root, ["mallow", "leaks", "--only", "lost", "--json", "work.mallow"]))
    expect("lost", (said["lost_blocks"], said["lost_bytes"]), (1, LOST_BYTES))
    expect("the place of the leak", first_place(said["leak_causes"]), ("lose_block", "worker.c"))
    succeed(root, ["mallow", "pack", "-o", "packed.mallow", "work.mallow"])


def rss(root):
    succeed(root, ["mallow", "record", "-o", "rss.mallow", "--", f"{PLACE}/peak", "rss.txt", WORKER])
    said = json.loads(succeed(root, ["mallow", "rss", "--at", "end", "--json", "rss.mallow"]))
    kernels = int((root.place / "rss.txt").read_text().split()[0]) << 10
    if abs(said["peak_rss"] - kernels) > max(kernels // 50, LATE):
        raise Failed(f"highest RSS: {said['peak_rss']}, and the kernel's {kernels}")
    parts = {part["part"]: part["bytes"] for part in said["parts"]}
    expect("the sum of the parts", sum(parts.values()), said["rss"])
    if not KEPT * KEPT_BYTES <= parts["live"] <= KEPT * (KEPT_BYTES + 100):
        raise Failed(f"live blocks in memory: {parts['live']}")


def watch(root):
    succeed(root, ["mallow", "watch", "--period", "4KiB", "--json", "-o", "watch.json", "--", WORKER])
    last = json.loads((root.place / "watch.json").read_text().splitlines()[-1])
    holds(last)


def holds(report):
    """A watch's report: the place with most live bytes, and their sum, a sample of 4 KiB being drawn."""
    expect("what watch says is live", first_place(report["places"]), ("keep_rows", "worker.c"))
    value = report["live_bytes"]["value"]
    if abs(value - KEPT * KEPT_BYTES) > KEPT * KEPT_BYTES // 5:
        raise Failed(f"live bytes: {value}")


def guard(root):
    status, _, err = root.run(["mallow", "guard", "--json", "-o", "guard.json", "--", WORKER, "overflow"])
    said = written(root, "guard.json")
    if not said["errors"]:
        raise Failed(f"guard ended with {status} and found nothing: {err[:200]}")
    first = said["errors"][0]
    expect("the error", (first["kind"], first["error"]["stack"]["frames"][0]["function"]), ("overflow", "overflow"))
    succeed(root, ["mallow", "guard", "-o", "guard.txt", "--", WORKER])


class Waiting:
    """A worker that waits for a byte before its work and after it."""

    def __init__(self, root, command):
        pipe = subprocess.PIPE
        self.process = root.start([*command, WORKER, "wait"], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        self.says("ready\n")

    def pid(self):
        """Of the worker itself: what starts it may have a process of its own."""
        pid = self.process.pid
        for _ in range(2):
            with open(f"/proc/{pid}/task/{pid}/children") as children:
                below = children.read().split()
            if not below:
                break
            pid = int(below[0])
        return pid

    def says(self, line):
        if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
            raise Failed("the worker gives no answer")
        expect("the worker's line", self.process.stdout.readline(), line)

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        self.go()
        expect("the worker's status", self.process.wait(PATIENCE), 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def is_attached(root, mallow, pid):
    """Waits until the attachment is whole: it is made under a lock, of the root's own /proc, and the run's files are mapped
    in it."""
    process = root.path / "proc" / str(pid)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and mallow.poll() is None:
        with open(process / "maps") as maps, open(process / "status") as status:
            fcntl.flock(status, fcntl.LOCK_EX)
            if "/mallow-" in maps.read():
                return True
        time.sleep(0.01)
    return False


def says(mallow, words):
    """Whether the first line that mallow says has these words."""
    return bool(select.select([mallow.stderr], [], [], PATIENCE)[0]) and words in mallow.stderr.readline()


def beside(root, command, is_ready, work):
    """Does the work while a mallow is attached, and lets that end."""
    mallow = root.start(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        if not is_ready(mallow):
            mallow.terminate()
        else:
            work()
            mallow.send_signal(signal.SIGINT)
        err = mallow.communicate(timeout=PATIENCE)[1]
    finally:
        mallow.kill()
        mallow.wait()
    if mallow.returncode not in (0, 130):
        raise Failed(f"{' '.join(command[:2])} ended with {mallow.returncode}: {' '.join(err.split())[:300]}")


def attach(root):
    with Waiting(root, []) as worker:

        def work():
            worker.go()
            worker.says("done\n")

        pid = worker.pid()
        beside(root, ["mallow", "record", "-o", "attached.mallow", "-p", str(pid)], lambda mallow: is_attached(root, mallow, pid), work)
        worker.end()
    said = json.loads(succeed(root, ["mallow", "report", "--json", "attached.mallow"]))
    reports_work(said)


def join(root):
    with Waiting(root, ["mallow", "run", "--sample"]) as worker:

        def work():
            worker.go()
            worker.says("done\n")

        watch_it = ["mallow", "watch", "--period", "4KiB", "--older-than", "0", "--json", "-o", "joined.json", "-p", str(worker.pid())]
        beside(root, watch_it, lambda mallow: says(mallow, "watching"), work)
        worker.end()
    holds(json.loads((root.place / "joined.json").read_text().splitlines()[-1]))


WAYS = {
    "stat": stat,
    "record": record,
    "leaks": leaks,
    "rss": rss,
    "watch": watch,
    "run, watch -p": join,
    "guard": guard,
    "record -p": attach,
}
