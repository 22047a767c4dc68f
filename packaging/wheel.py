"""The wheel: packaging/wheel.py ROOT VERSION PROCESSOR OUTPUT. ROOT is what `make install` made with PREFIX=/usr.

The command is static, so one wheel serves each Linux: pip puts it beside python, the manual pages into share/man, and the module with
measured regions where `import mallow` finds it. The form is that of
https://packaging.python.org/en/latest/specifications/binary-distribution-format/.
"""

import base64
import hashlib
import os
import sys
import time
import zipfile
from pathlib import Path

SUMMARY = "Allocation debugging for native programs and Python: counts, records, gates, watches, guards"


def main(root, version, processor, output):
    root = Path(root)
    tag = f"py3-none-manylinux_2_17_{processor}.musllinux_1_1_{processor}"
    info, data = f"mallow-{version}.dist-info", f"mallow-{version}.data"
    files = [("mallow.py", Path("faces/python/mallow.py")), (f"{data}/scripts/mallow", root / "usr/bin/mallow")]
    pages = sorted((root / "usr/share/man/man1").iterdir())
    files += [(f"{data}/data/share/man/man1/{page.name}", page) for page in pages]
    files += [(f"{info}/licenses/LICENSE", Path("LICENSE"))]
    entries = [(name, path.read_bytes(), path.stat().st_mode & 0o111 != 0) for name, path in files]
    # One line a tag: a compressed set in the file's name is each of them here.
    tags = "".join(f"Tag: py3-none-{platform}\n" for platform in tag.split("-")[2].split("."))
    wheel = f"Wheel-Version: 1.0\nGenerator: mallow ({version})\nRoot-Is-Purelib: false\n{tags}"
    metadata = (
        f"Metadata-Version: 2.4\nName: mallow\nVersion: {version}\nSummary: {SUMMARY}\nLicense-Expression: MIT\n"
        "License-File: LICENSE\nRequires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n"
        f"{Path('README.md').read_text(encoding='utf-8')}"
    )
    entries += [(f"{info}/WHEEL", wheel.encode(), False), (f"{info}/METADATA", metadata.encode(), False)]
    record = "".join(f"{name},sha256={digest(content)},{len(content)}\n" for name, content, _ in entries)
    entries.append((f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode(), False))
    # Zip knows no year before 1980.
    moment = time.gmtime(max(int(os.environ["SOURCE_DATE_EPOCH"]), 315532800))[:6]
    with zipfile.ZipFile(Path(output) / f"mallow-{version}-{tag}.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, executable in entries:
            entry = zipfile.ZipInfo(name, moment)
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, int(os.environ.get("LEVEL", "9")))


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    main(*sys.argv[1:])
