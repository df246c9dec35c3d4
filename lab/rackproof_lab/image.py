"""A small multi-arch image under the name of the real one, made by hand and pushed over the registry's HTTP API.

The two images differ in one layer: the second plays "somebody moved the tag".
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import ssl
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from rackproof_lab import network
from rackproof_lab.names import Lab
from rackproof_lab.proc import run

NAME, TAG = "vllm/vllm-openai", "v0.28.0"
_TYPE = "application/vnd.oci.image."
_PROGRAM = Path(__file__).with_name("engine.c")
PROGRAMS = ("app", "usr/bin/vllm", "usr/bin/python3")  # one program under several names


def push(lab: Lab) -> dict[str, str]:
    """Push both images and point the tag at the first; returns the image part of lab.json."""
    digests: dict[str, str] = json.loads(_inside(lab, "push"))
    return {"reference": f"docker.io/{NAME}:{TAG}", **digests}


def point_tag(lab: Lab, other: bool) -> None:
    """Move the tag to the other image and delete the first one's index, or undo both."""
    _inside(lab, "other" if other else "push")


def _inside(lab: Lab, action: str) -> str:
    """Run this module in the lab's network, where the registry is."""
    url, ca = f"https://{lab.registry_address}", lab.dir / "ca/ca.crt"
    path = {"PYTHONPATH": str(Path(__file__).parent.parent)}
    return run(*network.inside(lab), sys.executable, "-m", "rackproof_lab.image", url, ca, action, env=path)


def _sha(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Registry:
    """As much of the distribution API as pushing takes."""

    def __init__(self, url: str, ca: str) -> None:
        self.url, self.context = url, ssl.create_default_context(cafile=ca)

    def call(self, method: str, path: str, data: bytes | None = None, kind: str = "") -> str:
        url = path if path.startswith("http") else self.url + path
        request = urllib.request.Request(url, data=data, method=method)
        if kind:
            request.add_header("Content-Type", kind)
        with urllib.request.urlopen(request, context=self.context) as answer:
            return answer.headers.get("Location") or ""

    def blob(self, data: bytes) -> dict[str, Any]:
        location = self.call("POST", f"/v2/{NAME}/blobs/uploads/", b"")
        sign = "&" if "?" in location else "?"
        self.call("PUT", f"{location}{sign}digest={_sha(data)}", data, "application/octet-stream")
        return {"digest": _sha(data), "size": len(data)}

    def manifest(self, document: dict[str, Any], reference: str = "") -> dict[str, Any]:
        data = json.dumps(document).encode()
        self.call("PUT", f"/v2/{NAME}/manifests/{reference or _sha(data)}", data, document["mediaType"])
        return {"mediaType": document["mediaType"], "digest": _sha(data), "size": len(data)}


def _program(arch: str) -> bytes:
    """A static program where a compiler is there; without one the image can be pulled, and not started."""
    compiler = {"amd64": "gcc", "arm64": "aarch64-linux-gnu-gcc"}[arch]
    if not shutil.which(compiler):
        return b"placeholder for " + arch.encode()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "a")
        done = subprocess.run(
            [compiler, "-static", "-Os", "-s", "-o", program, _PROGRAM], capture_output=True, check=False
        )
        return program.read_bytes() if done.returncode == 0 else b"placeholder for " + arch.encode()


def _layer(arch: str, label: str) -> tuple[bytes, bytes]:
    raw, program = io.BytesIO(), _program(arch)
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, data, mode in (*((name, program, 0o755) for name in PROGRAMS), ("label", label.encode(), 0o644)):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), mode
            archive.addfile(info, io.BytesIO(data))
    return raw.getvalue(), gzip.compress(raw.getvalue(), mtime=0)


def _config(arch: str, raw: bytes, label: str) -> bytes:
    config = {
        "Env": ["PATH=/usr/local/cuda/bin:/usr/bin:/bin", "CUDA_VERSION=13.0.2", "NVIDIA_REQUIRE_CUDA=cuda>=13.0",
                "NVIDIA_DRIVER_CAPABILITIES=compute,utility", "NVIDIA_VISIBLE_DEVICES=all"],
        "Entrypoint": ["/app"],
        "Labels": {"ai.rackproof.lab": "simulated", "org.opencontainers.image.version": label,
                   "maintainer": "rackproof lab: no vLLM inside"},
    }  # fmt: skip
    document = {
        "architecture": arch, "os": "linux", "created": "2026-11-01T00:00:00Z", "config": config,
        "rootfs": {"type": "layers", "diff_ids": [_sha(raw)]}, "history": [{"created_by": "rackproof lab"}],
    }  # fmt: skip
    return json.dumps(document).encode()


def _image(registry: Registry, label: str, reference: str) -> dict[str, str]:
    manifests = []
    for arch in ("amd64", "arm64"):
        raw, packed = _layer(arch, label)
        manifest = {
            "schemaVersion": 2, "mediaType": _TYPE + "manifest.v1+json",
            "config": {"mediaType": _TYPE + "config.v1+json", **registry.blob(_config(arch, raw, label))},
            "layers": [{"mediaType": _TYPE + "layer.v1.tar+gzip", **registry.blob(packed)}],
        }  # fmt: skip
        manifests.append({**registry.manifest(manifest), "platform": {"os": "linux", "architecture": arch}})
    index = {"schemaVersion": 2, "mediaType": _TYPE + "index.v1+json", "manifests": manifests}
    digests = {m["platform"]["architecture"]: m["digest"] for m in manifests}
    return {"index": registry.manifest(index, reference)["digest"], **digests}


def _main(url: str, ca: str, action: str) -> None:
    registry = Registry(url, ca)
    other = _image(registry, "moved", TAG)
    first = _image(registry, TAG, TAG)
    if action == "other":
        _image(registry, "moved", TAG)
        registry.call("DELETE", f"/v2/{NAME}/manifests/{first['index']}")
    print(json.dumps({**first, "other_index": other["index"]}))


if __name__ == "__main__":
    _main(*sys.argv[1:4])
