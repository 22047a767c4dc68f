"""Checks a compose file against the Compose specification's schema, and manifests against those of Kubernetes.

usage: python deploy.py SCHEMA COMPOSE MANIFESTS

Prints what it found as JSON: the services, the kinds, and the faults.
"""

import json
import sys

import jsonschema
import kubernetes_validate
import yaml

SCHEMA, COMPOSE, MANIFESTS = sys.argv[1:]
# The oldest that is supported upstream, and the newest that the package has.
KUBERNETES = ["1.34", kubernetes_validate.latest_version()]


def main():
    compose = yaml.safe_load(open(COMPOSE))
    manifests = list(yaml.safe_load_all(open(MANIFESTS)))
    print(json.dumps({
        "services": sorted(compose["services"]),
        "kinds": [manifest["kind"] for manifest in manifests],
        "faults": [*compose_faults(compose), *manifest_faults(manifests)],
    }))


def compose_faults(compose):
    validator = jsonschema.Draft7Validator(json.load(open(SCHEMA)))
    for error in validator.iter_errors(compose):
        yield f"{'/'.join(map(str, error.absolute_path))}: {error.message}"
    # The schema does not know what names stand for.
    for name, service in compose["services"].items():
        others = [service.get(key, "") for key in ("pid", "ipc", "network_mode")]
        for other in (of.removeprefix("service:") for of in others if of.startswith("service:")):
            if other not in compose["services"]:
                yield f"{name}: there is no service {other}"
        for secret in service.get("secrets", []):
            if secret not in compose.get("secrets", {}):
                yield f"{name}: there is no secret {secret}"


def manifest_faults(manifests):
    for manifest in manifests:
        for version in KUBERNETES:
            try:
                kubernetes_validate.validate(manifest, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                yield f"{manifest.get('kind')}, {version}: {error.message}"


main()
