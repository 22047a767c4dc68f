"""Checks a GitHub action and a GitLab template against the schemas that GitHub's and GitLab's editors use, and a manifest
of hooks as pre-commit does.

usage: python ci.py ACTION TEMPLATE HOOKS

Prints what it found as JSON: the documents, `!reference` resolved, and the faults.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from pre_commit.clientlib import InvalidManifestError, load_manifest

ACTION, TEMPLATE, HOOKS = sys.argv[1:]


class Reference(list):
    """A path of keys: what stands there."""


yaml.SafeLoader.add_constructor("!reference", lambda loader, node: Reference(loader.construct_sequence(node)))


def main():
    action = yaml.safe_load(Path(ACTION).read_text())
    header, jobs = yaml.safe_load_all(Path(TEMPLATE).read_text())
    print(json.dumps({
        "action": action,
        "inputs": header["spec"]["inputs"],
        "jobs": {name: resolved(job, jobs) for name, job in jobs.items()},
        "faults": [*against("vendor.github-actions", ACTION), *template_faults(), *hook_faults()],
    }))


def resolved(value, jobs):
    if isinstance(value, Reference):
        found = jobs
        for key in value:
            found = found[key]
        return resolved(found, jobs)
    if isinstance(value, dict):
        return {key: resolved(one, jobs) for key, one in value.items()}
    if isinstance(value, list):
        parts = [resolved(one, jobs) if isinstance(one, Reference) else [resolved(one, jobs)] for one in value]
        return sum(parts, [])
    return value


def template_faults():
    """Each document by itself, as the schema is one of a document. Hidden jobs are shown: their form is not checked."""
    with tempfile.TemporaryDirectory() as place:
        for number, document in enumerate(Path(TEMPLATE).read_text().split("\n---\n")):
            path = Path(place) / f"{number}.yml"
            path.write_text(re.sub(r"(?m)^\.", "", document))
            yield from against("vendor.gitlab-ci", path, "--data-transform", "gitlab-ci")


def against(schema, path, *options):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *options, path]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        yield run.stdout + run.stderr


def hook_faults():
    try:
        load_manifest(HOOKS)
    except InvalidManifestError as fault:
        yield str(fault)


if __name__ == "__main__":
    main()
