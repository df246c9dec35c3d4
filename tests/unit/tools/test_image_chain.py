"""What lies beside an imported image proves itself, or proves nothing."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest
from tool_evidence import INDEX, MANIFEST, evidence, image_chain, reason

from rackproof.evidence.tools import image_chain as tool
from rackproof.facts_image import ImageChain

CONFIG = "sha256:" + "c" * 64


def sha(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def read(*documents: bytes) -> object:
    return tool.chains(evidence(image_chain=image_chain(*documents)))


def test_from_index_to_configuration() -> None:
    assert read(INDEX, MANIFEST) == (ImageChain(sha(MANIFEST), (sha(INDEX),), CONFIG),)
    assert read(MANIFEST) == (ImageChain(sha(MANIFEST), (), CONFIG),)
    assert read() == ()


def test_a_changed_byte_breaks_the_chain() -> None:
    changed = MANIFEST.replace(b"c" * 64, b"b" * 64)
    assert read(INDEX, changed) == (ImageChain(sha(changed), (), "sha256:" + "b" * 64),)
    assert read(INDEX + b" ", MANIFEST) == (ImageChain(sha(MANIFEST), (sha(INDEX + b" "),), CONFIG),)


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{", b'{"config": 7}', b'{"config": {"digest": "c"}}', b'{"manifests": 1}', b"[" * 100000, b"\xff"],
)
def test_what_is_no_manifest_proves_nothing(data: bytes) -> None:
    assert read(data) == ()
    assert read(data, INDEX, MANIFEST) == (ImageChain(sha(MANIFEST), (sha(INDEX),), CONFIG),)


def test_what_could_not_be_read_is_not_nothing() -> None:
    assert "could not be read" in reason(tool.chains(evidence(image_chain="! /etc/rackproof/image/*\n.\n")))
    assert reason(tool.chains(evidence(image_chain="= /etc/rackproof/image/a\n|")))


def test_the_script_carries_every_byte(tmp_path: Path) -> None:
    for name, data in (("a", INDEX), ("b", MANIFEST), ("c", b"\r\n\x00 no newline at the end")):
        (tmp_path / name).write_bytes(data)
    script = tool.COMMANDS[0].script.replace(tool.FOLDER, str(tmp_path))
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert tool.chains(evidence(image_chain=done.stdout)) == (ImageChain(sha(MANIFEST), (sha(INDEX),), CONFIG),)
    empty = subprocess.run(
        ["sh", "-c", script.replace(str(tmp_path), f"{tmp_path}/no")], capture_output=True, text=True, check=True
    )
    assert tool.chains(evidence(image_chain=empty.stdout)) == ()
