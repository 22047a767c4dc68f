"""What sites do with their blocks: the patterns block of docs/FORMAT.md, counted from the events."""

from dataclasses import dataclass

from mallow_format import PATTERN_NAMES

LARGE = 64 << 10
NOT_COPIED = 32 << 20


@dataclass
class Allocation:
    """The last one of a site or a thread."""

    number: int = -1
    size: int = 0
    site: int = -1
    thread: int = -1
    of_thread: int = 0
    """The how many-th of its thread it is."""


class Habits:
    """Takes all events in their order."""

    def __init__(self):
        self.sites = []
        self.of_site = {}
        self.of_thread = {}
        self.frees = {}
        """By thread: calls of free since its last allocation, and a number for the run that they are."""
        self.runs = 0
        self.last_run = {}
        """By site: the run in which its latest such free was."""
        self.steps = set()
        self.growth = {}
        """By how much large blocks had grown last, where that is a quarter of them or more."""

    def site(self, site):
        while len(self.sites) <= site:
            self.sites.append(dict.fromkeys(PATTERN_NAMES, 0) | {"smallest": None})
        return self.sites[site]

    def allocated(self, number, size, site, thread):
        before = self.of_thread.get(thread, Allocation())
        last = Allocation(number, size, site, thread, before.of_thread + 1)
        self.of_thread[thread] = self.of_site[site] = last
        self.frees.pop(thread, None)
        row = self.site(site)
        row["smallest"] = size if row["smallest"] is None else min(row["smallest"], size)
        row["largest"] = max(row["largest"], size)
        row["overhead"] += max(32, (size + 8 + 15) // 16 * 16) - size

    def reallocated(self, old_number, old_size, new, moved):
        if old_size < new.size:
            self.grown(old_number, old_size, new, old_size if moved and old_size < NOT_COPIED else 0)

    def freed(self, number, block, thread):
        """A call of free. Threads whose numbers have the same low byte are taken for one."""
        row = self.site(block.site)
        own = self.of_thread.get(thread, Allocation())
        if block.thread % 256 == thread % 256:
            row["alternating"] += number in (own.number, self.of_site[block.site].number)
        else:
            row["freed_by_others"] += 1
        count, run = self.frees.get(thread, (0, None))
        count += 1
        if count == 1:
            self.first_free(number, block, thread, own)
        elif count >= 16:
            if count == 16:
                self.runs += 1
                run = self.runs
            row["in_runs"] += 1
            row["runs"] += self.last_run.get(block.site) != run
            self.last_run[block.site] = run
        self.frees[thread] = count, run

    def first_free(self, number, block, thread, own):
        last = self.of_site[block.site]
        near = last.thread == thread and own.of_thread - last.of_thread <= 1
        if near and last.size > block.size and last.number not in self.steps:
            self.grown(number, block.size, last, block.size)
        elif block.size >= 31 and own.size in (2 * block.size, 2 * block.size - 1) and own.number not in self.steps:
            self.grown(number, block.size, own, block.size)

    def grown(self, old_number, old_size, new, copied):
        row = self.site(new.site)
        row["growth_steps"] += 1
        row["grown_buffers"] += old_number not in self.steps
        row["copied_bytes"] += copied
        self.steps.add(new.number)
        growth = new.size - old_size
        if new.size >= LARGE and new.size // 4 <= growth <= new.size - new.size // 8:
            self.growth[new.number] = growth
        self.growth.pop(old_number, None)

    def gone(self, number, block, ms, start_ms):
        """However, but by realloc."""
        growth = self.growth.pop(number, None)
        if growth is not None and 0 < ms - block.ms and 2 * (ms - block.ms) >= ms - start_ms:
            row = self.site(block.site)
            row["kept"] += 1
            row["kept_bytes"] += block.size
            row["kept_growth"] += growth
