"""Doc comments state a contract, or are not there: those that only say the name again are found here, and lines that are too wide."""

import re

ECHOES = re.compile(
    r"///\s*(?:(?:Its|Their|The) (?:name|number|address|stack|path|process|file|function|program|thread|block|module|text)s?"
    r"|Which|Whose|Where|Why|What|How|How many|How much|By whom|See the module|All of (?:it|them)"
    r"|What (?:it is|it has|is wrong|is said|happened|to do|to show|is shown|is compared)|Where it (?:is|begins)"
    r"|(?:Reads|Shows|Writes|Starts|Sets) (?:it|them))\.$"
)
"""Grows with each reading of the tree."""


COLUMNS = 120
"""Of a comment; rows of tables, and pictures, may be wider."""


def faults(root):
    """All that is wrong with comments."""
    yield from echoes(root)
    yield from wide_lines(root)


def wide_lines(root):
    """Comments that an editor of 120 columns cuts."""
    for pattern in ("crates/*/src/**/*.rs", "preload/**/*.[ch]"):
        for path in sorted(root.glob(pattern)):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                comment = re.match(r"\s*(//|/?\*)", line) or path.suffix != ".rs"
                if comment and len(line) > COLUMNS and not re.search("[|│]", line):
                    yield f"{path.relative_to(root)}:{number}: {len(line)} columns, more than {COLUMNS}"


def echoes(root):
    """Those that stand alone. Comments of flags are what `--help` prints."""
    for path in sorted(root.glob("crates/*/src/**/*.rs")):
        text = path.read_text(encoding="utf-8")
        if "flags" in path.parts or "clap" in text:
            continue
        lines = [line.strip() for line in text.splitlines()]
        for number, line in enumerate(lines, 1):
            beside = (*lines[max(number - 2, 0) : number - 1], *lines[number : number + 1])
            if ECHOES.match(line) and not any(other.startswith("///") for other in beside):
                yield f"{path.relative_to(root)}:{number}: {line!r} says nothing that the name does not say"
