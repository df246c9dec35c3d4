"""An OCI layout of the lab's image in a tar, byte for byte as the registry has it (what `skopeo copy --all` writes).

Run in the lab's network: python oci_layout.py URL CA DIGEST FILE [platform digest to leave out ...]
"""

from __future__ import annotations

import io
import json
import ssl
import sys
import tarfile
import urllib.request
from typing import Any

ACCEPT = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json"


def write(url: str, ca: str, digest: str, path: str, *without: str) -> None:
    context = ssl.create_default_context(cafile=ca)

    def get(kind: str, name: str) -> bytes:
        request = urllib.request.Request(f"{url}/v2/vllm/vllm-openai/{kind}/{name}", headers={"Accept": ACCEPT})
        with urllib.request.urlopen(request, context=context) as answer:
            return answer.read()  # type: ignore[no-any-return]

    top = get("manifests", digest)
    blobs = {digest: top}
    for entry in json.loads(top).get("manifests", []):
        if entry["digest"] not in without:
            blobs[entry["digest"]] = get("manifests", entry["digest"])
    for raw in list(blobs.values()):
        document = json.loads(raw)
        for part in [document.get("config"), *document.get("layers", [])]:
            if part:
                blobs[part["digest"]] = get("blobs", part["digest"])
    kind = json.loads(top)["mediaType"]
    index = {"schemaVersion": 2, "manifests": [{"mediaType": kind, "digest": digest, "size": len(top)}]}
    files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": json.dumps(index).encode()}
    files |= {f"blobs/sha256/{name.removeprefix('sha256:')}": data for name, data in blobs.items()}
    with tarfile.open(path, "w") as archive:
        for name, data in files.items():
            _add(archive, name, data)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> Any:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    archive.addfile(info, io.BytesIO(data))


if __name__ == "__main__":
    write(*sys.argv[1:])
