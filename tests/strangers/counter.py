"""The naive counter: builds counter.c, gives a command the environment that loads it, reads what it counted."""

import os
import shutil
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from places import BUILD, HERE, SHORT

WORDS = (
    "allocations",
    "allocated_bytes",
    "frees",
    "foreign_frees",
    "live",
    "live_bytes",
    "peak_bytes",
    "reallocs_in_place",
    "reallocs_moved",
    "threads",
)
SIZE = 8 * len(WORDS)


@dataclass(frozen=True)
class Image:
    """What one process image did."""

    executable: str
    counts: dict


def build():
    """The preloaded library."""
    library = BUILD / "libcounter.so"
    source = HERE / "counter.c"
    newest = max(file.stat().st_mtime for file in (source, HERE.parent / "targets" / "entry_points.h"))
    if not library.exists() or library.stat().st_mtime < newest:
        BUILD.mkdir(parents=True, exist_ok=True)
        flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden"]
        subprocess.run([os.environ.get("CC", "cc"), *flags, "-o", library, source], check=True)
    return library


def build_waiter():
    """The static program that asks the kernel for a command's ru_maxrss."""
    waiter, source = BUILD / "waiter", HERE / "waiter.c"
    if not waiter.exists() or waiter.stat().st_mtime < source.stat().st_mtime:
        BUILD.mkdir(parents=True, exist_ok=True)
        command = [
            os.environ.get("CC", "cc"),
            "-std=gnu11",
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-static",
            "-o",
            waiter,
            source,
        ]
        subprocess.run(command, check=True)
    return waiter


def padded(path, length):
    """The same path in so many bytes, by more slashes; unchanged if it is longer."""
    text = str(path)
    return "/" * max(length - len(text), 0) + text


class Counter:
    """A directory for counts. Its environment has the shape of Mallow's: programs copy their environment."""

    def __init__(self, shape):
        self.directory = Path(tempfile.mkdtemp(prefix="st", dir=SHORT))
        library = Path(shutil.copy(build(), self.directory / "c.so"))
        self.to = self.directory / "n"
        self.to.mkdir(mode=0o777)
        self.to.chmod(0o777)
        self.environment = {
            "LD_PRELOAD": padded(library, shape.get("LD_PRELOAD", 0)),
            "COUNTER_TO": padded(self.to, shape.get("MALLOW_DIR", 0)),
        }

    def read(self):
        """All images, in the order in which their files were made; what was read is removed."""
        files = sorted(self.to.iterdir(), key=lambda file: (file.stat().st_mtime_ns, file.name))
        images = [parse(file.read_bytes()) for file in files if file.stat().st_size >= SIZE]
        for file in files:
            file.unlink()
        return images

    def close(self):
        """Removes the directory."""
        shutil.rmtree(self.directory, ignore_errors=True)


def parse(data):
    """One image from its file."""
    values = struct.unpack(f"{len(WORDS)}Q", data[:SIZE])
    return Image(data[SIZE:].split(b"\0")[0].decode(errors="replace"), dict(zip(WORDS, values, strict=True)))


def total(images, word):
    """The sum over all images."""
    return sum(image.counts[word] for image in images)


@dataclass(frozen=True)
class Range:
    """What several counts of one command show."""

    low: int
    high: int

    @classmethod
    def of(cls, values):
        """Lowest to highest, widened on both sides by their own spread."""
        low, high = min(values), max(values)
        return cls(low - (high - low), high + (high - low))

    def __contains__(self, value):
        return self.low <= value <= self.high

    def __str__(self):
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"
