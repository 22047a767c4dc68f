"""What valgrind's memcheck says of a command: lost bytes and blocks, errors. Not everything runs under it."""

import re
import shutil
import xml.etree.ElementTree
from dataclasses import dataclass, field

from places import BUILD
from run import run

LIMIT_S = 240
LOST = ("Leak_DefinitelyLost", "Leak_IndirectlyLost")
ACCESS_ERRORS = {"InvalidRead", "InvalidWrite", "InvalidFree", "InvalidJump", "InvalidMemPool"}
"""Not MismatchedFree: the guide says that guard does not find it."""


@dataclass
class Memcheck:
    """Sums over all processes."""

    processes: int = 0
    lost: int = 0
    lost_bytes: int = 0
    possibly: int = 0
    possibly_bytes: int = 0
    errors: list = field(default_factory=list)


def check(row):
    """A Memcheck, or a sentence that says why there is none."""
    if "no-memcheck" in row.flags:
        return "memcheck cannot run it (commands.tsv)"
    if not shutil.which("valgrind"):
        return "valgrind is missing"
    place = BUILD / "memcheck"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    # What the C and C++ libraries hold until the end is not freed at the end of a run without valgrind either.
    options = [
        "--leak-check=full",
        "--show-leak-kinds=definite,indirect,possible",
        "--run-libc-freeres=no",
        "--run-cxx-freeres=no",
    ]
    done = run(
        ["valgrind", *options, "--trace-children=yes", "--xml=yes", f"--xml-file={place}/%p.xml", *row.arguments],
        row.stdin,
        limit_s=LIMIT_S,
    )
    if done.timed_out:
        return f"memcheck did not end in {LIMIT_S} s"
    files = list(place.iterdir())
    if not files:
        return "memcheck wrote nothing"
    try:
        return add_up([file.read_bytes() for file in files])
    except xml.etree.ElementTree.ParseError as error:
        return f"memcheck ended before it was done: {error}"


def direct(what):
    """The bytes of a record's own blocks: what they lead to has records of its own. 0: the record says nothing of it."""
    found = re.search(r"\(([\d,]+) direct, [\d,]+ indirect\)", what.findtext("text", "") if what is not None else "")
    return int(found[1].replace(",", "")) if found else 0


def is_of_loader(error):
    """Whether a string function of the dynamic linker's read: these read whole words, beyond the end of a string, and memcheck replaces
    those of the C library alone."""
    frame = error.find("stack/frame")
    if error.findtext("kind") != "InvalidRead" or frame is None:
        return False
    file = frame.findtext("obj", "").rsplit("/", 1)[-1]
    return file.startswith("ld-") and re.match(r"(str|mem)", frame.findtext("fn", "")) is not None


def add_up(documents):
    """The sums of the XML documents of all processes."""
    sums = Memcheck(processes=len(documents))
    for document in documents:
        root = xml.etree.ElementTree.fromstring(document)
        for error in root.iter("error"):
            kind = error.findtext("kind")
            what = error.find("xwhat")
            blocks = int(what.findtext("leakedblocks", "0")) if what is not None else 0
            size = int(what.findtext("leakedbytes", "0")) if what is not None else 0
            if kind in LOST:
                sums.lost += blocks
                sums.lost_bytes += direct(what) or size
            elif kind == "Leak_PossiblyLost":
                sums.possibly += blocks
                sums.possibly_bytes += size
            elif kind in ACCESS_ERRORS and not is_of_loader(error):
                sums.errors.append(kind)
    return sums
