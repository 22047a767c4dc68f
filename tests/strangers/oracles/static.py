"""A statically linked program cannot be preloaded: Mallow has to say so. Oracle: readelf."""

import subprocess

from disagreement import Disagreement
from install import find

NAME = "static"


def check(evidence):
    """Each tool names what it cannot see."""
    program = find(evidence.row.arguments[0])
    headers = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True).stdout
    if "INTERP" in headers:
        return
    for tool in ("stat", "record", "watch", "guard"):
        for condition, found in getattr(evidence, tool).items():
            run, text = (found.run, found.report) if tool == "record" else (found[0], str(found[1]))
            said = run.stderr.decode(errors="replace") + text
            if "static" not in said:
                right = f"{program} has no dynamic linker (readelf)"
                yield Disagreement(
                    NAME,
                    evidence.row.name,
                    f"{tool}, {condition}",
                    "nothing of static linking",
                    right,
                    evidence.command(tool),
                )
