"""The variants: ways to run a workload, Mallow's and its peers'."""

import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from workloads import BUILD, ROOT, Missing, need


@dataclass
class Variant:
    """One way to run a workload. The base class runs it bare."""

    name: str
    title: str

    over = "bare"
    """The variant that its times are taken over."""

    def check(self):
        """Raise Missing when this machine cannot run it."""

    def environment(self):
        return {}

    def command(self, target, out):
        """The command that runs `target` and, where the variant records, writes files whose names begin with `out`."""
        return target

    def recording(self, out):
        """The file that `command` wrote, or None for a variant that writes none."""
        return None

    def report(self, target, out):
        """The commands, one after the other, that bring the report to the screen; empty where there is none."""
        return []

    def report_recording(self, out):
        """The file that the first command of `report` wrote."""
        return self.recording(out)


@dataclass
class Preloaded(Variant):
    """A small library of our own in front of the C library."""

    library: Path

    def environment(self):
        return {"LD_PRELOAD": str(self.library)}


@dataclass
class Mallow(Variant):
    """`mallow stat` or `mallow record`."""

    mode: str
    binary: str = os.environ.get("MALLOW_BIN", ROOT / "target" / "release" / "mallow")

    def program(self):
        return Path(self.binary).absolute()

    def check(self):
        # Not a peer that one may leave out: without it there is nothing to compare.
        if not self.program().exists():
            raise SystemExit(f"bench: {self.program()} is missing: make build")

    def command(self, target, out):
        quiet = ["--no-report"] if self.mode == "record" else []
        return [str(self.program()), self.mode, *quiet, "-o", str(self.recording(out)), "--", *target]

    def recording(self, out):
        return out.with_suffix(".mallow" if self.mode == "record" else ".txt")

    def report(self, target, out):
        if self.mode != "record":
            return []
        return [[str(self.program()), self.mode, "-o", str(self.recording(out)), "--", *target]]


class RecordedWithoutRss(Mallow):
    """`mallow record --no-rss`: what reading the kernel's account of memory costs is the difference to `record`."""

    def command(self, target, out):
        return [str(self.program()), "record", "--no-rss", "--no-report", "-o", str(self.recording(out)), "--", *target]

    def recording(self, out):
        return out.with_suffix(".mallow")

    def report(self, target, out):
        return []


class Sampled(Mallow):
    """`mallow run --sample`: the command in sampling mode, without a mallow beside it."""

    def command(self, target, out):
        return [str(self.program()), "run", "--sample", "--period", f"{PERIOD}B", "--", *target]

    def recording(self, out):
        return None

    def report(self, target, out):
        return []


class Dormant(Sampled):
    """`mallow run`: nobody watches, and nobody listens to the probes."""

    def command(self, target, out):
        return [str(self.program()), "run", "--", *target]


class Watched(Sampled):
    """`mallow watch`: the same, and a mallow that reads the samples beside it."""

    def command(self, target, out):
        return [str(self.program()), "watch", "--every", "1h", "--period", f"{PERIOD}B", "-o", f"{out}.txt", "--", *target]


PERIOD = 512 << 10


@dataclass
class Jemalloc(Variant):
    """Another allocator, which samples by itself where `settings` say so."""

    settings: str

    def library(self):
        found = sorted(Path("/").glob("usr/lib*/**/libjemalloc.so.2"))
        return found[0] if found else None

    def check(self):
        if self.library() is None:
            raise Missing("libjemalloc.so.2 is missing: apt-get install libjemalloc2")
        run = subprocess.run(["true"], env={**os.environ, **self.environment()}, capture_output=True, text=True)
        if run.stderr:
            raise Missing(f"libjemalloc.so.2 was built without its profiler: {run.stderr.strip()}")

    def environment(self):
        return {"LD_PRELOAD": str(self.library()), "MALLOC_CONF": self.settings}


class JemallocProfiler(Jemalloc):
    """Its profiler, over the allocator without."""

    over = "jemalloc"


@dataclass
class Heaptrack(Variant):
    """heaptrack: its recorder alone (--raw) for times; for the report its reader beside it, then heaptrack_print."""

    def check(self):
        need("heaptrack", "apt-get install heaptrack")
        need("heaptrack_print", "apt-get install heaptrack")

    def version(self):
        # It says so on the error stream.
        run = subprocess.run(["heaptrack", "--version"], capture_output=True, text=True)
        return (run.stdout + run.stderr).strip()

    def command(self, target, out):
        return ["heaptrack", "--raw", "-o", str(out), *target]

    def recording(self, out):
        return existing(out, [".raw.zst", ".raw.gz"])

    def report(self, target, out):
        # From 1.5 on it would open its window where that is installed.
        usage = subprocess.run(["heaptrack", "--help"], capture_output=True, text=True).stdout
        quiet = ["--record-only"] if "--record-only" in usage else []
        return [
            ["heaptrack", *quiet, "-o", str(out), *target],
            ["sh", "-c", 'exec heaptrack_print "$0".[gz]*', str(out)],
        ]

    def report_recording(self, out):
        return existing(out, [".zst", ".gz"])


def existing(out, suffixes):
    for suffix in suffixes:
        path = out.with_name(out.name + suffix)
        if path.exists():
            return path
    return None


ALL = [
    Variant("bare", "bare"),
    Preloaded("empty", "an empty hook with an initialisation check", BUILD / "libempty_hook.so"),
    Preloaded("atomic", "counting with shared atomics", BUILD / "libatomic_count.so"),
    Mallow("stat", "**mallow stat**", "stat"),
    Dormant("dormant", "**mallow run**, dormant", "run"),
    Sampled("sample", "**mallow run --sample**, 512 KiB", "run"),
    Watched("watch", "**mallow watch**, 512 KiB", "watch"),
    Jemalloc("jemalloc", "jemalloc", "prof:false"),
    JemallocProfiler("jemalloc-profiler", "jemalloc's profiler, 512 KiB (over jemalloc)",
                     f"prof:true,lg_prof_sample:{PERIOD.bit_length() - 1}"),
    Heaptrack("heaptrack", "heaptrack"),
    Mallow("record", "**mallow record**", "record"),
    RecordedWithoutRss("record-no-rss", "**mallow record --no-rss**", "record"),
    # What is not Mallow's: runs that are the same differ by so much.
    Variant("again", "bare, once more"),
]


def beside_another(variants, binary):
    """Each of Mallow's variants followed by the same of `binary`, another mallow."""
    both = []
    for variant in variants:
        both.append(variant)
        if isinstance(variant, Mallow):
            both.append(replace(variant, name=f"{variant.name}-before", title=f"{variant.title}, before", binary=binary))
    return both


if "BENCH_BEFORE" in os.environ:
    ALL = beside_another(ALL, os.environ["BENCH_BEFORE"])
