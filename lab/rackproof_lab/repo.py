"""Builds and signs the lab's apt repositories: NVIDIA's (flat, as NVIDIA's is), AMD's and a subset of Debian.

The key is made for one lab and thrown away with it. Packages are the same for every lab and are cached.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from rackproof_lab import packages, packages_amd, scripts
from rackproof_lab.base import Say
from rackproof_lab.names import cache_dir
from rackproof_lab.packages import Deb
from rackproof_lab.proc import put, run

MAINTAINER = "rackproof lab <lab@localhost>"
AMD, AMD_KEY = "repo.radeon.com", "rocm/rocm.gpg.key"


def content_key() -> str:
    """Changes whenever a package would come out different."""
    digest = hashlib.sha256()
    for module in (packages, packages_amd, scripts):
        digest.update(Path(str(module.__file__)).read_bytes())
    digest.update(Path(__file__).read_bytes())
    return digest.hexdigest()[:12]


def build(say: Say) -> dict[str, Path]:
    """All packages by file name, built if the cache has none. Call with the cache locked."""
    pool = cache_dir() / f"debs-{content_key()}"
    if not pool.exists():
        debs = [*packages.everything(), *packages_amd.everything()]
        say(f"apt repository: building {len(debs)} stand-in packages")
        work = cache_dir() / f".tmp-{pool.name}"
        work.mkdir()
        for deb in debs:
            _build(deb, work)
        shutil.rmtree(work / "tree", ignore_errors=True)
        work.rename(pool)
    return {path.name: path for path in sorted(pool.glob("*.deb"))}


def lay_out(files: Mapping[str, str], tree: Path) -> None:
    """Write a package's files below a folder; a text of "-> TARGET" is a link, one that begins with "#!" a program."""
    for path, text in files.items():
        target = tree / path[1:]
        if text.startswith("-> "):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(text[3:])
        else:
            put(target, text, 0o755 if text.startswith("#!") else 0o644)


