#!/usr/bin/env python3
"""memory_oracle.py PID: what the kernel accounts for of a process, read without Mallow: a line of JSON.

Sums of /proc/PID/smaps_rollup, and the pages of private writable memory of no file by /proc/PID/pagemap, one by one.
"""

import json
import re
import struct
import sys

PAGE = 4096


def main(pid):
    rollup = {}
    for line in open(f"/proc/{pid}/smaps_rollup", encoding="utf-8"):
        if found := re.match(r"(\w+):\s+(\d+) kB", line):
            rollup[found[1]] = 1024 * int(found[2])
    resident, shared, swapped = 0, 0, 0
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
        for start, end in mappings(pid):
            pagemap.seek(start // PAGE * 8)
            left = (end - start) // PAGE
            while left > 0:
                entries = pagemap.read(8 * min(left, 1 << 16))
                left -= len(entries) // 8
                for (entry,) in struct.iter_unpack("<Q", entries):
                    resident += entry >> 63
                    swapped += entry >> 62 & 1
                    shared += entry >> 63 and not entry >> 56 & 1
    print(json.dumps({"rollup": rollup, "resident": resident, "shared": shared, "swapped": swapped}))


def mappings(pid):
    """Those with less than 4 GiB: the rest of a test's mappings are reservations that nobody touches."""
    for line in open(f"/proc/{pid}/maps", encoding="utf-8"):
        places, rights, _, _, inode, *name = line.split(maxsplit=5)
        start, end = (int(place, 16) for place in places.split("-"))
        special = name and name[0].strip() in ("[stack]", "[vvar]", "[vdso]")
        if inode == "0" and rights.startswith("rw") and rights.endswith("p") and not special and end - start < 1 << 32:
            yield start, end


if __name__ == "__main__":
    main(int(sys.argv[1]))
