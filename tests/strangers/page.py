"""The text of the page, as `mallow export --format html` writes it and a browser shows it."""

import html.parser
import shutil
import subprocess
import tempfile
from pathlib import Path

from places import MALLOW


class _Words(html.parser.HTMLParser):
    """Collects the text that is no script and no style."""

    def __init__(self):
        super().__init__()
        self.words, self.depth = [], 0

    def handle_starttag(self, tag, attrs):
        self.depth += tag in ("script", "style")

    def handle_endtag(self, tag):
        self.depth -= tag in ("script", "style")

    def handle_data(self, data):
        if not self.depth and data.strip():
            self.words.append(" ".join(data.split()))


def words(markup):
    """The text of a document, a line for each piece."""
    reader = _Words()
    reader.feed(markup)
    return "\n".join(reader.words)


def text(recording):
    """The page's text once its script ran, with all insights below the summary; None where no browser is."""
    browser = shutil.which("chromium")
    if browser is None:
        return None
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "page.html"
        exported = subprocess.run([MALLOW, "export", "--format", "html", "-o", file, recording], capture_output=True)
        if exported.returncode != 0:
            return ""
        command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        command += [f"--user-data-dir={place}/profile", "--virtual-time-budget=8000", "--dump-dom", file.as_uri() + "#view=insights"]
        try:
            shown = subprocess.run(command, capture_output=True, timeout=120)
        except subprocess.TimeoutExpired:
            return None
    return words(shown.stdout.decode(errors="replace"))