def _build(deb: Deb, out: Path) -> None:
    tree = out / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    lay_out(deb.files, tree)
    fields = {
        "Package": deb.name, "Version": deb.version, "Architecture": "amd64", "Maintainer": MAINTAINER,
        "Section": "non-free", "Priority": "optional", **deb.relations,
        "Description": f"{deb.description} for {deb.name}\n Part of rackproof's test lab; holds nothing of GPU makers.",
    }  # fmt: skip
    put(tree / "DEBIAN/control", "".join(f"{key}: {value}\n" for key, value in fields.items()))
    put(tree / "DEBIAN/postinst", scripts.postinst(deb.postinst, deb.units, deb.enable), 0o755)
    put(tree / "DEBIAN/prerm", scripts.prerm(deb.prerm, deb.units), 0o755)
    if deb.units:
        put(tree / "DEBIAN/postrm", scripts.postrm(), 0o755)
    if deb.conffiles:
        put(tree / "DEBIAN/conffiles", "".join(f"{path}\n" for path in deb.conffiles))
    run("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "-b", tree, out / deb.filename)


class Signer:
    """A throw-away OpenPGP key in a folder of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.env = {"GNUPGHOME": str(home)}
        self.gpg = ["gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""]
        if not (home / "pubring.kbx").exists():
            home.mkdir(parents=True, mode=0o700, exist_ok=True)
            home.chmod(0o700)
            run(
                *self.gpg,
                "--quick-gen-key",
                f"rackproof lab throw-away key <{os.urandom(4).hex()}@lab>",
                "ed25519",
                "sign",
                "never",
                env=self.env,
            )

    def fingerprint(self) -> str:
        listing = run(*self.gpg, "--with-colons", "--list-keys", env=self.env)
        return next(line.split(":")[9] for line in listing.splitlines() if line.startswith("fpr:"))

    def public(self) -> str:
        return run(*self.gpg, "--armor", "--export", env=self.env)

    def sign(self, release: Path) -> None:
        inline, detached = release.with_name("InRelease"), release.with_name("Release.gpg")
        run(*self.gpg, "--yes", "--clearsign", "-o", inline, release, env=self.env)
        run(*self.gpg, "--yes", "--armor", "--detach-sign", "-o", detached, release, env=self.env)

    def close(self) -> None:
        """End the agent that gpg started; it would outlive the lab."""
        run("gpgconf", "--kill", "all", env=self.env)


def publish(debs: list[Path], folder: Path, signer: Signer, label: str, suite: str) -> None:
    """A signed flat repository of some packages (`deb URL /`)."""
    _place(debs, folder)
    (folder / "Packages").write_text(run("apt-ftparchive", "packages", ".", cwd=folder))
    _release(folder, signer, label, suite)


def publish_suite(debs: list[Path], folder: Path, signer: Signer, label: str, suite: str) -> None:
    """A signed repository with one suite and component (`deb URL SUITE main`), as AMD's are."""
    _place(debs, folder / "pool/main")
    listing = run("apt-ftparchive", "packages", "pool/main", cwd=folder)
    put(folder / "dists" / suite / "main/binary-amd64/Packages", listing)
    _release(folder / "dists" / suite, signer, label, suite, "main")


def _place(debs: list[Path], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for deb in debs:
        target = folder / deb.name
        if not target.exists():
            try:
                os.link(deb, target)
            except OSError:
                shutil.copy(deb, target)


def _release(folder: Path, signer: Signer, label: str, suite: str, components: str = "") -> None:
    options = {"Origin": label.split()[0], "Label": label, "Suite": suite, "Codename": suite, "Architectures": "amd64",
               "Components": components, "Description": "rackproof lab stand-in"}  # fmt: skip
    given = {key: value for key, value in options.items() if value}
    words = [word for key, value in given.items() for word in ("-o", f"APT::FTPArchive::Release::{key}={value}")]
    (folder / "Release.new").unlink(missing_ok=True)
    for stale in ("Release", "InRelease", "Release.gpg"):
        (folder / stale).unlink(missing_ok=True)
    put(folder / "Release", run("apt-ftparchive", *words, "release", ".", cwd=folder))
    signer.sign(folder / "Release")


def publish_all(www: Path, home: Path, debs: dict[str, Path], debian: Path, suite: str) -> dict[str, str]:
    """Every repository of a lab under `www`/<host name>; returns the apt part of lab.json."""
    signer = Signer(home)
    base = "developer.download.nvidia.com/compute/cuda/repos/debian13/x86_64"
    name = f"{signer.fingerprint()[-8:]}.pub"
    others = {deb.filename for deb in packages_amd.everything()}
    publish([path for key, path in debs.items() if key not in others], www / base, signer, "NVIDIA CUDA", "debian13")
    toolkit = [path for key, path in debs.items() if "container" in key and key not in others]
    github = "nvidia.github.io/libnvidia-container"
    publish(toolkit, www / github / "stable/deb/amd64", signer, "NVIDIA container toolkit", "stable")
    publish(sorted(debian.glob("*.deb")), www / "debian.lab/debian", signer, "Debian (lab subset)", suite)
    for folder, listed in packages_amd.repositories().items():
        paths = [debs[deb.filename] for deb in listed]
        publish_suite(paths, www / AMD / folder, signer, AMD, packages_amd.SUITE)
    for target in (www / base / name, www / github / "gpgkey", www / "debian.lab/key.asc", www / AMD / AMD_KEY):
        put(target, signer.public())
    described = {
        "url": f"https://{base}", "key_url": f"https://{base}/{name}", "key_fingerprint": signer.fingerprint(),
        "toolkit_url": f"https://{github}/stable/deb/amd64", "toolkit_key_url": f"https://{github}/gpgkey",
        "amd_key_url": f"https://{AMD}/{AMD_KEY}",
    }  # fmt: skip
    signer.close()
    return described
