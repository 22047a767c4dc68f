"""The first place of each list has a name where one exists, and is none of the allocator's wrappers.

Oracles: nm and addr2line for names; for wrappers a list of names with the module that has each (wrappers.tsv).
"""

import re
import subprocess
from functools import cache, lru_cache

from disagreement import Disagreement
from places import HERE

NAME = "first place"
POOL = 72_704
"""The bytes of libstdc++'s emergency pool for exceptions (libsupc++/eh_alloc.cc, on 64 bits)."""


def check(evidence):
    """Looks at the first place of each list of each recording."""
    for condition, recording in evidence.record.items():
        for title, place in first_places(recording.report_json):
            for said, right in compare(title, place):
                command = f"mallow report {recording.file}"
                yield Disagreement(NAME, evidence.row.name, f"report, {condition}", said, right, command)


def first_places(document):
    """The title and the first place of each list."""
    if not document:
        return
    for places in document["largest"]:
        if places["total"] and places["largest"]:
            yield f"places by {places['by']}", places["largest"][0]
    if document.get("leak_causes"):
        yield "leaks", document["leak_causes"][0]
    if document.get("insights"):
        yield "insights", document["insights"][0]


def compare(title, place):
    """Pairs of what was said and what is right."""
    function, module, address = place.get("function"), place.get("module"), place.get("address")
    if not function:
        return
    if re.search(r"\+0x[0-9a-f]+$|^0x[0-9a-f]+$|^\[?unknown", function) and module and address:
        name = symbol(module, int(address, 16))
        if name:
            yield f"{title}: {function}", f"{name} (nm, addr2line)"
    if "libstdc++" in (module or "") and POOL in (place.get("peak_bytes"), place.get("live_bytes")):
        yield (
            f"{title}: {function}, {POOL:,} B",
            "libstdc++'s emergency pool, which each C++ program has: no place of the program",
        )
    # A wrapper is the place where nobody else is on the stack.
    frames = (place.get("largest_site") or {}).get("frames") or []
    if is_wrapper(function, module or "") and any(
        is_program(frame) for frame in frames if frame["function"] != function
    ):
        yield f"{title}: {function} of {module}", "its caller: it only passes on what others request"


def is_program(frame):
    """Can this frame be a place? Not the C library's start of a program."""
    return not re.match(
        r"_start$|__libc_start|__libc_start_call_main|main$|clone|start_thread|_dl_", frame["function"] or "_start"
    )


@lru_cache
def wrappers():
    """Patterns of names and of modules."""
    rows = [
        line.split("\t")
        for line in (HERE / "wrappers.tsv").read_text().splitlines()
        if line.strip() and not line.startswith("#")
    ]
    return [(re.compile(name.strip()), re.compile(module.strip())) for name, module in rows]


def is_wrapper(function, module):
    """Is it in the list?"""
    return any(name.fullmatch(function) and where.search(module) for name, where in wrappers())


@cache
def symbols(module):
    """Functions of a file, as (address, size, name), by nm: of its table of symbols, and of the dynamic one."""
    found = []
    for table in ([], ["-D"]):
        done = subprocess.run(
            ["nm", "-S", "--defined-only", *table, module], capture_output=True, text=True, errors="replace"
        )
        for line in done.stdout.splitlines():
            cells = line.split()
            if len(cells) == 4 and cells[2] in "tTwWiuV":
                found.append((int(cells[0], 16), int(cells[1], 16), cells[3]))
    return sorted(found)


def symbol(module, address):
    """The name of the function that an address is in, or None. The address may be a return address."""
    for start, size, name in symbols(module):
        if start < address <= start + size:
            return name
    done = subprocess.run(
        ["addr2line", "-f", "-e", module, hex(max(address - 1, 0))], capture_output=True, text=True, errors="replace"
    )
    name = done.stdout.splitlines()[0] if done.stdout else "??"
    # Without debug information addr2line takes the nearest symbol before, however far that is.
    located = len(done.stdout.splitlines()) > 1 and not done.stdout.splitlines()[1].startswith("??")
    return name if name != "??" and located else None
