"""Builds, signs and lays out the lab's rpm repositories: NVIDIA's, a subset of the distribution's, and Docker's.

Built by the real rpmbuild in a throw-away root, the same for every lab and cached; signed by the key of one lab,
package by package, as gpgcheck wants it.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from rackproof_lab import dnf_root, packages, rpms, rpms_host, scripts
from rackproof_lab.base import Base, Say
from rackproof_lab.names import LabError, cache_dir
from rackproof_lab.proc import put
from rackproof_lab.repo import Signer, lay_out
from rackproof_lab.rpms import Rpm

NVIDIA = "developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64"
ROCKY = "rocky.lab/9/x86_64"
DOCKER = "download.docker.com/linux/rhel/9/x86_64/stable"
FOLDERS = {"nvidia": NVIDIA, "rocky": ROCKY, "docker": DOCKER}

_BUILD = r"""
for spec in /work/specs/*.spec; do
  rpmbuild --quiet --nodeps \
    --define '_topdir /tmp/build' --define '_sourcedir /work/trees' --define '_rpmdir /work/rpms' \
    --define '_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm' --define '__os_install_post %{nil}' \
    --define 'debug_package %{nil}' --define '_build_id_links none' --define '_binary_payload w3.zstdio' \
    --target x86_64 -bb "$spec" >/tmp/log 2>&1 || { tail -n 20 /tmp/log >&2; exit 1; }
done
"""
# A key without a passphrase: nothing is asked.
_PUBLISH = """
export GNUPGHOME=/key
for folder in %s; do
  rpmsign --define '_gpg_name %s' --define '_openpgp_sign_id %s' --addsign /www/$folder/*.rpm >/tmp/log 2>&1 &&
    createrepo_c -q /www/$folder >/tmp/log 2>&1 || { tail -n 20 /tmp/log >&2; exit 1; }
done
modifyrepo_c --mdtype=modules /www/%s/modules.yaml /www/%s/repodata >/dev/null
"""


def content_key(base: Base, tools: Path) -> str:
    """Changes whenever a package would come out different."""
    digest = hashlib.sha256(f"{base.key} {tools.name}".encode())
    for module in (packages, scripts, rpms, rpms_host):
        digest.update(Path(str(module.__file__)).read_bytes())
    digest.update(Path(__file__).read_bytes())
    return digest.hexdigest()[:12]


def build(base: Base, tools: Path, say: Say) -> Path:
    """A folder of unsigned packages for each repository, built if the cache has none. Call with the cache locked."""
    pool = cache_dir() / f"rpms-{content_key(base, tools)}"
    if not pool.exists():
        found = {
            "nvidia": rpms.nvidia(), "rocky": [*rpms_host.system(), *rpms_host.spare(tools)],
            "docker": list(rpms_host.docker(base.tree)),
        }  # fmt: skip
        say(f"rpm repositories: building {sum(map(len, found.values()))} packages (once, about half a minute)")
        work = cache_dir() / f".tmp-{pool.name}"
        for name, listed in found.items():
            _build(base, tools, work / name, listed)
        put(work / "nvidia/rpms/modules.yaml", rpms.streams(found["nvidia"]))
        work.rename(pool)
    return pool


def _build(base: Base, tools: Path, work: Path, listed: list[Rpm]) -> None:
    for rpm in listed:
        put(work / f"specs/{rpm.filename}.spec", rpm.spec())
        _tree(rpm, work / "trees" / rpm.filename)
    done = dnf_root.run(base, tools, _BUILD, binds={work: "/work"})
    if done.returncode:
        raise LabError(f"rpmbuild failed: {done.stderr.strip()[-1000:]}")
    for folder in ("specs", "trees"):
        shutil.rmtree(work / folder)
    missing = [rpm.filename for rpm in listed if not (work / "rpms" / rpm.filename).exists()]
    if missing:
        raise LabError(f"rpmbuild made no {', '.join(missing)}")


def _tree(rpm: Rpm, tree: Path) -> None:
    tree.mkdir(parents=True)
    lay_out(rpm.files, tree)
    for path, source in rpm.copies.items():
        (tree / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, tree / path[1:], follow_symlinks=False)


def installed(pool: Path) -> list[Path]:
    """The packages that a host has before anybody deploys to it."""
    return [pool / "rocky/rpms" / rpm.filename for rpm in rpms_host.system()]


def publish_all(www: Path, home: Path, pool: Path, base: Base, tools: Path) -> dict[str, str]:
    """Every repository of a lab under `www`/<host name>, signed; returns the part of lab.json about packages."""
    signer = Signer(home)
    for name, folder in FOLDERS.items():
        shutil.copytree(pool / name / "rpms", www / folder, dirs_exist_ok=True)
    fingerprint = signer.fingerprint()
    words = (" ".join(FOLDERS.values()), fingerprint, fingerprint, NVIDIA, NVIDIA)
    done = dnf_root.run(base, tools, f"set -e{_PUBLISH % words}", binds={www: "/www", home: "/key"})
    if done.returncode:
        raise LabError(f"signing the rpm repositories failed: {done.stderr.strip()[-1000:]}")
    key = f"{fingerprint[-8:]}.pub"
    for target in (www / NVIDIA / key, www / ROCKY / "key.asc"):
        put(target, signer.public())
    signer.close()
    return {
        "url": f"https://{NVIDIA}", "key_url": f"https://{NVIDIA}/{key}", "key_fingerprint": fingerprint,
        "toolkit_url": f"https://{NVIDIA}", "toolkit_key_url": f"https://{NVIDIA}/{key}",
    }  # fmt: skip
