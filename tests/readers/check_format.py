#!/usr/bin/env python3
"""Prints what the independent reader finds in recordings, under the words of docs/DEFINITIONS.md.

check_format.py FILE…             a line of JSON for each file
check_format.py --each-byte FILE  cuts it at each length and changes each byte: fails where that is not noticed
"""

import json
import sys
from pathlib import Path

from mallow_events import Decoder
from mallow_format import COUNT_NAMES, FAMILIES, Refused, read, read_blocks

SUMS = COUNT_NAMES[:12]


def figures(data):
    """What `mallow report`, `top --raw` and `leaks` should say, and where the file contradicts itself."""
    decoder = Decoder()
    try:
        recording = read(data, decoder)
    except Refused as refused:
        return {"refused": str(refused)}
    sums = decoder.finish(recording)
    closed = recording.why is None
    sites = recording.counts if closed else sums.sites
    processes = recording.ends if closed else [decoder.process(n) for n in range(len(recording.processes))]
    report = {"command": recording.command, "started_unix_ms": recording.started}
    report |= {"sites": len({stack for _, stack in recording.sites})}
    report |= total(sites) | {"peak_ms": recording.ending["peak_ms"] if closed else sums.peak_ms}
    report |= {"families": families(processes), "processes": [
        process(recording, number, end, [s for s, (of, _) in zip(sites, recording.sites) if of == number])
        for number, end in enumerate(processes)
    ]}
    if closed:
        report |= {name: recording.ending[name] for name in ("duration_ms", "cpu_us", "exit_status", "lost", "damaged")}
    return {
        "why": recording.why,
        "report": report,
        "leaks": leaks(recording, sites),
        "top": top(recording, sites) if recording.names else None,
        "regions": len(recording.regions),
        "contradictions": list(contradictions(recording, decoder, sums)) if closed else [],
    }


def total(sites):
    return with_remaining({name: sum(site[name] for site in sites) for name in SUMS})


def with_remaining(sums):
    return sums | {"remaining": sums["allocations"] - sums["frees"]}


def families(ends):
    for name in FAMILIES:
        calls, size = (sum(end["families"][name][n] for end in ends) for n in (0, 1))
        if calls:
            yield {"family": name, "allocations": calls, "allocated_bytes": size}


def process(recording, number, end, sites):
    known = recording.processes[number]
    row = {
        "pid": known.pid,
        "parent_pid": known.parent,
        "serial": known.serial,
        "forked": known.forked,
        "attached": known.attached,
        "start_ms": known.start_ms,
        "executable": known.executable,
        "arguments": known.arguments,
    }
    more = "own_peak_bytes own_peak_ms foreign_frees end_ms threads lost".split()
    row |= {name: end[name] for name in more if name in end}
    return row | total(sites) | {"families": families([end])}


def leaks(recording, sites):
    """By what the stacks read, innermost first, over all images that did not end by exec: by addresses, where there are no names."""
    found = {}
    gone = {scan["process"] for scan in recording.scans if scan["exec"]}
    for site, (process, stack) in zip(sites, recording.sites):
        if site["live"] and process not in gone:
            frames = tuple(text for frame in recording.stack(stack)[0] for text in texts(recording, frame))
            row = found.setdefault(frames, {"live": 0, "live_bytes": 0, "frames": frames})
            row["live"] += site["live"]
            row["live_bytes"] += site["live_bytes"]
    return list(found.values())


def texts(recording, frame):
    if recording.names:
        return [(module, function, file, line) for function, file, line, module in named(recording, frame)]
    module, address, _ = recording.frames[frame]
    return [(path_of(recording, module), f"{address:#x}")]


def path_of(recording, module):
    """An executable has the name by which it was executed, where all its processes had the same."""
    if module is None:
        return None
    path = recording.modules[module][0]
    processes = [number for number, process in enumerate(recording.processes) if process.executable == path]
    names = {recording.executed_names.get(number) for number in processes}
    return (names.pop() if len(names) == 1 else None) or path


