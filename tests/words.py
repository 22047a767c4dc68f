"""Words of a private language. The field has a noun for what they name, and that is the one to use."""

import re
import subprocess

EVERYWHERE = {
    "reported, printed, known": "told untold",
    "as well as": "besides",
}
"""What to say, and the words that no file may contain."""

IN_SOURCES = {
    "draw, sample; phase": "lot lots",
    "underlying": "beneath",
    "ledger, table, state (say of what)": "book books",
    "deferred, queued": "asides",
    "criterion, verdict, decide": "judge judges judging judgement judgements",
    "variance, over-dispersion": "swing swings swinging",
    "last report, last profile": "farewell farewells",
    "access, operation": "deed deeds",
    "clients": "audience audiences",
    "ledger, entry": "posting postings",
    "before, first": "beforehand",
}
"""The same of identifiers and comments; strings are data. It grows with each review."""

PLAIN = re.compile(r"\btold[ _]apart|_told_apart|\ba lot\b")
"""Plain English."""

ALLOWED = {
    ("CHANGELOG.md", "told"): "the former name of a key",
    ("crates/mallow/src/gate/config_file.rs", "judge"): "the key of mallow.toml",
}

SUFFIXES = ("rs", "c", "h", "cpp", "py", "md", "toml")
PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
"""A word, or a part of a name."""
TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r'|\bb?r(?P<hashes>#*)".*?"(?P=hashes)|"(?:\\.|[^"\\])*"'
    r"|'(?:\\.[^'\n]*|[^'\\\n])'",
    re.DOTALL,
)

SAMPLE = """fn deed_of(judgeship: NewJudge) { MALLOW_BOOKS; bookworm; print("a deed: {}") } // a lot of books"""
"""Words as parts of names; and names and strings that only contain one."""


def faults(root):
    """Each word of the lists, with what to say instead; and exceptions that nothing needs."""
    if [word for _, word, _ in found(without_strings(SAMPLE), IN_SOURCES)] != ["deed", "judge", "books", "books"]:
        yield "the search for words misses one that is there: correct tests/words.py"
    needed = set()
    for name in tracked(root, *(f"*.{suffix}" for suffix in SUFFIXES)):
        if name == "tests/words.py":
            continue
        text = (root / name).read_text(encoding="utf-8")
        words = [*found(text, EVERYWHERE)]
        if name.startswith(("crates/", "preload/")) and name.endswith((".rs", ".c", ".h")):
            words += found(without_strings(text), IN_SOURCES)
        for number, word, say in words:
            if (name, word) in ALLOWED:
                needed.add((name, word))
            else:
                yield f"{name}:{number}: {word!r}: say {say}"
    for name, word in sorted(set(ALLOWED) - needed):
        yield f"{name} has no {word!r}: take it off the exceptions of tests/words.py"


def found(text, lists):
    """Line, word and what to say, of words and of parts of names."""
    say = {word: instead for instead, words in lists.items() for word in words.split()}
    text = PLAIN.sub("", text)
    for match in PART.finditer(text):
        word = match.group(0).lower()
        if word in say:
            yield text.count("\n", 0, match.start()) + 1, word, say[word]


def without_strings(text):
    """Comments stay, and so do the numbers of lines."""
    return TOKEN.sub(lambda token: token.group(0) if token["comment"] else "\n" * token.group(0).count("\n"), text)


def tracked(root, *patterns):
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=root, check=True, capture_output=True, text=True)
    return listed.stdout.split()
