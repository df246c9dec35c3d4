"""Signed bundles: only what an allowed signer signed, as it was signed, for this question, is believed."""

from __future__ import annotations

import json
import subprocess
import tarfile
from functools import partial
from pathlib import Path

import pytest
from core_builders import NONCE, evidence, stream

from rackproof.cli import main
from rackproof.errors import InputError, RackproofError
from rackproof.evidence.bundle import MANIFEST, SIGNATURE, read_bundle, write_bundle
from rackproof.evidence.evidence import Evidence
from rackproof.evidence.signature import message, refusal, sign

GOOD = evidence(uname=b"Linux\n")


class Keys:
    """Two key pairs and a file of allowed signers that knows one of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("ours", "foreign"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        self.ours, self.foreign, self.signers = folder / "ours", folder / "foreign", folder / "allowed"
        self.signers.write_text(f"provider@example {(folder / 'ours.pub').read_text()}")

    def written(self, name: str, item: Evidence = GOOD, key: Path | None = None) -> Path:
        path = self.folder / name
        write_bundle(path, item, partial(sign, key or self.ours))
        return path

    def read(self, path: Path) -> Evidence:
        (found,) = read_bundle(path, partial(refusal, self.signers))
        return found


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


@pytest.mark.parametrize("name", ["good", "good.tar.gz"])
def test_a_signed_bundle_is_believed(keys: Keys, name: str) -> None:
    assert keys.read(keys.written(name)) == GOOD
    assert read_bundle(keys.folder / name) == [GOOD]  # who asks for no signature ignores it


def test_what_is_not_signed_is_not_believed(keys: Keys, tmp_path: Path) -> None:
    write_bundle(tmp_path / "plain", GOOD)
    (tmp_path / "raw.txt").write_bytes(stream(("uname", "Linux\n")))
    for name in ("plain", "raw.txt"):
        found = keys.read(tmp_path / name)
        assert (found.node, dict(found.sections)) == ("tray01", {})
        assert found.problem == "the evidence is not signed, and a signature is required"


def test_a_foreign_signature(keys: Keys) -> None:
    found = keys.read(keys.written("by-another", key=keys.foreign))
    assert not found.sections
    assert found.problem == f"the evidence is not signed by any signer in {keys.signers}"


def test_a_signature_for_another_purpose(keys: Keys) -> None:
    path = keys.folder / "other-purpose"

    def signed_as_file(manifest: bytes) -> bytes:
        command = ["ssh-keygen", "-Y", "sign", "-f", str(keys.ours), "-n", "file"]
        return subprocess.run(command, input=message(manifest), capture_output=True, check=True).stdout

    write_bundle(path, GOOD, signed_as_file)
    problem = keys.read(path).problem
    assert problem is not None and "does not fit it" in problem


def test_a_changed_manifest(keys: Keys) -> None:
    path = keys.written("changed")
    manifest = json.loads((path / MANIFEST).read_bytes())
    manifest["node"] = "tray02"
    (path / MANIFEST).write_text(json.dumps(manifest))
    found = keys.read(path)
    assert not found.sections
    assert found.problem is not None and "does not fit it" in found.problem


def test_a_changed_section(keys: Keys) -> None:
    path = keys.written("edited")
    (path / "sections" / "uname.out").write_bytes(b"Linus\n")
    found = keys.read(path)
    assert (found.problem, dict(found.sections)) == (
        "the bundle was changed after it was written: sections/uname.out", {},
    )  # fmt: skip


def test_a_signature_taken_from_another_bundle(keys: Keys) -> None:
    one, other = keys.written("one"), keys.written("other", evidence(uname=b"Darwin\n"))
    (other / SIGNATURE).write_bytes((one / SIGNATURE).read_bytes())
    assert not keys.read(other).sections


@pytest.mark.parametrize("data", [b"", b"-----BEGIN SSH SIGNATURE-----\n", b"\0" * 100, b"x" * 100_000])
def test_a_signature_that_is_none(keys: Keys, tmp_path: Path, data: bytes) -> None:
    write_bundle(tmp_path / "b", GOOD, lambda manifest: data)
    found = keys.read(tmp_path / "b")
    assert not found.sections and found.problem is not None


def test_a_signer_no_longer_valid(keys: Keys, tmp_path: Path) -> None:
    late = tmp_path / "allowed"
    late.write_text(f'provider@example valid-before="20200101" {(keys.folder / "ours.pub").read_text()}')
    (found,) = read_bundle(keys.written("late"), partial(refusal, late))
    assert not found.sections and found.problem is not None


def test_keys_that_are_not_there(keys: Keys, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such key file"):
        sign(tmp_path / "none", b"x")
    with pytest.raises(InputError, match="there is no such file"):
        refusal(tmp_path / "none", b"x", b"x")
    (tmp_path / "bad").write_text("not a key")
    with pytest.raises(RackproofError, match="could not be signed"):
        sign(tmp_path / "bad", b"x")


def _judged(keys: Keys, *arguments: str) -> tuple[int, dict[str, object]]:
    report = keys.folder / "report.json"
    code = main(["judge", *arguments, "--json", str(report), "-q"])
    return code, json.loads(report.read_text()) if report.exists() else {}


def test_a_replayed_bundle_is_unknown(keys: Keys, capsys: pytest.CaptureFixture[str]) -> None:
    """Signed, whole, and the answer to another request."""
    path = keys.written("replayed.tar.gz")
    asked = ["--allowed-signers", str(keys.signers), "--nonce"]
    code, report = _judged(keys, str(path), *asked, "nonce-of-today")
    assert code == 2
    text = json.dumps(report)
    assert f"the evidence carries nonce {NONCE}, asked was nonce-of-today" in text
    assert '"status": "pass"' not in text
    code, report = _judged(keys, str(path), *asked, NONCE)
    assert "asked was" not in json.dumps(report)
    capsys.readouterr()
    assert main(["judge", str(path), "--allowed-signers", str(keys.signers)]) == 3
    assert "give the --nonce" in capsys.readouterr().err


def test_unsigned_is_unknown_on_the_command_line(keys: Keys, tmp_path: Path) -> None:
    write_bundle(tmp_path / "plain.tar.gz", GOOD)
    arguments = ["--allowed-signers", str(keys.signers), "--nonce", NONCE]
    code, report = _judged(keys, str(tmp_path / "plain.tar.gz"), *arguments)
    assert code == 2
    assert "not signed, and a signature is required" in json.dumps(report)


def test_the_signature_is_in_the_archive(keys: Keys) -> None:
    with tarfile.open(keys.written("archive.tar.gz")) as archive:
        assert archive.getnames()[-1] == SIGNATURE
