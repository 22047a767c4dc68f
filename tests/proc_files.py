"""Files of processes that crates/proc alone reads: maps, smaps, stat, status and auxv. Tests of other crates use it, too."""

import re

FILE = r"(maps|smaps|smaps_rollup|stat|status|auxv)"
FIELD = r"(Vm[A-Z]\w+|NSpid|Tgid|PPid|TracerPid|Kthread|Cap(Eff|Prm|Inh|Bnd)|Seccomp(_filters)?|SigPnd)"
READER = re.compile(
    rf'/proc/[^"\s]*/{FILE}(?![\w/])'
    rf'|/{FILE}"'
    rf'|\b(join|read|read_path|file|open|of)\([^"\n]*"{FILE}"'
    rf'|"{FIELD}:?"'
)
"""A path, a name below a path, or a field that only a parser names."""

ALLOWED = {
    # It locks the file, and reads nothing.
    "crates/capture/src/attach/turn.rs": "/proc/{pid}/status",
    # Text for a user.
    "crates/mallow/src/flags/watch.rs": "/proc/PID/maps",
    # A script for python3.
    "crates/capture/tests/unwind_tables.rs": "/proc/self/maps') if 'libpython'",
}
"""File → the text that it may contain."""

FOUND = """
fs::read(format!("/proc/{pid}/task/{tid}/status"))
Path::new("/proc").join(pid.to_string()).join("stat")
format!("{directory}/maps")
line.strip_prefix("VmRSS:")
"""
MISSED = """
let state = "State"; // fs::read("/proc/self/maps")
format!("/proc/{pid}/status_of")
Command::new(mallow).arg("stat")
"""


def faults(root):
    """Lines beside crates/proc that read what it reads, and exceptions that nothing needs."""
    if [*found(FOUND)] != [(number, line) for number, line in enumerate(FOUND.splitlines(), 1) if line] or [*found(MISSED)]:
        yield "the search for readers of /proc is wrong: correct tests/proc_files.py"
    needed = set()
    for path in sorted((root / "crates").rglob("*.rs")):
        name = str(path.relative_to(root))
        if name.startswith("crates/proc/"):
            continue
        for number, line in found(path.read_text(encoding="utf-8")):
            if ALLOWED.get(name, "\n") in line:
                needed.add(name)
            else:
                yield f"{name}:{number}: {line.strip()!r}: crates/proc reads the files of processes"
    for name in sorted(set(ALLOWED) - needed):
        yield f"{name} has no {ALLOWED[name]!r}: take it off the exceptions of tests/proc_files.py"


def found(text):
    """Number and text of each line that names such a file or field, without comments."""
    for number, line in enumerate(text.splitlines(), 1):
        code = re.sub(r"//.*$", "", line)
        if READER.search(code):
            yield number, code
