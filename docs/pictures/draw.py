#!/usr/bin/env python3
"""
draw.py MALLOW: draws the picture of README.md anew, beside this script: the page of a recording of SQLite's shell at the work of
`make demo`. Needs sqlite3 and Chromium.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
EVENTS = HERE.parent.parent / "examples/sqlite/events.sql"


def need(*names):
    found = next(filter(None, map(shutil.which, names)), None)
    return found or sys.exit(f"draw.py: {names[0]} is not installed: apt-get install {names[0]}")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    mallow, sqlite = Path(sys.argv[1]).resolve(), need("sqlite3")
    chromium = [need("chromium", "chromium-browser", "google-chrome"), "--headless", "--no-sandbox", "--hide-scrollbars"]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(EVENTS, folder)

        def run(*command):
            subprocess.run(command, cwd=folder, check=True, capture_output=True)

        run(mallow, "record", sqlite, "-batch", ":memory:", f".read {EVENTS.name}")
        run(mallow, "export", "--format", "html", "-o", "page.html", "sqlite3.mallow")
        picture = HERE / "page.png"
        picture.unlink(missing_ok=True)
        page = (Path(folder) / "page.html").as_uri()
        run(*chromium, "--window-size=1400,1090", "--virtual-time-budget=4000", f"--screenshot={picture}", page)
        if not picture.exists():
            sys.exit("draw.py: Chromium made no picture")


if __name__ == "__main__":
    main()
