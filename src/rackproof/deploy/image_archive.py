"""An image from an archive, for hosts without a registry: what is in it is proven before and after it is loaded.

The pin names an index (or the manifest of the host's own platform). Their bytes are in an OCI layout, or beside an
archive that has lost them (`docker save` writes manifests of its own); each is verified against the digest that names
it, down to the digest of the configuration, which is what Docker's own image store calls the id of an image.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyinfra.api import StringCommand

from rackproof.baseline_parts import ImageBaseline
from rackproof.deploy import image_scripts
from rackproof.errors import InputError, RackproofError
from rackproof.evidence.tools.image_chain import FOLDER, MAX_BYTES
from rackproof.registry import RegistryError
from rackproof.registry.image import linux_platforms
from rackproof.site import Site

IMPORT_S = 2 * 3600
_SHORT_S = 300
Read = Callable[[str], bytes | None]


@dataclass(frozen=True)
class Chain:
    """From the pin to the configuration. `documents` are the bytes of index (where there is one) and manifest."""

    manifest: str
    config: str
    layers: tuple[str, ...]
    documents: tuple[bytes, ...]


@dataclass(frozen=True)
class ImageArchive:
    """Where an archive lies: `host` on every node, or `control` on this machine. `manifests`: a folder, here too."""

    image: ImageBaseline
    host: str | None
    control: Path | None
    manifests: Path | None
    source: str
    room_bytes: int
    room_source: str
    engine: str = "docker"

    def bring_in(self, host: Any, how: Mapping[str, Any], as_step: Callable[[str], str]) -> None:
        """Copy it to the node where needed, prove it, load it, leave the proof. Raises RackproofError.

        `as_step`: makes a script one that holds the node's lock and is journalled.
        """
        there = self.host or self._copied(host, how)
        if not _output(host, how, f"[ ! -r {shlex.quote(there)} ] || echo there"):
            raise RackproofError(f"{host.name}: there is no {there} on this node ({self.source})")
        chain = find_chain(self.image, self._reader(host, how, there), self.source)
        own = _has_member(host, how, there, "manifest.json")
        script = image_scripts.load(
            self.image, there, [chain.config, self.image.index, chain.manifest], "" if own else manifest_json(chain),
            self.room_bytes, self.room_source, self.engine,
        )  # fmt: skip
        ok, _ = host.run_shell_command(StringCommand(as_step(script)), print_output=True, _timeout=IMPORT_S, **how)
        if not ok:
            raise RackproofError(f"{host.name}: the image was not imported; what the node said stands above")
        self._leave_proof(host, how, chain)
        if self.control is not None:
            _run(host, how, f"rm -f {shlex.quote(there)}", "removing the copy of the archive")

    def _reader(self, host: Any, how: Mapping[str, Any], there: str) -> Read:
        def read(digest: str) -> bytes | None:
            if self.manifests is not None:
                kept = self.manifests / digest.removeprefix("sha256:")
                if kept.is_file():
                    return kept.read_bytes()
            return _member(host, how, there, f"blobs/sha256/{digest.removeprefix('sha256:')}")

        return read

    def _copied(self, host: Any, how: Mapping[str, Any]) -> str:
        """Copy the archive to the node, whole or not at all; one that is there already is not copied again."""
        assert self.control is not None
        local = sha256_of(self.control)
        there = f"{image_scripts.STATE}/image-{self.image.index[7:19]}.tar"
        quoted = shlex.quote(there)
        _run(host, how, f"mkdir -p {image_scripts.STATE}", "making a place for the archive")
        if _output(host, how, f"sha256sum {quoted} 2>/dev/null | cut -d ' ' -f 1") == local:
            return there
        host.log_styled(f"rackproof: copying {self.control}", fg="cyan")
        if not host.put_file(str(self.control), f"{there}.part", **how):
            raise RackproofError(
                f"{host.name}: {self.control} could not be copied; is there room in {image_scripts.STATE}?"
            )
        if _output(host, how, f"sha256sum {quoted}.part | cut -d ' ' -f 1") != local:
            raise RackproofError(f"{host.name}: the copy of {self.control} is damaged; run the deploy again")
        _run(host, how, f"mv -f {quoted}.part {quoted}", "keeping the copy of the archive")
        return there

    def _leave_proof(self, host: Any, how: Mapping[str, Any], chain: Chain) -> None:
        lines = ["umask 022", f"mkdir -p {FOLDER}"]
        for document in chain.documents:
            path = f"{FOLDER}/{hashlib.sha256(document).hexdigest()}"
            text = base64.b64encode(document).decode()
            lines.append(f"printf %s {text} | base64 -d >{path}.part && mv -f {path}.part {path}")
        _run(host, how, "\n".join(lines), "leaving the proof of the image")


def archive_of(
    image: ImageBaseline, site: Site, room_bytes: int, room_source: str, engine: str = "docker"
) -> ImageArchive | None:
    """The archive that the site names, or None. Raises InputError for one that this machine should have and has not."""
    host, control = (site.get("image", "archive", key) for key in ("host", "control"))
    folder = site.get("image", "archive", "manifests")
    if host is None and control is None:
        return None
    if host is not None and control is not None:
        raise InputError(
            control.source, "image.archive names a place on the hosts and one here", "one of host and control"
        )
    paths = [Path(cell.value).expanduser() if cell else None for cell in (control, folder)]
    for cell, path, kind in ((control, paths[0], Path.is_file), (folder, paths[1], Path.is_dir)):
        if cell is not None and path is not None and not kind(path):
            raise InputError(
                cell.source, f"{cell.value} is not there on this machine", "an archive (a file), a folder of manifests"
            )
    named = host or control
    assert named is not None
    there = host.value if host else None
    return ImageArchive(image, there, paths[0], paths[1], named.source, room_bytes, room_source, engine)


def find_chain(image: ImageBaseline, read: Read, where: str) -> Chain:
    """The chain from the pin, each document verified. Raises InputError where bytes are wrong or missing."""
    index = _document(image.index, read, where)
    documents: list[bytes] = []
    platform = image.platform
    if index is not None:
        documents.append(index)
        platform = _listed(index, image, where)
    manifest = _document(platform, read, where) if platform else None
    if manifest is None or platform is None:
        raise InputError(
            where, f"the archive holds neither the pinned index {image.index} nor the manifest of linux/{image.architecture}",
            "an OCI layout with them (skopeo copy --all --preserve-digests), or image.archive.manifests with what "
            "`rackproof image resolve --manifests` kept",
        )  # fmt: skip
    document = _object(manifest, where)
    config, layers = document.get("config"), document.get("layers")
    digests = [item.get("digest") for item in layers if isinstance(item, dict)] if isinstance(layers, list) else []
    if not isinstance(config, dict) or not isinstance(config.get("digest"), str) or not digests:
        raise InputError(where, f"{platform} is not the manifest of an image", "the manifest of one platform")
    return Chain(platform, config["digest"], tuple(str(digest) for digest in digests), (*documents, manifest))


def _document(digest: str, read: Read, where: str) -> bytes | None:
    raw = read(digest)
    if raw is None or not raw:
        return None
    found = "sha256:" + hashlib.sha256(raw).hexdigest()
    if found != digest:
        raise InputError(where, f"what the archive has as {digest} has the digest {found}", "an archive nobody changed")
    if len(raw) > MAX_BYTES:
        raise InputError(where, f"{digest} has {len(raw)} bytes", f"a manifest of at most {MAX_BYTES}")
    return raw


def _listed(index: bytes, image: ImageBaseline, where: str) -> str:
    try:
        listed = linux_platforms(_object(index, where), "archive")
    except RegistryError as error:
        raise InputError(where, str(error), "the index of an image") from None
    if image.architecture not in listed:
        held = ", ".join(f"linux/{name}" for name in listed)
        raise InputError(where, f"the image has no linux/{image.architecture}, which this host needs", held)
    return listed[image.architecture]


def _object(raw: bytes, where: str) -> dict[str, Any]:
    try:
        document = json.loads(raw)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise InputError(where, "a manifest in the archive is not a JSON object", "an OCI layout")
    return document


def manifest_json(chain: Chain) -> str:
    """What `docker load` reads: where configuration and layers of the one image lie in the archive."""
    paths = [f"blobs/sha256/{digest.removeprefix('sha256:')}" for digest in (chain.config, *chain.layers)]
    return json.dumps([{"Config": paths[0], "RepoTags": None, "Layers": paths[1:]}], separators=(",", ":"))


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _member(host: Any, how: Mapping[str, Any], archive: str, name: str) -> bytes | None:
    text = _output(host, how, f"{_reading(archive, name)} | head -c {MAX_BYTES + 1} | base64")
    try:
        return base64.b64decode("".join(text.split()), validate=True) or None
    except binascii.Error:
        return None


def _has_member(host: Any, how: Mapping[str, Any], archive: str, name: str) -> bool:
    return bool(_output(host, how, f"{_reading(archive, name)} | head -c 1 | base64"))


def _reading(archive: str, name: str) -> str:
    """A command that prints one member of a tar or of a folder, and nothing where it is not there."""
    path = shlex.quote(archive)
    return f"if [ -d {path} ]; then cat {path}/{name}; else tar -xOf {path} {name} || tar -xOf {path} ./{name}; fi 2>/dev/null"


def _output(host: Any, how: Mapping[str, Any], script: str) -> str:
    _, output = host.run_shell_command(StringCommand(script), _timeout=_SHORT_S, **how)
    return str(output.stdout).strip()


def _run(host: Any, how: Mapping[str, Any], script: str, what: str) -> None:
    ok, output = host.run_shell_command(StringCommand(f"set -eu\n{script}"), _timeout=_SHORT_S, **how)
    if not ok:
        raise RackproofError(f"{host.name}: {what} failed: {str(output.stderr).strip()[-400:]}")
