"""Where the judge keeps its files: in build/strangers, except what must have a short path."""

import os
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = Path(os.environ.get("STRANGERS_BUILD", ROOT / "build" / "strangers"))
MALLOW = Path(os.environ.get("MALLOW_BIN", ROOT / "target" / "release" / "mallow")).resolve()

INPUTS = BUILD / "inputs"
"""What commands read; generated, the same on every machine."""
TOOLS = BUILD / "tools"
"""The virtual environment, node_modules and cargo's root."""
FOUND = BUILD / "found"
"""Recordings and documents of each command, kept for whoever follows up a disagreement."""
SHORT = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path("/tmp")
"""For the counter: its environment has the lengths of Mallow's, which are short."""
