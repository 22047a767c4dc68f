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

# Lines of code, without comments and blank lines. What is read to know what counting does is ≤ 2,174; what records calls of the
# functions that programs name ≤ 7,055, 30 of them for joining a run late and 14 by which sampling knows of guarding; the whole, with
# the scan at exit, allocators inside, attaching, a run directory that comes by a descriptor, sampling in place and guarding, ≤ 10,142;
# 6 of these so that a free under guarding looks through all modules once a region of addresses, and not each time, and 15 of attach so
# that the files of a run are unmapped while the threads of the process run.
# 39 of walk are for the stacks of goroutines, where the callers of C code in a Go program are.
# 29 of trace are for rings that begin small and grow: a process that is attached to makes those of all its threads at once.
# 70 of walk and 9 of arch follow the contexts of Swift's async functions, whose callers are on no stack.
# 17 of base are for an image that says that it calls exec: what it has is no leak then, and nothing else may show that exec.
# 53 of base list what the library maps for itself: nothing else says whose it is, and it was called the program's.
# 18 of base and 12 of attach see filters that a program installs while mallow is attached, and keep tables from growing under them.
# 23 of base are for system calls that install no filter though they were made to: a filter counts when the kernel has taken it.
# Of sample, 6 are for a doorbell that is rung once in a quarter of the ring of ends: mallow looks seldom at a fleet that is quiet.
# 48 are the wait at the exit in which guarded blocks are searched for leaks, the size of the table of slots for that, and locked memory.
# 129 are the signal handler that takes userfaultfd's place where the user allows it; what it knows of the processor is read by nobody else.
# 17 of base say where a thread waits at the exit of its image, for scan and guard, and which stack for signals it has: the kernel alone knows.
# 22 of arch find where exit's frames end: what a main that has returned left between them held blocks that are lost.
# 11 of hook tell an executable's own malloc from its symbol for the address of a call: without, all calls of such a program are uncounted.
# guard has entry functions of its own for all names, a slot pool with rings, and the handing over of a userfaultfd.
# 192 of guard and 3 of arch report a crash: a handler in the place of the default action, and the functions by which no program sees it.
# 53 of guard, and 4 of base, find frees of what is no block: by realloc, of threads' stacks, of mapped and of wild addresses.
# 367 of guard replace operator new and operator delete, where a C++ runtime is loaded, and tell which modules may have operators that nobody sees: mismatched frees.
# 127 of guard and 3 of arch look at buffers before the kernel does, which would say EFAULT, and see that pages that are given back exist.
# 43 of guard keep those buffers out of the way of programs that are not guarded: their calls are a jump to the C library's.
# 37 of guard name the first byte behind a block that a system call is given, and see that it is one error.
# 46 of guard are for its cost: the keeper's page of the pattern, a compare of 64 bytes at a time, a quarantine with an end.
# 6 of base and 35 of scan are for arguments: of a process the first word alone, or those that it shows at its exit, without what it has wiped.
# The layouts of the wire are counted apart: they hold those of all policies, and both sides of the border read them.
SIGNAL = "arch/x86_64/arch_signal.h"
WIRE = {"base/wire.h": 385, "base/wire_attachment.h": 43, "base/wire_guard.h": 153}
LINES = {
    "arch": 230,
    "base": 1851,
    "count": 100,
    "walk": 1779,
    "trace": 884,
    "sample": 1895,
    "inplace": 395,
    "guard": 1784,
    "measure": 320,
    "scan": 95,
    "hook": 545,
    "attach": 267,
    SIGNAL: 11,
    **WIRE,
}
WHOLE = set(LINES) - set(WIRE)
TOGETHER = [(("arch", "base", "count"), 2174), (WHOLE - {"scan", "hook", "attach", "inplace", "guard", SIGNAL}, 7055), (WHOLE, 10142)]


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
