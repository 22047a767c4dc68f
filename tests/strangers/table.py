"""The table of commands: commands.tsv, a row for each, read and checked."""

import shlex
from dataclasses import dataclass

from places import HERE, INPUTS, TOOLS

LANGUAGES = {"c", "c++", "rust", "python", "go", "java", "node", "mixed"}
FLAGS = {
    # What the command prints or writes differs from run to run: status and names of files are compared alone.
    "volatile": "its output differs between two bare runs",
    # An allocator inside of the program: what Mallow patches, a preloaded counter does not see.
    "inside": "it has an allocator inside, which no preloaded counter sees",
    # No library can be preloaded: Mallow has to say so, and nothing else is asked.
    "static": "it is statically linked",
    # memcheck cannot run it (a JIT, a garbage collector that reads registers), or not in minutes.
    "no-memcheck": "memcheck cannot run it",
    # It writes down how long it took: strings that are longer by a digit or two where it is slower.
    "timed": "it keeps times that it took as text, or orders by random hashes: a few bytes more or less",
    # Its tables of hashed addresses grow in one run and not in another (gcc: allocated bytes differ by 36 or 64 kB in one of ten).
    "hashes": "it hashes addresses, which differ from run to run",
    # Its end does not wait for its threads: how far they come depends on how fast they are (memcheck's frees differ, too).
    "racing": "it ends while its threads still run",
    # An exit status other than 0 that is right: a comparison that finds a difference, for instance.
    "fails": "its exit status is not 0, as it should be",
}


@dataclass(frozen=True)
class Row:
    """One command. {in} in its text is the directory of inputs, {tools} that of what was installed."""

    name: str
    language: str
    source: str
    flags: frozenset
    command: str

    @property
    def arguments(self):
        """The command's words, without the redirection of its input."""
        words = self._words()
        return words[: words.index("<")] if "<" in words else words

    @property
    def stdin(self):
        """The file that the command reads from, or None."""
        words = self._words()
        return words[words.index("<") + 1] if "<" in words else None

    def _words(self):
        filled = [
            word.replace("{in}", str(INPUTS)).replace("{tools}", str(TOOLS)) for word in shlex.split(self.command)
        ]
        return filled


class Wrong(Exception):
    """The table has a row that makes no sense."""


def parse(text):
    """All rows, in their order. A line that begins with # is a comment."""
    rows, names = [], set()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split("\t") if cell.strip()]
        if len(cells) != 5:
            raise Wrong(f"line {number}: {len(cells)} columns, not 5")
        name, language, source, flags, command = cells
        flags = frozenset() if flags == "-" else frozenset(flags.split(","))
        if language not in LANGUAGES or flags - FLAGS.keys() or name in names:
            raise Wrong(
                f"line {number}: language {language}, flags {sorted(flags - FLAGS.keys())}, or the name {name} twice"
            )
        if source.split(":")[0] not in {"apt", "pip", "npm", "cargo", "base", "build"}:
            raise Wrong(f"line {number}: source {source}")
        names.add(name)
        rows.append(Row(name, language, source, flags, command))
    return rows


def read():
    """The table that is beside this file."""
    return parse((HERE / "commands.tsv").read_text())
