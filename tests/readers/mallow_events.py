"""The events of a recording, and what they add up to. From docs/FORMAT.md alone, as mallow_format.py."""

from dataclasses import dataclass, field

from mallow_format import COUNT_NAMES, FAMILIES, Column, Damaged, known
from mallow_patterns import Habits

FIRST_REALLOC, FREE, FREE_UNKNOWN, TO_ZERO, TO_ZERO_UNKNOWN, GONE, END, TIME, THREAD, REGION = 9, *range(17, 26)
REALLOCS = range(FIRST_REALLOC, FREE)
FACTOR = 0x9E3779B97F4A7C15


def has_site(op):
    return op < FREE


def has_block(op):
    return (op in REALLOCS and not (op - FIRST_REALLOC) & 4) or op in (FREE, TO_ZERO, GONE)


def spread(number, bits):
    return (number * FACTOR & (1 << 64) - 1) >> 64 - bits


class Guesses:
    """Which event comes next, guessed from the three before it."""

    def __init__(self):
        self.history = 0
        self.long = {}
        self.short = {}

    def places(self):
        latest = self.history & 0xFFFFF
        return spread(self.history >> 20, 14) << 4 | spread(latest, 4), spread(latest, 16)

    def guess(self, which):
        symbol = (self.long, self.short)[which].get(self.places()[which])
        if symbol is None:
            raise Damaged("a guess where nothing was seen")
        return symbol

    def seen(self, site, op, mark):
        for table, place in zip((self.long, self.short), self.places()):
            table[place] = site * 32 + op if site < 1 << 27 else None
        self.history = (self.history << 20 | mark & 0xFFFFF) & (1 << 60) - 1


@dataclass
class Live:
    """A block that was allocated and not yet freed."""

    site: int
    size: int
    thread: int
    ms: int


@dataclass
class Sums:
    """What events say, added up as "How events add up" has it."""

    events: int = 0
    blocks: list = field(default_factory=list)
    """For each block of events: offset, events, earliest and latest ms."""
    allocations: int = 0
    sites: list = field(default_factory=list)
    processes: dict = field(default_factory=dict)
    peak: int = 0
    peak_ms: int = 0
    region_marks: list = field(default_factory=list)


