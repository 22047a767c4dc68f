"""Blocks that nothing reaches when the program calls exit, run bare under gdb, and those that words of the stack alone reach.

memcheck's malloc leaves no words on the program's stack, glibc's does: a frame that has room which it never writes shows
them. Mallow's definition takes each word of a live frame for a pointer, into the middle of a block too, and what such a
block points to is reached with it. Memory that is reused holds words of before, which memcheck's heap hardly has. Only
glibc's main heap and the main thread are looked at, which is enough for small programs; of others nothing is said.

As a program of its own, inside of gdb, this file counts them.
"""

import bisect
import re
import struct
import subprocess
from dataclasses import dataclass

LIMIT_S = 60


@dataclass
class BareHeap:
    """Numbers of blocks."""

    unreached: int
    held_by_the_stack: int


def walk(row, environment, directory):
    """Runs it. None: gdb could not tell."""
    command = ["gdb", "-q", "-nx", "--batch", "-x", __file__, "--args", *map(str, row.arguments)]
    try:
        with open(row.stdin or "/dev/null", "rb") as reads:
            done = subprocess.run(
                command, stdin=reads, capture_output=True, env=environment, cwd=directory, timeout=LIMIT_S
            )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.findall(rb"^unreached: (\d+); held by the stack alone: (\d+)$", done.stdout, re.MULTILINE)
    return BareHeap(*map(int, found[0])) if len(found) == 1 else None


def words(memory):
    """All aligned words."""
    return struct.unpack(f"<{len(memory) // 8}Q", memory[: len(memory) // 8 * 8])


def chunks(heap, start):
    """Blocks in use in glibc's heap, address and size: malloc.c, `struct malloc_chunk` and `struct tcache_perthread_struct`."""
    found, at = [], 0
    while at + 16 <= len(heap):
        size = struct.unpack_from("<Q", heap, at + 8)[0] & ~7
        if size < 32 or at + size > len(heap):
            break
        found.append((at, size))
        at += size
    # A chunk is in use if the next one says so; the last is the top. The first is the cache of freed blocks.
    used = {
        start + at + 16: size - 8
        for (at, size), (after, _) in zip(found, found[1:])
        if struct.unpack_from("<Q", heap, after + 8)[0] & 1
    }
    bins = found[0][0] + 16 + 64 * 2
    for entry in struct.unpack_from("<64Q", heap, bins):
        while entry in used:
            del used[entry]
            entry = struct.unpack_from("<Q", heap, entry - start)[0] ^ (entry >> 12)
    used.pop(start + 16, None)
    return used


def reached(roots, used, heap, start):
    """The blocks that these words reach. `heap`: the memory from `start` on, in which all blocks are."""
    order = sorted(used)
    found, waiting = set(), list(roots)
    while waiting:
        word = waiting.pop()
        at = bisect.bisect_right(order, word) - 1
        if at < 0 or word >= order[at] + used[order[at]] or order[at] in found:
            continue
        found.add(order[at])
        begin = order[at] - start
        waiting += words(heap[begin : begin + used[order[at]]])
    return found


def look(gdb):
    """Counts them in the program that stands at exit."""
    process = gdb.selected_inferior()
    mappings = []
    with open(f"/proc/{process.pid}/maps", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            place, rights, _, _, _, *name = line.split(maxsplit=5)
            if rights.startswith("rw"):
                first, last = (int(end, 16) for end in place.split("-"))
                mappings.append((first, last, name[0].strip() if name else ""))
    top = int(gdb.parse_and_eval("(unsigned long)$rsp"))
    (start, end, _) = next(mapping for mapping in mappings if mapping[2] == "[heap]")
    heap = bytes(process.read_memory(start, end - start))
    used = chunks(heap, start)
    stack, elsewhere = [], []
    for first, last, name in mappings:
        if name == "[heap]":
            continue
        first, into = (top & ~7, stack) if name == "[stack]" else (first, elsewhere)
        into += words(bytes(process.read_memory(first, last - first)))
    elsewhere += [int(gdb.parse_and_eval(f"(unsigned long)${name}")) for name in ("rbx", "rbp", "r12", "r13", "r14", "r15")]
    of_others = reached(elsewhere, used, heap, start)
    of_all = reached(stack + elsewhere, used, heap, start)
    print(f"unreached: {len(used) - len(of_all)}; held by the stack alone: {len(of_all - of_others)}", flush=True)


if __name__ == "__main__":
    import gdb

    gdb.execute("set confirm off")
    gdb.execute("set disable-randomization on")
    gdb.execute("set breakpoint pending on")
    gdb.execute("break exit")
    gdb.execute("run")
    look(gdb)
    gdb.execute("kill")
