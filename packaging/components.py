"""What the command is made of: packaging/components.py VERSION PROCESSOR OUTPUT, in the root of the sources.

A bill of materials in CycloneDX 1.5 (https://cyclonedx.org/docs/1.5/json/): each crate that is linked into the command, with its licence
and the checksum of Cargo.lock. Crates that build or test it alone are left out.
"""

import json
import os
import subprocess
import sys
import time
import tomllib
import uuid
from pathlib import Path


def main(version, processor, output):
    target = f"{processor}-unknown-linux-gnu"
    metadata = json.loads(cargo("metadata", "--format-version", "1", "--filter-platform", target))
    packages = {(package["name"], package["version"]): package for package in metadata["packages"]}
    named = {package["id"]: key for key, package in packages.items()}
    # Features that tests ask for are none of the command's: cargo's resolution for all edges has them, its tree has not.
    edges = ("--edges", "normal,no-proc-macro", "--target", target)
    tree = cargo("tree", "-p", "mallow", *edges, "--prefix", "none", "--format", "{p}")
    linked = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    linked = {(name, number.removeprefix("v")) for name, number in linked}
    resolved = metadata["resolve"]["nodes"]
    nodes = {named[node["id"]]: {named[other["pkg"]] for other in node["deps"]} & linked for node in resolved}
    lock = tomllib.loads(Path("Cargo.lock").read_text(encoding="utf-8"))["package"]
    checksums = {(package["name"], package["version"]): package.get("checksum") for package in lock}
    own = component(packages[("mallow", version)], checksums, "application")
    others = [component(packages[each], checksums, "library") for each in sorted(linked - {("mallow", version)})]
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"])))
    # The same from the same sources.
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([own, others, moment], sort_keys=True))
    depends = [
        {"ref": reference(each), "dependsOn": [reference(to) for to in sorted(nodes[each])]} for each in sorted(linked)
    ]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"timestamp": moment, "component": own},
        "components": others,
        "dependencies": depends,
    }
    path = Path(output) / f"mallow-{version}.cdx.json"
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments, "--locked"], check=True, capture_output=True, text=True).stdout


def reference(key):
    return f"pkg:cargo/{key[0]}@{key[1]}"


def component(package, checksums, kind):
    key = package["name"], package["version"]
    made = {"type": kind, "bom-ref": reference(key), "name": package["name"], "version": package["version"]}
    if package["source"]:
        made["purl"] = reference(key)
    if package["license"]:
        # Cargo's former way to write OR.
        made["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if checksum := checksums.get(key):
        made["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return made


if __name__ == "__main__":
    main(*sys.argv[1:])
