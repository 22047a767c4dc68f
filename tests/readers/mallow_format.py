#!/usr/bin/env python3
"""Reads a recording, from docs/FORMAT.md alone.

Nothing here was taken from Mallow's own reader. It is slow and small on purpose: each paragraph of the document is a few
lines. It needs the `zstd` command. `check_format.py` prints what it finds.
"""

import subprocess
import tempfile
import zlib
from dataclasses import dataclass, field

BEGINNING = b"\x89mallow\n"
END = b"\nwollam\x89"
WORD = (1 << 64) - 1

OPENING, TABLES, EVENTS, COUNTS, PROCESSES, LINES, ENDING, INDEX, NAMES, SOURCES = range(1, 11)
REGIONS, PATTERNS, ALLOCATORS, SCAN_SUMS, EXECUTED_NAMES, UNRECORDED, THREAD_NAMES = range(12, 19)
INSIDE, FOOTPRINT, RSS, SIZE_CLASSES = 20, 21, 24, 25
PAGES, KEPT, PLACED_BLOCKS, LOST_BLOCKS, SCANS, ARGUMENTS = 36, 33, 39, 40, 43, 46
KINDS = {*range(1, 26), PAGES, KEPT, PLACED_BLOCKS, LOST_BLOCKS, SCANS, ARGUMENTS} - {11, 19, 22, 23}
ONCE = {OPENING, PROCESSES, REGIONS, ALLOCATORS, EXECUTED_NAMES, UNRECORDED, THREAD_NAMES, INSIDE, SIZE_CLASSES, ENDING, INDEX}


class Refused(Exception):
    """The file is none that this reader can read at all."""


class Damaged(Exception):
    """From here on nothing can be believed."""


@dataclass
class Block:
    """One block whose checksum is right, its columns unpacked."""

    offset: int
    kind: int
    columns: list


# ---- The file and its blocks


def read_blocks(data):
    """All whole blocks, and why there are no more: None where the file was closed."""
    if data[:8] != BEGINNING:
        raise Refused("no recording")
    if len(data) < 16:
        raise Refused("cut within its first 16 bytes")
    version = int.from_bytes(data[8:12], "little")
    if version not in (1, 2, 4):
        raise Refused(f"version {version}")
    if data[12:16] != bytes(4):
        raise Refused("a head that makes no sense")
    packed, at, why = [], 16, "it ends without an index"
    try:
        while at < len(data):
            block, after = packed_block(data, at)
            packed.append(block)
            at = after
            if block.kind == INDEX:
                if data[at:] != block.offset.to_bytes(8, "little") + END:
                    raise Damaged(f"no end after the index at {at}")
                why = None
                break
    except Damaged as damage:
        why = str(damage)
    blocks = []
    for block, columns in zip(packed, unpack([b.columns for b in packed])):
        if columns is None:
            return blocks, f"the block at {block.offset} does not unpack"
        blocks.append(Block(block.offset, block.kind, columns))
    return blocks, why


def packed_block(data, at):
    head = data[at : at + 12]
    if len(head) < 12:
        raise Damaged(f"cut within a block's head at {at}")
    kind, count = head[0], head[1]
    length, checksum = int.from_bytes(head[4:8], "little"), int.from_bytes(head[8:12], "little")
    if count > 32 or head[2:4] != bytes(2) or length > 64 << 20:
        raise Damaged(f"no block at {at}")
    payload = data[at + 12 : at + 12 + length]
    if len(payload) < length:
        raise Damaged(f"cut within the block at {at}")
    if zlib.crc32(payload, zlib.crc32(head[:8])) != checksum:
        raise Damaged(f"wrong checksum at {at}")
    if kind not in KINDS:
        raise Damaged(f"a block of kind {kind} at {at}")
    columns, place = [], 8 * count
    for n in range(count):
        unpacked = int.from_bytes(payload[8 * n : 8 * n + 4], "little")
        packed = int.from_bytes(payload[8 * n + 4 : 8 * n + 8], "little")
        frame = payload[place : place + packed]
        if unpacked > 8 << 20 or len(frame) < packed:
            raise Damaged(f"wrong lengths in the block at {at}")
        columns.append((unpacked, frame))
        place += packed
    if place != length or sum(unpacked for unpacked, _ in columns) > 64 << 20:
        raise Damaged(f"wrong lengths in the block at {at}")
    return Block(at, kind, columns), at + 12 + length


