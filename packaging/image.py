"""The image: packaging/image.py ROOT VERSION ARCHITECTURE OUTPUT. ROOT is what `make install` made with PREFIX=/usr.

An archive of an OCI image layout (https://github.com/opencontainers/image-spec), made without a daemon: one layer with the command and
its licence, which needs nothing else. `podman load -i`, `skopeo copy oci-archive:` and `ctr image import` read it.
"""

import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
import time
from pathlib import Path

MEDIA = "application/vnd.oci.image"


def main(root, version, architecture, output):
    root, moment = Path(root), int(os.environ["SOURCE_DATE_EPOCH"])
    # /tmp: where mallow makes its run directories if there is no /dev/shm.
    plain = ("usr", "usr/bin", "usr/share", "usr/share/doc", "usr/share/doc/mallow")
    folders = [("tmp", 0o1777), *((name, 0o755) for name in plain)]
    files = [
        ("usr/bin/mallow", (root / "usr/bin/mallow").read_bytes(), 0o755),
        ("usr/share/doc/mallow/copyright", Path("LICENSE").read_bytes(), 0o644),
    ]
    layer = archive(moment, folders, files)
    blobs = {}

    def blob(media, content):
        found = f"sha256:{hashlib.sha256(content).hexdigest()}"
        blobs[found] = content
        return {"mediaType": media, "digest": found, "size": len(content)}

    packed = blob(f"{MEDIA}.layer.v1.tar+gzip", gzip.compress(layer, int(os.environ.get("LEVEL", "9")), mtime=0))
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
    labels = {"title": "mallow", "version": version, "licenses": "MIT"}
    labels = {f"org.opencontainers.image.{name}": value for name, value in labels.items()}
    config = {
        "created": created,
        "architecture": architecture,
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/mallow"],
            "Cmd": ["help"],
            "WorkingDir": "/",
            "Env": ["PATH=/usr/bin"],
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [{"created": created, "created_by": "packaging/image.py"}],
    }
    config = blob(f"{MEDIA}.config.v1+json", text(config))
    media = f"{MEDIA}.manifest.v1+json"
    manifest = {"schemaVersion": 2, "mediaType": media, "config": config, "layers": [packed]}
    named = {**blob(media, text(manifest)), "annotations": {"org.opencontainers.image.ref.name": version}}
    index = {"schemaVersion": 2, "mediaType": f"{MEDIA}.index.v1+json", "manifests": [named]}
    layout = [("oci-layout", text({"imageLayoutVersion": "1.0.0"}), 0o644), ("index.json", text(index), 0o644)]
    layout += [(f"blobs/{name.replace(':', '/')}", content, 0o644) for name, content in sorted(blobs.items())]
    made = archive(moment, [("blobs", 0o755), ("blobs/sha256", 0o755)], layout)
    (Path(output) / f"mallow-{version}-{architecture}.oci.tar").write_bytes(made)


def text(document):
    return json.dumps(document, sort_keys=True).encode()


def archive(moment, folders, files):
    """A tar archive of root's folders and files."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, mode, content in [*((n, m, None) for n, m in folders), *((n, m, c) for n, c, m in files)]:
            entry = tarfile.TarInfo(name)
            entry.mode, entry.mtime = mode, moment
            entry.type, entry.size = (tarfile.DIRTYPE, 0) if content is None else (tarfile.REGTYPE, len(content))
            tar.addfile(entry, None if content is None else io.BytesIO(content))
    return made.getvalue()


if __name__ == "__main__":
    main(*sys.argv[1:])