class Decoder:
    """Reads events blocks, one after another. What it keeps between them is what the writer keeps."""

    def __init__(self):
        self.guesses = Guesses()
        self.used = 0
        self.sizes = {}
        self.named = 0
        self.ms = 0
        self.latest = 0  # of all events so far, whose threads have a clock each
        self.thread = None
        self.live = {}
        self.of_process = {}
        self.last_of_thread = {}
        self.live_bytes = 0
        self.held = []
        """For each site: blocks and bytes live now, those at the peak, and which peak these are of."""
        self.peaks = 0
        self.own = {}
        self.habits = Habits()
        self.sums = Sums()

    def __call__(self, recording, block):
        many, codes, sites, sizes, blocks, others = map(Column, block.columns)
        left = many.number()
        times = []
        for byte in codes.text:
            if byte < 2:
                site, op = divmod(self.guesses.guess(byte), 32)
                site = site if has_site(op) else None
            else:
                site, op = None, byte - 2
            if op > REGION:
                raise Damaged(f"no op {op}")
            if op == TIME:
                self.ms = others.difference(self.ms)
                continue
            if op == THREAD:
                self.thread = others.number()
                known(self.thread, recording.threads)
                continue
            left -= 1
            times.append(self.ms)
            self.latest = max(self.latest, self.ms)
            if op == END:
                self.end(recording, others.number())
            elif op == REGION:
                self.sums.region_marks.append(others.number())
            else:
                self.event(recording, op, site, sites, sizes, blocks)
        if left or any(column.more() for column in (sites, sizes, blocks, others)):
            raise Damaged("another number of events than announced")
        self.sums.events += len(times)
        self.sums.blocks.append((block.offset, len(times), min(times), max(times)))

    def event(self, recording, op, site, sites, sizes, blocks):
        size = number = None
        if has_site(op):
            if site is None:
                site = self.used - sites.number()
                self.used += site == self.used
                known(site, recording.sites)
            size = sizes.number()
            size = self.sizes[site] if size == 0 else size - 1
            self.sizes[site] = size
        if has_block(op):
            number = blocks.difference(self.named)
            self.named = number + 1
            if number not in self.live:
                raise Damaged("it names a block that is not live")
        if has_site(op):
            mark = site * 2 + 1
        else:
            mark = 0 if number is None else self.live[number].site * 2
        self.guesses.seen(site or 0, op, mark)
        self.add(recording, op, site, size, number)

    # ---- How events add up

    def add(self, recording, op, site, size, number):
        if self.thread is None:
            raise Damaged("an event of no thread")
        process = self.process(recording.threads[self.thread][0])
        realloc = op in REALLOCS
        process["frees"] += op in (FREE, FREE_UNKNOWN)
        process["frees_by_realloc"] += realloc or op in (TO_ZERO, TO_ZERO_UNKNOWN)
        process["foreign_frees"] += number is None and (realloc or op in (FREE_UNKNOWN, TO_ZERO_UNKNOWN))
        # Its free comes later, where no block is known.
        process["foreign_frees"] -= op == GONE
        old = self.live.get(number)
        if number is not None:
            self.free(recording, op, number)
        if site is not None:
            self.allocate(recording, site, size)
            if realloc and old is not None:
                new = self.habits.of_site[site]
                self.habits.reallocated(number, old.size, new, bool(op - FIRST_REALLOC & 1))
            family = op
            if realloc:
                flags = op - FIRST_REALLOC
                family = FAMILIES.index("reallocarray" if flags & 2 else "realloc")
                way = "reallocs_moved" if flags & 1 else "reallocs_in_place"
                process[way] += 1
                self.sums.sites[site][way] += 1
            calls = process["families"][FAMILIES[family]]
            calls[0] += 1
            calls[1] += size

    def process(self, number):
        names = "frees frees_by_realloc reallocs_in_place reallocs_moved foreign_frees own_peak_bytes own_peak_ms"
        zero = dict.fromkeys(names.split(), 0) | {"families": {name: [0, 0] for name in FAMILIES}}
        return self.sums.processes.setdefault(number, zero)

    def site(self, site):
        while len(self.sums.sites) <= site:
            self.sums.sites.append(dict.fromkeys(COUNT_NAMES, 0))
            self.held.append([0, 0, 0, 0, 0])
        return self.sums.sites[site]

    def hold(self, site, blocks, size):
        """Changes what is live; what it was at the peak is noted before the first change after it."""
        held = self.held[site]
        if held[4] < self.peaks:
            held[2:] = held[0], held[1], self.peaks
        held[0] += blocks
        held[1] += size
        self.live_bytes += size

    def allocate(self, recording, site, size):
        counts = self.site(site)
        counts["allocations"] += 1
        counts["allocated_bytes"] += size
        number = self.sums.allocations
        self.sums.allocations += 1
        self.live[number] = Live(site, size, self.thread, self.ms)
        self.last_of_thread[self.thread] = number
        self.habits.allocated(number, size, site, self.thread)
        process = recording.sites[site][0]
        self.of_process.setdefault(process, set()).add(number)
        self.hold(site, 1, size)
        if self.live_bytes > self.sums.peak:
            self.sums.peak, self.sums.peak_ms = self.live_bytes, self.latest
            self.peaks += 1
        own = self.own[process] = self.own.get(process, 0) + size
        of_process = self.process(process)
        if own > of_process["own_peak_bytes"]:
            of_process["own_peak_bytes"], of_process["own_peak_ms"] = own, self.latest

    def release(self, recording, number):
        block = self.live.pop(number)
        process = recording.sites[block.site][0]
        self.of_process[process].discard(number)
        self.own[process] -= block.size
        self.hold(block.site, -1, -block.size)
        return block, self.sums.sites[block.site]

    def give_up(self, recording, number, block):
        process = recording.processes[recording.sites[block.site][0]]
        self.habits.gone(number, block, self.ms, process.start_ms)

    def free(self, recording, op, number):
        block, counts = self.release(recording, number)
        if op in (FREE, TO_ZERO):
            self.habits.freed(number, block, self.thread)
        if op not in REALLOCS:
            self.give_up(recording, number, block)
        counts["frees"] += 1
        counts["freed_bytes"] += block.size
        if block.thread == self.thread and self.last_of_thread.get(self.thread) == number:
            counts["temporary"] += 1
            counts["temporary_bytes"] += block.size

    def end(self, recording, process):
        known(process, recording.processes)
        for number in sorted(self.of_process.get(process, ())):
            block, counts = self.release(recording, number)
            self.give_up(recording, number, block)
            first = counts["live"] == 0
            counts["live"] += 1
            counts["live_bytes"] += block.size
            counts["oldest_live_ms"] = block.ms if first else min(counts["oldest_live_ms"], block.ms)
            counts["youngest_live_ms"] = max(counts["youngest_live_ms"], block.ms)

    def finish(self, recording):
        """At the end of the file no more blocks are freed. Then sites know what they held at the peak."""
        for process in list(self.of_process):
            self.end(recording, process)
        for held, counts in zip(self.held, self.sums.sites):
            now = held[:2] if held[4] < self.peaks else held[2:4]
            counts["peak"], counts["peak_bytes"] = now
        return self.sums
