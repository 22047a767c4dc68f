#!/usr/bin/env python3
"""Mallow in the roots of other Debian releases, with glibc and with musl: a table of what works, judged by what a program
knows of itself and by the kernel. As root; the first run downloads the roots into build/distros (DISTROS_CACHE: elsewhere).

DISTROS names the suites. The table goes to build/distros/table.md as well. Status 1: a cell is not what was expected; 2:
the machine lacks something.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import roots
import ways
from roots import HERE, ROOT

MALLOW = Path(os.environ.get("MALLOW_BIN", ROOT / "target/release/mallow"))
SUITES = os.environ.get("DISTROS", "bullseye bookworm trixie sid").split()
COMPILERS = {"glibc": ["gcc"], "musl": ["musl-gcc"]}
"""What builds for a C library."""
REFUSED = {("musl", "record -p"): "mallow attaches to programs with glibc alone"}
"""Cells that are no yes, and what must be said there."""
FLAGS = ["-std=gnu11", "-O1", "-g"]
IN_NAMESPACE = "DISTROS_IN_NAMESPACE"


def build(root, compiler):
    """The worker and what asks the kernel, in the root, for one of its C libraries."""
    for source in ("distros/worker.c", "strangers/waiter.c"):
        place = root.place / source
        place.parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / "tests" / source, place)
    shutil.copy(MALLOW, root.place / "mallow")
    ways.succeed(root, [*compiler, *FLAGS, "-o", "worker", "distros/worker.c"])
    ways.succeed(root, [*compiler, *FLAGS, "-static", "-o", "peak", "strangers/waiter.c"])


def version(root, library):
    """The version of the C library in the root."""
    if library == "glibc":
        return re.search(r"\d+\.\d+", ways.succeed(root, ["ldd", "--version"]))[0]
    # It prints its version and ends with 1.
    return re.search(r"Version (\S+)", root.run(["/lib/ld-musl-x86_64.so.1"])[2])[1]


def cell(root, library, name):
    """Text of a cell, and what is wrong with it, if anything is."""
    refusal = REFUSED.get((library, name))
    try:
        ways.WAYS[name](root)
    except ways.Failed as error:
        if refusal and refusal in str(error):
            return "refused", None
        return "**no**", str(error)
    return ("**yes**", f"works, where “{refusal}” was expected") if refusal else ("yes", None)


def rows(suite):
    """The rows of a suite: their cells, and what is wrong."""
    root = roots.Root(roots.make(suite))
    for library, compiler in COMPILERS.items():
        root.clear()
        build(root, compiler)
        title = f"Debian {suite}, {library} {version(root, library)}"
        found = [(name, *cell(root, library, name)) for name in ways.WAYS]
        yield [title, *(text for _, text, _ in found)], [f"{title}: {name}: {why}" for name, _, why in found if why]


def empty(suite):
    """The row of a root with nothing but the command and a recording that was made in a suite's root."""
    place = roots.CACHE / "empty"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    shutil.copy(MALLOW, place / "mallow")
    shutil.copy(roots.CACHE / suite / roots.PLACE.lstrip("/") / "packed.mallow", place)
    command = [shutil.which("chroot"), str(place), "/mallow", "report", "--json", "/packed.mallow"]
    report = subprocess.run(command, capture_output=True, text=True, env={}, check=False)
    right = report.returncode == 0 and '"keep_rows"' in report.stdout
    shutil.rmtree(place)
    return [] if right else [f"an empty root: report ended with {report.returncode}: {report.stderr[:200]}"]


def main():
    if os.geteuid() != 0:
        print("distros: roots are mounted: run it as root", file=sys.stderr)
        return 2
    if IN_NAMESPACE not in os.environ:
        # What is mounted here ends with it.
        command = ["unshare", "--mount", "--propagation", "private", sys.executable, __file__]
        return subprocess.run(command, env=os.environ | {IN_NAMESPACE: "1"}, check=False).returncode
    wrong, lines = [], ["| system | " + " | ".join(ways.WAYS) + " |", "| --- " * (len(ways.WAYS) + 1) + "|"]
    try:
        for suite in SUITES:
            for row, why in rows(suite):
                lines.append("| " + " | ".join(row) + " |")
                print(lines[-1], flush=True)
                wrong += why
    except roots.Missing as missing:
        print(f"distros: {missing}", file=sys.stderr)
        return 2
    wrong += empty(SUITES[-1])
    (roots.CACHE / "table.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines), *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
