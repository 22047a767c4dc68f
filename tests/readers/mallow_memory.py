"""The memory of processes in a recording, from docs/FORMAT.md alone: footprints, their pages and live blocks, RSS over time."""

from mallow_format import Column, Damaged

SIZES = (
    "size rss pss shared_clean shared_dirty private_clean private_dirty anonymous lazy_free huge swap swap_pss locked hugetlb"
).split()
KINDS = "heap anonymous stack thread_stack file_text file_data mallow shared kernel bss".split()
WORD = 1 << 64


def footprint(recording, block):
    head, addresses, kinds, names, sizes = map(Column, block.columns)
    keys = "process ms flags page_bytes peak_rss live_blocks live_bytes".split()
    found = {key: head.number() for key in keys}
    found["peak_rss"] *= 1024
    flags = found.pop("flags")
    if found["process"] >= len(recording.processes) or flags > 1023:
        raise Damaged("a footprint that makes no sense")
    found |= {"is_highest": bool(flags & 1), "is_last": bool(flags & 2), "is_at_exit": bool(flags & 4)}
    found["has_background_thread"] = bool(flags & 512)
    found["fixes_thresholds"] = bool(flags & 32)
    found["recent_live"] = {"ms": head.number(), "bytes": head.number()} if flags & 16 else None
    found["live_resident"] = head.number() if flags & 64 else None
    found["threads"] = head.number() if flags & 128 else 0
    found["settings"] = [head.string() for _ in range(head.number())] if flags & 256 else []
    found["gap"] = head.string() if flags & 8 else None
    found["mappings"], end, name = [], 0, ""
    for _ in range(head.number()):
        start = end + addresses.number()
        end = start + addresses.number()
        kind, of_mapping = kinds.number(), kinds.number()
        if not names.number():
            name = names.string()
        mapping = {"start": start, "end": end, "kind": KINDS[kind >> 1], "has_pages": bool(kind & 1), "flags": of_mapping}
        mapping |= {"name": name, "sizes": {size: 1024 * sizes.number() for size in SIZES}}
        if not start < end < WORD:
            raise Damaged("a mapping that makes no sense")
        found["mappings"].append(mapping)
    found["totals"] = {size: sum(mapping["sizes"][size] for mapping in found["mappings"]) for size in SIZES}
    found |= {"pages": [], "blocks": []}
    recording.footprints.append(found)


def pages(recording, block):
    starts, counts, states = map(Column, block.columns)
    of = recording.footprints[-1]
    end = of["pages"][-1][0] + of["pages"][-1][1] * of["page_bytes"] if of["pages"] else 0
    while starts.more():
        start = end + starts.number() * of["page_bytes"]
        count, state = counts.number(), states.number()
        of["pages"].append((start, count, state))
        end = start + count * of["page_bytes"]


HEAPS = ("glibc_arena", "pymalloc", "v8", "java", "go", "glibc_block", "unmapped")


def kept(recording, block):
    head, addresses, sizes, ranges, *heaps = map(Column, block.columns)
    address, found = 0, {"caches": head.number(), "complete": head.number(), "blocks": []}
    while addresses.more():
        address += addresses.number()
        found["blocks"].append((address, sizes.number()))
    if found["complete"] > 1 or not recording.footprints:
        raise Damaged("caches that make no sense")
    recording.footprints[-1]["caches"] = found
    tables, end = [], 0
    while ranges.more():
        start = end + ranges.number()
        end = start + ranges.number()
        tables.append((start, end))
    recording.footprints[-1]["tables"] = tables
    for column in heaps:
        recording.footprints[-1]["huge_zeros"] = head.number()
        known, end = [], 0
        while column.more():
            kind, start = HEAPS[column.number()], end + column.number()
            end = start + column.number()
            known.append((kind, start, end, column.number()))
        recording.footprints[-1]["heaps"] = known


def placed_blocks(recording, block):
    addresses, sites, sizes = map(Column, block.columns)
    of = recording.footprints[-1]
    address, _, site = of["blocks"][-1] if of["blocks"] else (0, 0, 0)
    while addresses.more():
        address += addresses.number()
        site = sites.difference(site)
        if recording.sites[site][0] != of["process"]:
            raise Damaged("a live block of another process")
        of["blocks"].append((address, sizes.number(), site))


def rss(recording, block):
    # Version 2 has the first column alone.
    column, *peaks = map(Column, block.columns)
    while column.more():
        process, ms, points = column.number(), 0, []
        for _ in range(column.number()):
            ms += column.number()
            points.append({"ms": ms, "rss": 1024 * column.number(), "live_bytes": column.number()})
        if process >= len(recording.processes):
            raise Damaged("memory of no process")
        recording.rss[process] = points
        recording.peaks[process] = peak(*peaks) if peaks else None
    if any(column.more() for column in peaks):
        raise Damaged("the highest RSS of no process")


def peak(column):
    flags = column.number()
    if flags == 0:
        return None
    if not flags & 1 or flags > 7:
        raise Damaged("a highest RSS that makes no sense")
    found = {"bytes": 1024 * column.number()} | {key: column.number() for key in ("after_ms", "by_ms", "read_ms")}
    return found | {"is_final": bool(flags & 2), "is_older": bool(flags & 4)}


def size_classes(recording, block):
    (column,) = map(Column, block.columns)
    while column.more():
        process = column.number()
        recording.size_classes[process] = [column.number() for _ in range(column.number())]
