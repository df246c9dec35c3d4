"""Evidence on disk: a directory or `.tar.gz` per node, one file per section, a manifest with the sha256 of each.

A bundle may come from a stranger. Reading one never writes outside memory, never follows a link, never trusts a size,
and a file that does not match its hash is not evidence. A bundle may be signed (signature.py) in one more file.

Schema 2 says whether the evidence is redacted, and may be signed; schema 1, which knew neither, is read as well.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rackproof.errors import InputError
from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Section, Status
from rackproof.evidence.stream import MAX_BYTES, parse_stream

SCHEMA = 2
MANIFEST = "manifest.json"
SIGNATURE = "manifest.json.sig"
_NAME = re.compile(r"sections/[a-z0-9_]{1,64}\.(out|err)")


Sign = Callable[[bytes], bytes]  # manifest -> signature
Refuse = Callable[[bytes | None, bytes | None], str | None]  # manifest, signature -> why it is not believed


def write_bundle(path: Path, evidence: Evidence, sign: Sign | None = None) -> None:
    """Write one node's evidence; `path` ending in .tar.gz makes an archive, anything else a directory.

    Nothing half-written is left behind: it is made beside its place and renamed.
    """
    files = _files(evidence)
    if sign is not None:
        files[SIGNATURE] = sign(files[MANIFEST])
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        raise InputError(str(path), "is already there", "a path that does not exist yet")
    if path.name.endswith(".tar.gz"):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".rackproof-")
        try:
            with os.fdopen(handle, "wb") as out, tarfile.open(fileobj=out, mode="w:gz") as archive:
                for name, data in files.items():
                    member = tarfile.TarInfo(name)
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        return
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".rackproof-") as temporary:
        top = Path(temporary) / "bundle"
        for name, data in files.items():
            file = top / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        os.replace(top, path)


def read_bundle(path: Path, refuse: Refuse = lambda manifest, signature: None) -> list[Evidence]:
    """Evidence from a bundle (directory or archive), from a folder of bundles, or from a file of raw probe output.

    What `refuse` gives a reason for (raw probe output has neither manifest nor signature) keeps its node's name and
    loses everything else.
    """
    try:
        return _read(path, refuse)
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error}") from None


def bundle_paths(path: Path) -> list[Path]:
    """What `read_bundle` would read one piece of evidence from, each: the path itself, or what a folder of bundles holds."""
    try:
        return _paths(path)
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error}") from None


def _paths(path: Path) -> list[Path]:
    if not path.is_dir() or (path / MANIFEST).is_file():
        return [path]
    found = [item for item in sorted(path.iterdir()) if item.is_file() or _folder(item)]  # none is passed over
    if not found:
        raise InputError(str(path), "holds no evidence", f"a bundle with {MANIFEST}, or a folder of bundles")
    return [one for item in found for one in _paths(item)]


def _read(path: Path, refuse: Refuse) -> list[Evidence]:
    if path.is_dir():
        if (path / MANIFEST).is_file():
            return [_believed(_directory(path), str(path), refuse)]
        return [evidence for item in _paths(path) for evidence in _read(item, refuse)]
    if not path.is_file():
        raise InputError(str(path), "there is no such file", "a bundle, a folder of bundles, or probe output")
    if path.stat().st_size > MAX_BYTES:
        raise InputError(str(path), f"is {path.stat().st_size} bytes", f"at most {MAX_BYTES}")
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        return [_believed(_archive(data, str(path)), str(path), refuse)]
    return [parse_stream(data).refused(refuse(None, None))]


def _believed(files: Mapping[str, bytes], where: str, refuse: Refuse) -> Evidence:
    evidence = _evidence(files, where)
    return evidence.refused(refuse(files[MANIFEST], files.get(SIGNATURE)))


def _folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _files(evidence: Evidence) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for section in evidence.sections.values():
        files[f"sections/{section.name}.out"] = section.stdout
        files[f"sections/{section.name}.err"] = section.stderr
    manifest = {
        "schema": SCHEMA,
        "node": evidence.node,
        "probe_version": evidence.probe_version,
        "nonce": evidence.nonce,
        "started": evidence.started,
        "seconds": evidence.seconds,
        "problem": evidence.problem,
        "stream_sha256": evidence.sha256,
        "redacted": evidence.redacted,
        "sections": {
            s.name: {"status": s.status.value, "rc": s.rc, "seconds": s.seconds, "deadline_s": s.deadline_s}
            for s in evidence.sections.values()
        },
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
    }
    return {MANIFEST: json.dumps(manifest, indent=1, sort_keys=True).encode() + b"\n", **files}


def _directory(path: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for file in (path / MANIFEST, path / SIGNATURE, *sorted((path / "sections").glob("*"))):
        followed = file.is_symlink() or (file.parent != path and file.parent.is_symlink())
        if file.is_file() and not followed and file.stat().st_size <= MAX_BYTES:
            files[str(file.relative_to(path))] = file.read_bytes()
    return files


def _archive(data: bytes, where: str) -> dict[str, bytes]:
    """Members by name, in memory; only regular files with the names a bundle has, up to a size in all.

    Unpacked whole before tarfile sees it, so that no header can make it read or allocate more than there is.
    """
    files: dict[str, bytes] = {}
    total = 0
    try:
        plain = gzip.GzipFile(fileobj=io.BytesIO(data)).read(MAX_BYTES + 1)
        if len(plain) > MAX_BYTES:
            raise tarfile.TarError(f"unpacks to more than {MAX_BYTES} bytes")
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
            for member in archive:
                total += member.size
                if member.size < 0 or total > MAX_BYTES:
                    raise tarfile.TarError(f"member {member.name!r} says it has {member.size} bytes")
                content = archive.extractfile(member) if member.isreg() else None
                if content is not None and (member.name in (MANIFEST, SIGNATURE) or _NAME.fullmatch(member.name)):
                    files[member.name] = content.read()
    except Exception as error:  # zlib, tarfile and what hostile headers make of them
        raise InputError(where, f"is not a readable archive: {error}", "a .tar.gz that rackproof wrote") from None
    return files


def _evidence(files: Mapping[str, bytes], where: str) -> Evidence:
    try:
        manifest: Any = json.loads(files[MANIFEST])
        manifest = _current(manifest, where)
        hashes = {str(name): str(value) for name, value in manifest["files"].items()}
        spoiled = sorted(
            name for name, value in hashes.items() if hashlib.sha256(files.get(name, b"\0missing")).hexdigest() != value
        )
        sections = {
            str(name): _section(str(name), fields, files)
            for name, fields in manifest["sections"].items()
            if hashes[f"sections/{name}.out"] and hashes[f"sections/{name}.err"]  # a file nobody vouches for: KeyError
            and f"sections/{name}.out" not in spoiled and f"sections/{name}.err" not in spoiled
        }
        problem = manifest["problem"]
        if spoiled:
            problem = f"the bundle was changed after it was written: {', '.join(spoiled[:3])}"
        return Evidence(
            node=str(manifest["node"]),
            sections=sections,
            probe_version=str(manifest["probe_version"]),
            nonce=str(manifest["nonce"]),
            started=str(manifest["started"]),
            seconds=float(manifest["seconds"]),
            problem=None if problem is None else str(problem),
            sha256=str(manifest["stream_sha256"]),
            redacted=manifest["redacted"] is True,
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(
            where, f"is not an evidence bundle: {type(error).__name__} {error}", "a bundle rackproof wrote"
        ) from None


def _current(manifest: Any, where: str) -> Any:
    """A manifest of any schema there has been, as one of the current schema."""
    if manifest["schema"] == 1:
        manifest = {**manifest, "schema": 2, "redacted": False}
    if manifest["schema"] != SCHEMA:
        raise InputError(where, f"has bundle schema {manifest['schema']}", f"1 to {SCHEMA}; a newer rackproof wrote it")
    return manifest


def _section(name: str, fields: Any, files: Mapping[str, bytes]) -> Section:
    rc = fields["rc"]
    return Section(
        name=name,
        status=Status(fields["status"]),
        rc=None if rc is None else int(rc),
        seconds=float(fields["seconds"]),
        stdout=files[f"sections/{name}.out"],
        stderr=files[f"sections/{name}.err"],
        deadline_s=int(fields["deadline_s"]),
    )
