"""Index and manifests that an import left beside the images, in /etc/rackproof/image, as base64: every byte counts.

A file's name says nothing; its digest is computed here. Format of both: github.com/opencontainers/image-spec.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Mapping

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command, Root
from rackproof.evidence.tools.group import read_group, script
from rackproof.facts import Fact, Missing
from rackproof.facts_image import ImageChain

FOLDER = "/etc/rackproof/image"
MAX_FILES = 16
MAX_BYTES = 256 * 1024

_SCRIPT = rf"""
n=0
for f in {FOLDER}/*; do
  [ $n -lt {MAX_FILES} ] || break
  n=$((n + 1))
  if [ -r "$f" ] && [ -f "$f" ]; then
    printf '%s\n' "= $f"; head -c {MAX_BYTES} "$f" | base64 | sed 's/^/|/'
  elif [ -e "$f" ]; then printf '%s\n' "! $f"
  else gone "$f"; fi
done
"""

COMMANDS = (Command("image_chain", script(_SCRIPT), "base64", Root.HELPS),)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def chains(evidence: Evidence) -> Fact[tuple[ImageChain, ...]]:
    """Every manifest there, with the indexes there that list it; () where no import left any."""
    group = read_group(evidence, "image_chain", FOLDER)
    if isinstance(group, Missing):
        return group
    unread = next((entry for entry in group.entries.values() if isinstance(entry, Missing)), None)
    if unread is not None:
        return unread
    documents = _documents(text for text in group.entries.values() if isinstance(text, str))
    listed = {digest: _listed(document) for digest, document in documents.items()}
    return tuple(
        ImageChain(digest, tuple(sorted(index for index, names in listed.items() if digest in names)), config)
        for digest, document in documents.items()
        if (config := _config(document))
    )


def _documents(texts: Iterable[str]) -> dict[str, Mapping[str, object]]:
    """Digest of the bytes -> JSON object, of those that are one."""
    found: dict[str, Mapping[str, object]] = {}
    for text in texts:
        try:
            raw = base64.b64decode("".join(text.split()), validate=True)
            document = json.loads(raw)
        except (binascii.Error, ValueError, RecursionError):
            continue
        if isinstance(document, dict):
            found["sha256:" + hashlib.sha256(raw).hexdigest()] = document
    return found


def _listed(document: Mapping[str, object]) -> frozenset[str]:
    entries = document.get("manifests")
    digests = (entry.get("digest") for entry in entries if isinstance(entry, dict)) if isinstance(entries, list) else ()
    return frozenset(digest for digest in digests if isinstance(digest, str))


def _config(document: Mapping[str, object]) -> str | None:
    config = document.get("config")
    digest = config.get("digest") if isinstance(config, dict) else None
    return digest if isinstance(digest, str) and _DIGEST.fullmatch(digest) else None
