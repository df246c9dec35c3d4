"""A small image under the name of the real one, made by hand and pushed over the registry's HTTP API. Multi-arch, or of
one architecture without an index, as a profile says.

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

from rackproof_lab import network, profile
from rackproof_lab.names import Lab
from rackproof_lab.proc import run

# What a profile says otherwise under `image`.
DEFAULT: dict[str, Any] = {
    "name": "vllm/vllm-openai", "tag": "v0.28.0", "architectures": ["amd64", "arm64"],
    "env": ["PATH=/usr/local/cuda/bin:/usr/bin:/bin", "CUDA_VERSION=13.0.2", "NVIDIA_REQUIRE_CUDA=cuda>=13.0",
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility", "NVIDIA_VISIBLE_DEVICES=all"],
}  # fmt: skip
_TYPE = "application/vnd.oci.image."
_PROGRAM = Path(__file__).with_name("engine.c")
PROGRAMS = ("app", "usr/bin/vllm", "usr/bin/python3")  # one program under several names


def push(lab: Lab, profile_name: str) -> dict[str, str]:
    """Push both images and point the tag at the first; returns the image part of lab.json."""
    digests: dict[str, str] = json.loads(_inside(lab, profile_name, "push"))
    wanted = _wanted(profile_name)
    return {"reference": f"docker.io/{wanted['name']}:{wanted['tag']}", **digests}


def point_tag(lab: Lab, other: bool) -> None:
    """Move the tag to the other image and delete the first one's index, or undo both."""
    played: str = json.loads(lab.description.read_text())["profile"]
    _inside(lab, played, "other" if other else "push")


def _wanted(profile_name: str) -> dict[str, Any]:
    found: dict[str, Any] = {**DEFAULT, **profile.load(profile_name).get("image", {})}
    return found


def _inside(lab: Lab, profile_name: str, action: str) -> str:
    """Run this module in the lab's network, where the registry is."""
    url, ca = f"https://{lab.registry_address}", lab.dir / "ca/ca.crt"
    path = {"PYTHONPATH": str(Path(__file__).parent.parent)}
    return run(*network.inside(lab), sys.executable, "-m", "rackproof_lab.image", url, ca, action, profile_name,
               env=path)  # fmt: skip


def _sha(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Registry:
    """As much of the distribution API as pushing takes."""

    def __init__(self, url: str, ca: str, name: str = str(DEFAULT["name"])) -> None:
        self.url, self.name, self.context = url, name, ssl.create_default_context(cafile=ca)

    def call(self, method: str, path: str, data: bytes | None = None, kind: str = "") -> str:
        url = path if path.startswith("http") else self.url + path
        request = urllib.request.Request(url, data=data, method=method)
        if kind:
            request.add_header("Content-Type", kind)
        with urllib.request.urlopen(request, context=self.context) as answer:
            return answer.headers.get("Location") or ""

    def blob(self, data: bytes) -> dict[str, Any]:
        location = self.call("POST", f"/v2/{self.name}/blobs/uploads/", b"")
        sign = "&" if "?" in location else "?"
        self.call("PUT", f"{location}{sign}digest={_sha(data)}", data, "application/octet-stream")
        return {"digest": _sha(data), "size": len(data)}

    def manifest(self, document: dict[str, Any], reference: str = "") -> dict[str, Any]:
        data = json.dumps(document).encode()
        self.call("PUT", f"/v2/{self.name}/manifests/{reference or _sha(data)}", data, document["mediaType"])
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


def _config(arch: str, raw: bytes, label: str, variables: list[str]) -> bytes:
    config = {
        "Env": variables,
        "Entrypoint": ["/app"],
        "Labels": {"ai.rackproof.lab": "simulated", "org.opencontainers.image.version": label,
                   "maintainer": "rackproof lab: no vLLM inside"},
    }  # fmt: skip
    document = {
        "architecture": arch, "os": "linux", "created": "2026-11-01T00:00:00Z", "config": config,
        "rootfs": {"type": "layers", "diff_ids": [_sha(raw)]}, "history": [{"created_by": "rackproof lab"}],
    }  # fmt: skip
    return json.dumps(document).encode()


def _image(registry: Registry, wanted: dict[str, Any], label: str, reference: str) -> dict[str, str]:
    """One manifest for each architecture, and an index under the reference where there is more than one."""
    architectures = wanted["architectures"]
    manifests = []
    for arch in architectures:
        raw, packed = _layer(arch, label)
        config = _config(arch, raw, label, wanted["env"])
        manifest = {
            "schemaVersion": 2, "mediaType": _TYPE + "manifest.v1+json",
            "config": {"mediaType": _TYPE + "config.v1+json", **registry.blob(config)},
            "layers": [{"mediaType": _TYPE + "layer.v1.tar+gzip", **registry.blob(packed)}],
        }  # fmt: skip
        pushed = registry.manifest(manifest, reference if len(architectures) == 1 else "")
        manifests.append({**pushed, "platform": {"os": "linux", "architecture": arch}})
    digests = {m["platform"]["architecture"]: m["digest"] for m in manifests}
    if len(manifests) == 1:
        return {"index": manifests[0]["digest"], **digests}
    index = {"schemaVersion": 2, "mediaType": _TYPE + "index.v1+json", "manifests": manifests}
    return {"index": registry.manifest(index, reference)["digest"], **digests}


def _main(url: str, ca: str, action: str, profile_name: str) -> None:
    wanted = _wanted(profile_name)
    registry, tag = Registry(url, ca, wanted["name"]), wanted["tag"]
    other = _image(registry, wanted, "moved", tag)
    first = _image(registry, wanted, tag, tag)
    if action == "other":
        _image(registry, wanted, "moved", tag)
        registry.call("DELETE", f"/v2/{wanted['name']}/manifests/{first['index']}")
    print(json.dumps({**first, "other_index": other["index"]}))


if __name__ == "__main__":
    _main(*sys.argv[1:5])
