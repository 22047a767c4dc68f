"""The rooms of preload/: what each may use, no circles, builds of some rooms alone, and how long they may be."""

import os
import re
import subprocess
import tempfile
from pathlib import Path

from circles import components

PRELOAD = Path(__file__).resolve().parent.parent / "preload"

# Room → the rooms that it may use. arch is the processor's: of base it may know wire.h and sys.h.
USES = {
    "arch": {"base"},
    "base": {"arch"},
    "count": {"arch", "base"},
    "walk": {"arch", "base"},
    "trace": {"arch", "base", "walk"},
    "sample": {"arch", "base", "walk"},
    "inplace": {"arch", "base", "walk", "sample"},
    # It writes jumps, as hook does.
    "guard": {"arch", "base", "walk", "sample", "hook"},
    "measure": {"arch", "base", "include"},
    "scan": {"arch", "base"},
    "hook": {"arch", "base"},
    # It calls dlclose, which walk interposes; allocators inside of modules are patched with the stubs of hook.
    "attach": {"arch", "base", "walk", "hook"},
}

# Builds of some rooms alone: table of policies, rooms, and the modes (enum mallow_mode) that it serves.
BUILDS = {
    "count": (["count"], {1}),
    "count with measured regions": (["count", "measure"], {1}),
    "trace": (["walk", "trace"], {2}),
    "sample": (["walk", "sample"], {4}),
    "whole": (None, {1, 2, 4}),
}

# Most lines of code, without comments and blank lines: what a security team reads to know a room. Each bound leaves a tenth for mends; who
# raises one says in the commit what the room does now that it did not do before. The layouts of the wire are counted apart: they hold those
# of all policies, and both sides of the border read them.
SIGNAL = "arch/x86_64/arch_signal.h"
WIRE = {"base/wire.h": 430, "base/wire_attachment.h": 50, "base/wire_guard.h": 170}
LINES = {
    "arch": 260,
    "base": 2150,
    "count": 110,
    "walk": 1960,
    "trace": 980,
    "sample": 2090,
    "inplace": 440,
    "guard": 1970,
    "measure": 360,
    "scan": 110,
    "hook": 600,
    "attach": 300,
    SIGNAL: 20,
    **WIRE,
}
WHOLE = set(LINES) - set(WIRE)
# What is read to know what counting does; what records the calls of functions that programs name; all.
TOGETHER = [(("arch", "base", "count"), 2400), (WHOLE - {"scan", "hook", "attach", "inplace", "guard", SIGNAL}, 7770), (WHOLE, 11160)]


def faults():
    yield from include_faults()
    yield from line_faults()
    with tempfile.TemporaryDirectory() as directory:
        yield from call_faults(Path(directory))
        yield from build_faults(Path(directory))


def sources(suffixes=".[ch]"):
    for room in USES:
        yield from sorted((PRELOAD / room).rglob(f"*{suffixes}"))


def room_of(path):
    return path.relative_to(PRELOAD).parts[0]


def includes(path):
    """The files of preload/ that a file includes."""
    for name in re.findall(r'^#include "(.+)"', path.read_text(encoding="utf-8"), re.MULTILINE):
        found = [where / name for where in (PRELOAD, *(PRELOAD / "arch").iterdir()) if (where / name).exists()]
        yield found[0] if found else PRELOAD / name


def include_faults():
    graph = {}
    for path in sources():
        graph[path] = list(includes(path))
        room = room_of(path)
        for used in graph[path]:
            if room_of(used) != room and room_of(used) not in USES[room]:
                yield f"{path.relative_to(PRELOAD)} includes {used.relative_to(PRELOAD)}: {room} may not use it"
            if room == "arch" and room_of(used) == "base" and used.name not in ("wire.h", "sys.h"):
                yield f"{path.relative_to(PRELOAD)} includes {used.relative_to(PRELOAD)}: arch knows base/wire.h and base/sys.h alone"
    for circle in components(graph):
        yield f"files include each other: {', '.join(str(path.relative_to(PRELOAD)) for path in circle)}"


def line_faults():
    lines = dict.fromkeys(LINES, 0)
    for path in sources():
        name = str(path.relative_to(PRELOAD))
        code = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        lines[name if name in LINES else room_of(path)] += sum(1 for line in code.splitlines() if line.strip())
    for name, most in LINES.items():
        if lines[name] > most:
            yield f"preload/{name} has {lines[name]} lines of code, more than {most}"
    for rooms, most in TOGETHER:
        if sum(lines[room] for room in rooms) > most:
            yield f"preload/: {', '.join(sorted(rooms))} have more than {most} lines of code together"


def call_faults(directory):
    """Object files that need each other's symbols. policies.c chooses among them, and belongs to no room."""
    defined, needed = {}, {}
    compiler = os.environ.get("CC", "cc")
    flags = "-std=c11 -D_GNU_SOURCE -O2 -fPIC -fvisibility=hidden -fcf-protection=none -c".split()
    for path in sources(".c"):
        output = directory / "object.o"
        subprocess.run([compiler, *flags, f"-I{PRELOAD}", f"-I{processor()}", "-o", output, path], check=True)
        for line in subprocess.run(["nm", output], check=True, capture_output=True, text=True).stdout.splitlines():
            kind, symbol = line.split()[-2:]
            if kind == "U":
                needed.setdefault(path, set()).add(symbol)
            elif kind in "TDBRC":
                defined[symbol] = path
    graph = {path: {defined[s] for s in symbols if s in defined} - {path} for path, symbols in needed.items()}
    for path, others in graph.items():
        for other in others:
            if room_of(other) != room_of(path) and room_of(other) not in USES[room_of(path)]:
                yield f"{path.relative_to(PRELOAD)} calls {other.relative_to(PRELOAD)}"
    for circle in components(graph):
        yield f"files call each other: {', '.join(str(path.relative_to(PRELOAD)) for path in circle)}"


def processor():
    machine = subprocess.run([os.environ.get("CC", "cc"), "-dumpmachine"], check=True, capture_output=True, text=True)
    return PRELOAD / "arch" / machine.stdout.split("-")[0]


def build_faults(directory):
    """Each build is linked without undefined symbols, and serves its modes, and no others, in a real program."""
    program = directory / "loaded"
    source = PRELOAD / "test/builds/loaded.c"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-std=gnu11", "-O2", "-Wall", f"-I{PRELOAD}", "-o", program, source], check=True)
    for name, (rooms, modes) in BUILDS.items():
        library = directory / "libmallow.so"
        table = PRELOAD / f"test/builds/{name.split()[0]}.c"
        command = ["sh", PRELOAD / "build.sh", library, *([table, *rooms] if rooms else [])]
        if subprocess.run(command, check=False).returncode != 0:
            yield f"the build '{name}' does not link"
            continue
        for mode in (1, 2, 4):
            with tempfile.TemporaryDirectory(prefix="mallow-rooms-") as run:
                # A shell runs other programs: entries, threads, fork and exec all come.
                result = subprocess.run(
                    [program, library, run, str(mode), "/bin/sh", "-c", "ls / | sort | wc -l; exit 7"],
                    capture_output=True, text=True, check=False)
            recorded = int(result.stdout.splitlines()[-1]) if result.returncode == 7 else None
            if recorded is None:
                yield f"the build '{name}', mode {mode}: the program failed: {result.returncode} {result.stderr}"
            elif (recorded > 0) != (mode in modes):
                yield f"the build '{name}', mode {mode}: {recorded} events recorded"
