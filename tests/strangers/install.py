"""Installs what a row needs, through the ordinary clients: apt-get, pip, npm, cargo."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from places import BUILD, TOOLS

LIMIT_S = 900
ORDINARY = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/games:/usr/local/go/bin"
"""No shims of version managers: they are shell scripts around the command."""


def path():
    """PATH of all commands: what the judge installed, then the machine's."""
    cargo = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    own = [TOOLS / "venv/bin", TOOLS / "node/node_modules/.bin", TOOLS / "cargo/bin"]
    return ":".join([*map(str, own), ORDINARY, str(cargo / "bin")])


def find(program):
    """Where a command's program is, or None."""
    return shutil.which(program, path=path())


def install(row):
    """None once the row's program is there, else the reason why it is not."""
    program = row.arguments[0]
    client, _, packages = row.source.partition(":")
    marks = TOOLS / "installed"
    mark = marks / row.source.replace("/", "_")
    if client != "base" and not mark.exists():
        why = CLIENTS[client](packages.split(","))
        if why:
            return why
        marks.mkdir(parents=True, exist_ok=True)
        mark.touch()
    if find(program):
        return None
    return f"{program} is not on this machine" + ("" if client == "base" else f", although {row.source} was installed")


def _call(*command, **more):
    """None, or the last line that a failed client printed."""
    print(f"strangers: {' '.join(map(str, command))}", file=sys.stderr)
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
            errors="replace",
            **more,
        )
    except subprocess.TimeoutExpired:
        return f"{command[0]} did not end in {LIMIT_S} s"
    except OSError as error:
        return str(error)
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return None if done.returncode == 0 else (lines[-1] if lines else f"{command[0]}: exit status {done.returncode}")


def _apt(packages):
    have = subprocess.run(["dpkg-query", "-W", "-f", "${Status}\n", *packages], capture_output=True, text=True)
    if have.returncode == 0 and have.stdout.count("install ok installed") == len(packages):
        return None
    if os.getuid() != 0:
        return f"as root: apt-get install {' '.join(packages)}"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    updated = BUILD / "apt-updated"
    if not updated.exists():
        _call("apt-get", "update", "-q", env=environment)
        BUILD.mkdir(parents=True, exist_ok=True)
        updated.touch()
    # Another apt-get may hold the lock for a while.
    lock = ("-o", "DPkg::Lock::Timeout=300")
    return _call("apt-get", *lock, "install", "-q", "-y", "--no-install-recommends", *packages, env=environment)


def _pip(packages):
    python = TOOLS / "venv/bin/python"
    if not python.exists():
        why = _call("/usr/bin/python3", "-m", "venv", str(TOOLS / "venv"))
        if why:
            return why
    return _call(str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages)


def _npm(packages):
    where = TOOLS / "node"
    where.mkdir(parents=True, exist_ok=True)
    return _call("npm", "install", "--prefix", str(where), "--no-audit", "--no-fund", "--loglevel=error", *packages)


def _cargo(packages):
    # Unoptimised: it builds in a third of the time, and has line tables.
    return _call("cargo", "install", "-q", "--locked", "--debug", "--root", str(TOOLS / "cargo"), *packages)


CLIENTS = {"apt": _apt, "pip": _pip, "npm": _npm, "cargo": _cargo}