UNPACKED = {}
"""What frames unpack to, so that the same file with other damage is read quickly."""


def unpack(blocks):
    """For each block its columns unpacked, or None: then one of them does not have the length that it claims."""
    new = [column for columns in blocks for column in columns if column not in UNPACKED]
    if new and not remember(new):
        # Which one is it?
        for column in new:
            remember([column])
    for columns in blocks:
        texts = [UNPACKED[c] for c in columns]
        yield None if None in texts else texts


def remember(columns):
    text, at = zstd(columns), 0
    for length, frame in columns:
        UNPACKED[length, frame] = None if text is None else text[at : at + length]
        at += length
    return text is not None


def zstd(columns):
    """What frames that follow each other unpack to; None if it is not what they claim. Reads no more than that."""
    claimed = sum(length for length, _ in columns)
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"".join(frame for _, frame in columns))
        file.flush()
        command = ["zstd", "--decompress", "--stdout", "--quiet", file.name]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            text = process.stdout.read(claimed + 1)
            process.stdout.close()
            process.kill()
    return text if len(text) == claimed else None


# ---- Columns


class Column:
    """Numbers and strings of one column, one after another."""

    def __init__(self, text):
        self.text = text
        self.at = 0

    def number(self):
        value = shift = 0
        while True:
            if self.at >= len(self.text):
                raise Damaged("a column ends early")
            byte = self.text[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            if value > WORD:
                raise Damaged("a number of more than 64 bits")
            if byte < 128:
                return value
            shift += 7

    def difference(self, base):
        n = self.number()
        return base + ((n >> 1) ^ -(n & 1)) & WORD

    def bytes(self):
        length = self.number()
        text = self.text[self.at : self.at + length]
        if len(text) < length:
            raise Damaged("a string ends early")
        self.at += length
        return text

    def string(self):
        return self.bytes().decode(errors="replace")

    def more(self):
        return self.at < len(self.text)


# ---- What they hold


@dataclass
class Process:
    pid: int
    parent: int
    serial: int
    forked: bool
    attached: bool
    start_ms: int
    executable: str
    arguments: list


@dataclass
class Recording:
    """All that a file says, as far as it can be read."""

    blocks: list
    why: str | None
    """Why the file ends early; None if it was closed."""
    started: int = 0
    command: list = field(default_factory=list)
    processes: list = field(default_factory=list)
    threads: list = field(default_factory=list)
    modules: list = field(default_factory=list)
    frames: list = field(default_factory=list)
    stacks: list = field(default_factory=lambda: [None, None])
    sites: list = field(default_factory=list)
    counts: list = field(default_factory=list)
    patterns: list = field(default_factory=list)
    ends: list = field(default_factory=list)
    """What the processes block has, process by process."""
    regions: list = field(default_factory=list)
    allocators: list = field(default_factory=list)
    scans: list = field(default_factory=list)
    lost: dict = field(default_factory=dict)
    """Process → its lost blocks."""
    strings: list = field(default_factory=list)
    lines: dict = field(default_factory=dict)
    """Frame → its lines, the innermost inlined function first."""
    begins: dict = field(default_factory=dict)
    """Frame without lines → where its function begins."""
    folded: dict = field(default_factory=dict)
    """Frame → names of other functions whose code its outermost function is."""
    names: dict = field(default_factory=dict)
    no_module: tuple | None = None
    sources: list = field(default_factory=list)
    ending: dict | None = None
    index: list = field(default_factory=list)
    executed_names: dict = field(default_factory=dict)
    unrecorded: list = field(default_factory=list)
    thread_names: dict = field(default_factory=dict)
    inside: list = field(default_factory=list)
    footprints: list = field(default_factory=list)
    rss: dict = field(default_factory=dict)
    peaks: dict = field(default_factory=dict)
    """Process → points."""
    size_classes: dict = field(default_factory=dict)

    def stack(self, number):
        """Its frames, the innermost first, and whether the outermost ones are missing."""
        frames = []
        while number > 1:
            frame, number = self.stacks[number]
            frames.append(frame)
        return frames, number == 1


def read(data, events=lambda decoder, block: None, maps=False):
    """Reads a whole file. `events` gets each block of events, with what was known up to there. `maps`: with pages and live blocks."""
    # It needs the columns from here.
    import mallow_memory as memory

    blocks, why = read_blocks(data)
    recording = Recording(blocks, why)
    readers = {
        OPENING: opening,
        TABLES: tables,
        EVENTS: events,
        COUNTS: counts,
        PATTERNS: patterns,
        PROCESSES: processes,
        REGIONS: regions,
        ALLOCATORS: allocators,
        EXECUTED_NAMES: executed_names,
        UNRECORDED: unrecorded,
        THREAD_NAMES: thread_names,
        ARGUMENTS: arguments,
        SCAN_SUMS: scan_sums,
        LOST_BLOCKS: lost_blocks,
        SCANS: scans,
        LINES: lines,
        NAMES: names,
        SOURCES: sources,
        ENDING: ending,
        INDEX: index,
        INSIDE: inside,
        FOOTPRINT: memory.footprint,
        PAGES: memory.pages if maps else passed,
        KEPT: memory.kept if maps else passed,
        PLACED_BLOCKS: memory.placed_blocks if maps else passed,
        RSS: memory.rss,
        SIZE_CLASSES: memory.size_classes,
    }
    for number, block in enumerate(blocks):
        try:
            if (number == 0) != (block.kind == OPENING):
                raise Damaged("the opening is not the first block")
            if block.kind in ONCE and any(block.kind == before.kind for before in blocks[:number]):
                raise Damaged("a second block of a kind that comes once")
            readers[block.kind](recording, block)
        # The latter two: it lacks columns, or names what is not there.
        except (Damaged, ValueError, LookupError) as damage:
            recording.why = f"the block at {block.offset}: {damage}"
            del blocks[number:]
            break
    return recording


def passed(recording, block):
    pass


def opening(recording, block):
    (column,) = map(Column, block.columns)
    recording.started = column.number()
    recording.command = [column.string() for _ in range(column.number())]


def tables(recording, block):
    many, process, thread, module, frame, address, caller, innermost, process_of, stack_of = map(Column, block.columns)
    processes, threads, modules, frames, stacks, sites = (many.number() for _ in range(6))
    for _ in range(processes):
        pid, parent, serial, origin, start = (process.number() for _ in range(5))
        executable = process.string()
        arguments = [process.string() for _ in range(process.number())]
        recording.processes.append(Process(pid, parent, serial, bool(origin & 1), bool(origin & 2), start, executable, arguments))
    for _ in range(threads):
        owner, tid = thread.number(), thread.number()
        known(owner, recording.processes)
        recording.threads.append((owner, tid))
    for _ in range(modules):
        recording.modules.append((module.string(), module.bytes().hex()))
    before = recording.frames[-1][1] if recording.frames else 0
    for _ in range(frames):
        mixed = frame.number()
        number = (mixed >> 1) - 1
        if number >= 0:
            known(number, recording.modules)
        before = address.difference(before)
        recording.frames.append((None if number < 0 else number, before, bool(mixed & 1)))
    for _ in range(stacks):
        own = len(recording.stacks)
        below, of_frame = own - caller.number(), len(recording.frames) - innermost.number()
        known(below, recording.stacks)
        known(of_frame, recording.frames)
        recording.stacks.append((of_frame, below))
    before = recording.sites[-1] if recording.sites else (0, 0)
    for _ in range(sites):
        before = process_of.difference(before[0]), stack_of.difference(before[1])
        known(before[0], recording.processes)
        known(before[1], recording.stacks)
        recording.sites.append(before)


def known(number, things):
    if not 0 <= number < len(things):
        raise Damaged("it names something that is not there")


COUNT_NAMES = (
    "allocations allocated_bytes frees freed_bytes temporary temporary_bytes live live_bytes peak peak_bytes "
    "reallocs_in_place reallocs_moved oldest_live_ms youngest_live_ms"
).split()


def counts(recording, block):
    recording.counts.extend(of_sites(block, COUNT_NAMES))


PATTERN_NAMES = (
    "smallest largest alternating growth_steps grown_buffers copied_bytes freed_by_others in_runs runs "
    "kept kept_bytes kept_growth overhead"
).split()


def patterns(recording, block):
    recording.patterns.extend(of_sites(block, PATTERN_NAMES))


def of_sites(block, names):
    many, *columns = map(Column, block.columns)
    rows = many.number()
    if len(columns) != len(names):
        raise Damaged("another number of columns")
    return [{name: column.number() for name, column in zip(names, columns)} for _ in range(rows)]


FAMILIES = "malloc calloc realloc reallocarray aligned_alloc memalign posix_memalign valloc pvalloc".split()


def processes(recording, block):
    (column,) = map(Column, block.columns)
    for _ in recording.processes:
        end = {name: column.number() for name in ("end_ms", "threads", "own_peak_bytes", "own_peak_ms")}
        end["families"] = {name: [column.number(), column.number()] for name in FAMILIES}
        names = "frees frees_by_realloc reallocs_in_place reallocs_moved foreign_frees lost exit_wait_ms table_wait_ms late_tables".split()
        recording.ends.append(end | {name: column.number() for name in names})


def regions(recording, block):
    (column,) = map(Column, block.columns)
    while column.more():
        number, which, operations, name = column.number(), column.number(), column.number(), column.string()
        run = {"number": number, "first": bool(which & 1), "run": which >> 1, "operations": operations, "name": name}
        recording.regions.append(run)


def allocators(recording, block):
    column, kinds = map(Column, (block.columns + [b""])[:2])
    while column.more():
        allocator = {"process": column.number(), "found": column.string(), "remedy": column.string()}
        if kinds.more() and kinds.number() not in (0, 1):
            raise Damaged("an allocator of no known kind")
        if allocator["process"] >= len(recording.processes):
            raise Damaged("an allocator of no process")
        recording.allocators.append(allocator)


def executed_names(recording, block):
    (column,) = map(Column, block.columns)
    while column.more():
        process, path = column.number(), column.string()
        if process >= len(recording.processes):
            raise Damaged("a name of no process")
        recording.executed_names[process] = path


def unrecorded(recording, block):
    (column,) = map(Column, block.columns)
    while column.more():
        recording.unrecorded.append(column.string())


def arguments(recording, block):
    of_command, of_processes = map(Column, block.columns)
    if of_command.more():
        recording.command = [of_command.string() for _ in range(of_command.number())]
    while of_processes.more():
        number = of_processes.number()
        known(number, recording.processes)
        recording.processes[number].arguments = [of_processes.string() for _ in range(of_processes.number())]
    if of_command.more():
        raise Damaged("more than the command")


def thread_names(recording, block):
    (column,) = map(Column, block.columns)
    while column.more():
        thread, name = column.number(), column.string()
        if thread >= len(recording.threads):
            raise Damaged("a name of no thread")
        recording.thread_names[thread] = name


def inside(recording, block):
    column, *more = map(Column, block.columns)
    settings, options = more[:1], more[1:]
    while column.more():
        keys = "program module name found_by problem remedy".split()
        allocator = {key: column.string() for key in keys}
        allocator["functions"] = column.number()
        for read in settings:
            allocator |= {"environment": read.string(), "is_library": read.number() == 1}
        for read in options:
            allocator["options"] = read.string()
        recording.inside.append(allocator)


def scans(recording, block):
    kinds = Column((block.columns + [b""])[1])

    def row(column):
        lost = {"stack": column.number(), "head": column.number() - 1, "blocks": column.number(), "bytes": column.number()}
        lost["kind"] = kind(kinds)
        for stack in [lost["stack"]] + [lost["head"]] * (lost["head"] >= 0):
            known(stack, recording.stacks)
        return lost

    scans_with(recording, block, row, (0, 1, 2))


def kind(column):
    """Of a lost block. Earlier recordings have none."""
    number = column.number() if column.more() else 0
    if number not in (0, 1):
        raise Damaged(f"a lost block of the kind {number}")
    return number


def scan_sums(recording, block):
    keys = ("heads", "head_bytes", "held", "held_bytes", "lost", "lost_bytes")
    scans_with(recording, block, lambda column: {"stack": column.number()} | {key: column.number() for key in keys}, (0, 1))


def scans_with(recording, block, row, outcomes):
    column = Column(block.columns[0])
    while column.more():
        process, outcome = column.number(), column.number()
        known(process, recording.processes)
        if outcome not in outcomes:
            raise Damaged(f"a scan with the outcome {outcome}")
        why = column.string() if outcome == 1 else None
        scan = {"process": process, "why": why, "exec": outcome == 2, "rows": [], "cycles": []}
        scan["rows"] = [row(column) for _ in range(column.number())]
        for _ in range(column.number()):
            cycle = {key: column.number() for key in ("count", "blocks", "bytes")}
            scan["cycles"].append(cycle | {"stacks": [column.number() for _ in range(column.number())]})
        if recording.scans and recording.scans[-1]["process"] == scan["process"]:
            recording.scans[-1]["rows"] += scan["rows"]
        else:
            recording.scans.append(scan)


def lost_blocks(recording, block):
    process, numbers, places, sizes, heads, kinds = map(Column, (block.columns + [b""])[:6])
    rows, number = recording.lost.setdefault(process.number(), []), 0
    while numbers.more():
        number += numbers.number()
        place, folded = places.number(), heads.number() - 1
        head = None if folded < 0 else number + ((folded >> 1) ^ -(folded & 1)) & WORD
        known(place, recording.sites)
        if rows and rows[-1]["number"] >= number:
            raise Damaged("lost blocks are not in their order")
        rows.append({"number": number, "site": place, "size": sizes.number(), "head": head, "kind": kind(kinds)})


def lines(recording, block):
    many, strings, column = map(Column, block.columns)
    while strings.more():
        recording.strings.append(strings.string())
    frame = max(recording.lines, default=0)
    for _ in range(many.number()):
        frame += column.number()
        known(frame, recording.frames)
        recording.lines[frame] = []
        count = column.number()
        if count == 0:
            recording.begins[frame] = recording.frames[frame][1] - column.number()
        for _ in range(count):
            function, file, line = (column.number() for _ in range(3))
            file = recording.strings[file - 1] if file else None
            recording.lines[frame].append((recording.strings[function], file, line))
        folded = column.number() if count else 0
        if folded:
            recording.folded[frame] = recording.strings[folded - 1].split("\n")


FOUND = "debug_info symbol_table dynamic_symbols no_symbols unreadable other_build no_elf written_later".split()


def names(recording, block):
    (column,) = map(Column, block.columns)
    recording.no_module = column.number(), column.number()
    while column.more():
        module = column.number()
        known(module, recording.modules)
        found = FOUND[column.number()], column.bytes()
        separate = column.string()
        notes = [(column.number(), column.string()) for _ in range(column.number())]
        frames, with_function, with_file = (column.number() for _ in range(3))
        recording.names[module] = {
            "found": found,
            "separate": separate,
            "notes": notes,
            "frames": (frames, with_function, with_file),
            "remedy": column.string(),
        }


def sources(recording, block):
    many, about, column = map(Column, block.columns)
    for _ in range(many.number()):
        goes_on = about.number()
        if not goes_on:
            recording.sources.append([about.string(), about.string(), about.number(), b""])
        recording.sources[-1][3] += column.bytes()


def ending(recording, block):
    (column,) = map(Column, block.columns)
    end = {"duration_ms": column.number()}
    status = column.number()
    end["exit_status"] = None if status == 0 else signed(status - 1)
    end["cut_short"], end["why"] = bool(column.number()), column.string()
    end |= {name: column.number() for name in ("lost", "damaged", "peak_ms", "sites")}
    # Versions 1 and 2 do not have it.
    cpu = column.number() if column.at < len(column.text) else 0
    run = (column.number(), column.number()) if column.at < len(column.text) else None
    recording.ending = end | {"cpu_us": None if cpu == 0 else cpu - 1, "run_ms": run}


def signed(number):
    return (number >> 1) ^ -(number & 1)


def index(recording, block):
    many, offset, events, earliest, span = map(Column, block.columns)
    at = 0
    for _ in range(many.number()):
        at += offset.number()
        first = earliest.number()
        recording.index.append((at, events.number(), first, first + span.number()))
