"""Links of the documents: each leads to a file and a heading that exist. The guide: its contents name each chapter. The pages of
rooms: each file in the table of a room exists in the room's folder."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = ["*.md", "docs/**/*.md"]
CONTENTS, CHAPTERS = "docs/GUIDE.md", "docs/guide/*.md"
ROOMS = "docs/design/*.md"
LONGEST_CHAPTER = 200
"""Lines outside of code blocks and within them."""


def faults():
    yield from link_faults()
    yield from chapter_faults()
    yield from file_faults()


def link_faults():
    """Relative links to files that do not exist, and to headings that their file does not have."""
    for pattern in DOCUMENTS:
        for path in sorted(ROOT.glob(pattern)):
            for number, link in links(path):
                file, _, anchor = link.partition("#")
                target = (path.parent / file).resolve() if file else path
                where = f"{path.relative_to(ROOT)}:{number}: {link}"
                if not target.exists():
                    yield f"{where}: no such file"
                elif anchor and anchor not in anchors(target):
                    yield f"{where}: no such heading"


def chapter_faults():
    """Chapters of the guide that its contents do not name, and chapters that are too long."""
    contents = ROOT / CONTENTS
    named = {(contents.parent / link.partition("#")[0]).resolve() for _, link in links(contents)}
    for path in sorted(ROOT.glob(CHAPTERS)):
        if path not in named:
            yield f"{path.relative_to(ROOT)} is not linked from {CONTENTS}"
        if (lines := len(prose(path))) > LONGEST_CHAPTER:
            yield f"{path.relative_to(ROOT)} has {lines} lines, more than {LONGEST_CHAPTER}: split it by subjects"


def file_faults():
    """Files in the first column of a page's table of files that are in none of the folders that the text above it names."""
    for path in sorted(ROOT.glob(ROOMS)):
        text, *table = re.split(r"\n\| (?:files?|folder|room) \|", path.read_text(encoding="utf-8"), maxsplit=1)
        named = [ROOT / folder for folder in re.findall(r"`([\w./-]+/)`", text)]
        folders = [ROOT, *named, *(folder / "src" for folder in named), *(folder.parent for folder in named)]
        for row in table[0].partition("\n\n")[0].splitlines()[2:] if table else ():
            for name in re.findall(r"`([^`]+)`", row.split("|")[1]):
                if not any((folder / name).exists() for folder in folders):
                    yield f"{path.relative_to(ROOT)}: {name} is in none of the folders that the page names"


def links(path):
    """(line number, target) of each relative link of a document."""
    for number, line in enumerate(prose(path), 1):
        line = re.sub(r"`[^`]*`", "", line)
        for link in re.findall(r"\]\(<?([^)>\s]+)", line) + re.findall(r"^\s*\[[^\]]+\]:\s*<?([^>\s]+)", line):
            if not re.match(r"[a-z][a-z0-9+.-]*:|//", link):
                yield number, link


def anchors(path):
    """The anchors of a document's headings, as GitHub makes them."""
    found = []
    for line in prose(path):
        if heading := re.match(r"#{1,6}\s+(.*?)\s*#*$", line):
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1)).lower()
            slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            repeats = sum(1 for known in found if re.fullmatch(re.escape(slug) + r"(-\d+)?", known))
            found.append(f"{slug}-{repeats}" if repeats else slug)
    return found


def prose(path):
    """The lines of a document, with code blocks blank; lines keep their numbers."""
    lines, fence = [], None
    for line in path.read_text(encoding="utf-8").splitlines():
        mark = re.match(r"\s*(```+|~~~+)", line)
        lines.append("" if fence or mark else line)
        if mark and not fence:
            fence = mark.group(1)
        elif mark and line.strip() == fence:
            fence = None
    return lines
