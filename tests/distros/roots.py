"""Root directories of other systems: made by debootstrap, kept in build/distros, used by chroot in a mount namespace."""

import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = Path(os.environ.get("DISTROS_CACHE", ROOT / "build" / "distros"))
PACKAGES = "gcc,libc6-dev,musl-tools,python3-minimal"
PLACE = "/tried"
"""Where programs and results lie in a root."""

ENVIRONMENT = {"PATH": f"{PLACE}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "LC_ALL": "C.UTF-8"}


class Missing(Exception):
    """What this machine lacks."""


def mirror():
    """The repository that this machine takes its own packages from."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(ORIGIN) $(LABEL)", "Created-By: Packages"]
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    own = [line.split()[0] for line in lines if line.endswith("Debian Debian")]
    if not own:
        raise Missing("apt names no repository of Debian: make distros needs a Debian machine")
    return own[0].rstrip("/")


def make(suite):
    """The root of a suite; the first time it is downloaded."""
    root = CACHE / suite
    if (root / "usr/bin/gcc").exists() and not (root / "debootstrap").exists():
        return root
    debootstrap = shutil.which("debootstrap")
    if not debootstrap:
        raise Missing("debootstrap is missing: apt-get install debootstrap")
    print(f"distros: {suite}: debootstrap", flush=True)
    shutil.rmtree(root, ignore_errors=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    log = CACHE / f"{suite}.log"
    with log.open("w") as text:
        command = [debootstrap, "--variant=minbase", f"--include={PACKAGES}", suite, str(root), mirror()]
        if subprocess.run(command, stdout=text, stderr=subprocess.STDOUT, check=False).returncode != 0:
            raise Missing(f"debootstrap failed for {suite}: {log} says why")
    return root


class Root:
    """A root with /proc, /dev and an own /tmp; the mounts end with this script's mount namespace."""

    def __init__(self, path):
        self.path = Path(path)
        self.place = self.path / PLACE.lstrip("/")
        for name in ("proc", "dev", "tmp"):
            (self.path / name).mkdir(exist_ok=True)
        self.mount("-t", "proc", "proc", "proc")
        self.mount("--rbind", "/dev", "", "dev")
        self.mount("-t", "tmpfs", "tmpfs", "tmp")

    def clear(self):
        """Leaves nothing in PLACE."""
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()

    def mount(self, *words):
        *options, name = words
        subprocess.run(["mount", *[word for word in options if word], str(self.path / name)], check=True)

    def start(self, command, environment=(), **streams):
        """A process in the root, in PLACE. Variables reach the command alone."""
        setting = ["/usr/bin/env", *(f"{name}={value}" for name, value in dict(environment).items())]
        inside = f'cd {PLACE} && exec "$@"'
        words = ["chroot", str(self.path), "/bin/sh", "-c", inside, "sh", *setting, *command]
        return subprocess.Popen(words, env=ENVIRONMENT, text=True, **streams)

    def run(self, command, **options):
        """Status, standard output and standard error of a command in the root."""
        process = self.start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, **options)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err
