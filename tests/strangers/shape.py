"""The environment that Mallow gives a command: which variables it adds, and how long they are.

Programs copy their environment into blocks. The counter's environment has the same lengths, so that these blocks
are equal.
"""

import subprocess

from places import BUILD, MALLOW
from run import environment


def shape_of_environment():
    """The length of each variable that is not there without Mallow."""
    out = BUILD / "environment"
    with open(out, "wb") as file:
        subprocess.run(
            [MALLOW, "stat", "-o", BUILD / "shape", "--", "/usr/bin/env", "-0"],
            stdout=file,
            env=environment(),
            check=True,
        )
    variables = dict(entry.split("=", 1) for entry in out.read_bytes().decode().split("\0") if "=" in entry)
    return {name: len(value) for name, value in variables.items() if name not in environment()}
