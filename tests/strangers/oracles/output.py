"""A command's output, exit status and files are those of its bare run. Oracle: the bare run."""

from disagreement import Disagreement

NAME = "output"


def check(evidence):
    """Compares each run under a tool with the bare ones."""
    for tool in ("stat", "record", "watch", "guard", "rss"):
        for condition, found in getattr(evidence, tool).items():
            run = found.run if tool == "record" else found[0]
            for said, right in compare(evidence, tool, run):
                yield Disagreement(NAME, evidence.row.name, f"{tool}, {condition}", said, right, evidence.command(tool))


def compare(evidence, tool, run):
    """Pairs of what the run has and what the bare run has, where they differ."""
    bare = evidence.bare[0]
    if run.timed_out:
        yield f"did not end in {run.seconds:.0f} s", f"{bare.seconds:.2f} s bare"
        return
    said = run.stderr.decode(errors="replace")
    if run.status == 125 and "nothing was recorded" in said:
        # It says so by a status of its own, and nothing is written.
        if tool == "rss" and allocates_nothing(evidence) or tool in ("record", "rss") and "static" in evidence.row.flags:
            return
    # guard exits with 3 where it found an error; what it found is another oracle's.
    if run.status not in {b.status for b in evidence.bare} and not (tool == "guard" and run.status == 3):
        last = run.stderr.decode(errors="replace").strip().splitlines()[-1:]
        yield f"exit status {run.status} {' '.join(last)[:100]}", f"exit status {bare.status}"
    names = [set(b.files) for b in evidence.bare]
    if set(run.files) not in names and names[0] == names[1]:
        odd = sorted(set(run.files) ^ names[0])
        yield f"files {', '.join(odd[:3])}", "there bare, and not under mallow; or the other way round"
    if evidence.is_volatile:
        return
    for name in sorted(run.files.keys() & bare.files.keys()):
        if run.files[name] != bare.files[name]:
            yield f"another content of {name}", "as bare"
    # `mallow rss` prints its view behind the command's output.
    is_same = run.stdout.startswith(bare.stdout) if tool == "rss" else run.stdout == bare.stdout
    if not is_same:
        yield f"stdout: {first_difference(run.stdout, bare.stdout)}", "as bare"
    missing = missing_line(bare.stderr, run.stderr)
    if missing is not None:
        yield f"stderr lacks {missing!r}", "as bare"


def allocates_nothing(evidence):
    """The naive counter saw no allocation: there is nothing to divide."""
    return bool(evidence.counts) and not any(image.counts["allocations"] for images in evidence.counts for image in images)


def first_difference(one, other):
    """Where two outputs part, shortly."""
    for number, (a, b) in enumerate(zip(one.splitlines(), other.splitlines()), 1):
        if a != b:
            return f"line {number}: {a[:60]!r} for {b[:60]!r}"
    return f"{len(one)} bytes for {len(other)}"


def missing_line(bare, under):
    """The first line of the bare standard error that the other one lacks, in its order: Mallow adds its own lines."""
    rest = iter(under.splitlines())
    for line in bare.splitlines():
        if not any(line == other for other in rest):
            return line.decode(errors="replace")[:80]
    return None