def top(recording, sites):
    """By function, self and cum. Functions of one name are told apart by their files, else by their modules."""
    found = {}
    for site, (_, stack) in zip(sites, recording.sites):
        frames = recording.stack(stack)[0]
        lines = [line for frame in frames for line in named(recording, frame)]
        functions = [(name, file, None if file else module) for name, file, _, module in lines]
        for place in dict.fromkeys(functions):
            row = found.setdefault(place, {"self": dict.fromkeys(SUMS, 0), "cum": dict.fromkeys(SUMS, 0)})
            for kind in ("self", "cum") if place == functions[0] else ("cum",):
                for name in SUMS:
                    row[kind][name] += site[name]
    for (function, file, module), row in found.items():
        sums = {kind: with_remaining(row[kind]) for kind in row}
        yield {"function": function, "file": file, "module": module} | sums


def named(recording, frame):
    module, address, _ = recording.frames[frame]
    path = path_of(recording, module)
    # Without a name, a function is called by where it begins, if the file says that.
    nameless = f"{Path(path or '?').name}+{recording.begins.get(frame, address):#x}"
    for function, file, line in recording.lines.get(frame) or [(nameless, None, 0)]:
        yield function, file, line or None, path


def contradictions(recording, decoder, sums):
    """The sums that the file has must be those of its events."""
    for number, (recorded, counted) in enumerate(zip(recording.counts, sums.sites, strict=True)):
        yield from differences(f"site {number}", recorded, counted)
    for number, recorded in enumerate(recording.ends):
        counted = decoder.process(number)
        yield from differences(f"process {number}", {key: recorded[key] for key in counted}, counted)
    if recording.ending["peak_ms"] != sums.peak_ms:
        yield f"peak at {recording.ending['peak_ms']} ms, {sums.peak_ms} by events"
    if sum(site["peak_bytes"] for site in recording.counts) != sums.peak:
        yield f"the sites' peak bytes are not {sums.peak}"
    if recording.index != sums.blocks:
        yield "the index is not that of the blocks of events"
    if not len(recording.counts) == len(recording.patterns) == len(recording.sites) == recording.ending["sites"]:
        yield "not all sites have counts and patterns"
    yield from lost(recording)
    for number, (recorded, counted) in enumerate(zip(recording.patterns, decoder.habits.sites, strict=True)):
        # Writers forget old steps, and take what goes on for something new.
        if recorded["grown_buffers"] > counted["grown_buffers"] > 0:
            recorded = recorded | {"grown_buffers": counted["grown_buffers"]}
        yield from differences(f"site {number}", recorded, counted)


def lost(recording):
    """Rows of a scan are the sums of its lost blocks."""
    for scan in recording.scans:
        blocks = {block["number"]: block for block in recording.lost.get(scan["process"], [])}
        stack = lambda block: recording.sites[block["site"]][1]
        sums = {}
        for block in blocks.values():
            head = -1 if block["head"] is None else stack(blocks[block["head"]])
            key = (stack(block), head, block["kind"])
            count, size = sums.get(key, (0, 0))
            sums[key] = (count + 1, size + block["size"])
        rows = {(row["stack"], row["head"], row["kind"]): (row["blocks"], row["bytes"]) for row in scan["rows"]}
        if rows != sums or len(rows) != len(scan["rows"]):
            yield f"process {scan['process']}: its scan says {rows}, its lost blocks {sums}"


def differences(what, recorded, counted):
    for key in recorded:
        if recorded[key] != counted[key]:
            yield f"{what}: {key} is {recorded[key]}, {counted[key]} by events"


def each_byte(data):
    """Whatever is missing or wrong is noticed, and what comes before it is read."""
    blocks, why = read_blocks(data)
    assert why is None, why
    ends = [block.offset for block in blocks[1:]] + [len(data) - 16]
    for length in range(len(data)):
        noticed(data[:length], sum(end <= length for end in ends), f"cut at {length}", length < 16)
    for at in range(len(data)):
        changed = bytearray(data)
        # Version 2 is one bit away from version 3.
        changed[at] ^= 128 if at == 8 else 1 << at % 8
        noticed(bytes(changed), sum(end <= at for end in ends), f"byte {at} changed", at < 16)


def noticed(data, whole, what, refused):
    try:
        blocks, why = read_blocks(data)
    except Refused:
        assert refused, f"{what}: refused"
        return
    assert why is not None and not refused, f"{what}: nobody noticed"
    assert len(blocks) == whole, f"{what}: {len(blocks)} blocks are read, {whole} are whole"


if __name__ == "__main__":
    if sys.argv[1] == "--each-byte":
        each_byte(Path(sys.argv[2]).read_bytes())
    else:
        for file in sys.argv[1:]:
            print(json.dumps(figures(Path(file).read_bytes()), default=list))
