"""Signatures of bundles, by OpenSSH: whoever collects has an SSH key, and whoever judges knows which keys to believe.

What is signed is the sha256 of the manifest. The manifest holds the hash of every file, the node's name, the time and
the nonce, so nothing of a bundle can be changed or moved to another question. A signature does not say when it was
made: that an answer is no older one is for the nonce to prove. Source: ssh-keygen(1), ALLOWED SIGNERS.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rackproof.errors import InputError, RackproofError

NAMESPACE = "rackproof"
MAX_BYTES = 16 * 1024  # of a signature; an RSA-16384 one is below 6 KiB
_PATIENCE_S = 30  # nothing to ask anybody when verifying


def message(manifest: bytes) -> bytes:
    """What is signed for a manifest."""
    return f"rackproof bundle, manifest sha256 {hashlib.sha256(manifest).hexdigest()}\n".encode()


def sign(key: Path, manifest: bytes) -> bytes:
    """The signature by a private key file, or by an agent's key if `key` is a .pub file. May ask for a passphrase."""
    if not key.is_file():
        raise InputError(str(key), "there is no such key file", "a private key, or the .pub file of a key in an agent")
    done = _ssh_keygen(["sign", "-f", str(key), "-n", NAMESPACE], message(manifest), None)
    if done.returncode != 0 or not done.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        raise RackproofError(f"the evidence could not be signed with {key}: {_said(done)}")
    return done.stdout


def refusal(signers: Path, manifest: bytes | None, signature: bytes | None) -> str | None:
    """Why this evidence is not believed, or None where one of the allowed signers signed this very manifest."""
    if not signers.is_file():
        raise InputError(str(signers), "there is no such file", "a file of allowed signers as in ssh-keygen(1)")
    if manifest is None or signature is None:
        return "the evidence is not signed, and a signature is required"
    if len(signature) > MAX_BYTES:
        return "the signature of the evidence is no SSH signature"
    with tempfile.TemporaryDirectory(prefix="rackproof-") as folder:
        file = Path(folder) / "signature"
        file.write_bytes(signature)
        return _refusal(signers, file, manifest)


def _refusal(signers: Path, signature: Path, manifest: bytes) -> str | None:
    known = ["-f", str(signers), "-s", str(signature)]
    found = _ssh_keygen(["find-principals", *known], b"", _PATIENCE_S)
    principals = found.stdout.decode("utf-8", "replace").splitlines() if found.returncode == 0 else []
    if not principals:
        return f"the evidence is not signed by any signer in {signers}"
    for principal in principals:
        verified = _ssh_keygen(["verify", *known, "-n", NAMESPACE, "-I", principal], message(manifest), _PATIENCE_S)
        if verified.returncode == 0:
            return None
    return f"the signature of the evidence does not fit it (changed, or made for something else): {_said(verified)}"


def _ssh_keygen(words: Sequence[str], text: bytes, timeout_s: int | None) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["ssh-keygen", "-Y", *words], input=text, capture_output=True, timeout=timeout_s, check=False
        )
    except OSError as error:
        raise RackproofError(f"ssh-keygen cannot be run: {error.strerror or error} (OpenSSH 8.2 or newer)") from None
    except subprocess.TimeoutExpired:
        raise RackproofError(f"ssh-keygen did not end within {timeout_s} s") from None


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else f"ssh-keygen ended with {done.returncode}"
