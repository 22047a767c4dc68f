"""The version in every file that names it: the newest release of CHANGELOG.md, the workspace, the lock files, images and
paths in examples and documents. Releases of CHANGELOG.md: newest first, each with a date."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = r"(\d+\.\d+\.\d+)"
# (files, where they name the version).
NAMES = [
    ("Cargo.toml", rf'(?m)^\[workspace\.package\]\nversion = "{VERSION}"'),
    ("Cargo.lock", rf'name = "mallow(?:-\w+)?"\nversion = "{VERSION}"'),
    ("examples/*/Cargo.lock", rf'name = "mallow-\w+"\nversion = "{VERSION}"'),
    ("examples/deploy*/**/*", rf"registry\.example/mallow:{VERSION}"),
    ("examples/ci/**/*.yml", rf"version:\n(?: +description: .*\n)? +default: {VERSION}"),
    ("docs/guide/ci-services.md", rf"(?:github@|rev: )v{VERSION}"),
    ("docs/**/*.md", rf"libmallow-{VERSION}-"),
]


def faults(root=ROOT):
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"(?m)^## (.*)$", changelog)
    if headings[:1] != ["[Unreleased]"]:
        yield "CHANGELOG.md does not begin with [Unreleased]"
    releases = []
    for heading in headings[1:]:
        if found := re.fullmatch(rf"\[{VERSION}\] - (\d{{4}}-\d\d-\d\d)", heading):
            number = tuple(int(part) for part in found.group(1).split("."))
            releases.append((number, found.group(2), found.group(1)))
        else:
            yield f"CHANGELOG.md: {heading} is not [VERSION] - DATE"
    for newer, older in zip(releases, releases[1:]):
        if newer[0] <= older[0] or newer[1] < older[1]:
            yield f"CHANGELOG.md: {older[2]} comes after {newer[2]}, and is not older"
    if not releases:
        yield "CHANGELOG.md has no release"
        return
    newest = releases[0][2]
    for pattern, name in NAMES:
        count = 0
        for path in sorted(root.glob(pattern)):
            local = path.relative_to(root)
            if not path.is_file():
                continue
            for version in re.findall(name, path.read_text(encoding="utf-8", errors="replace")):
                count += 1
                if version != newest:
                    yield f"{local} names version {version}, the newest release of CHANGELOG.md is {newest}"
        if not count:
            yield f"no file of {pattern} names the version any more: mend tests/releases.py"
