"""Managed files and package names: what a deploy writes is what the baseline says, and nothing else."""

from __future__ import annotations

import hashlib

import pytest
from core_builders import Rack, baseline

from rackproof import site as sites
from rackproof import yamlfile
from rackproof.baseline import resolve
from rackproof.errors import InputError
from rackproof.managed import (
    APT_SOURCE,
    DNF_SOURCE,
    FABRIC_MODULES,
    IMEX_NODES,
    KEYRING,
    MODPROBE,
    PATHS,
    PERSISTENCED,
    PREFERENCES,
    RPM_KEY,
    STAMP,
    UPGRADES,
    File,
    managed_files,
)
from rackproof.package_names import FILE, PackageNames, foreign, locked, platform_of, platforms

DOMAIN = ("10.0.0.2", "10.0.0.1")


def test_a_baseline_nobody_deploys_manages_nothing() -> None:
    assert managed_files(baseline("gb300")) == ()


def test_files_of_a_tray(site_folder: Rack) -> None:
    files = {file.path: file for file in managed_files(resolve(site_folder.site("gb300"), domain=DOMAIN))}
    # Keys are fetched, not rendered; the others are of other managers, origins and fabrics.
    assert set(files) == {APT_SOURCE, UPGRADES, MODPROBE, PERSISTENCED, IMEX_NODES} and set(files) < set(PATHS)
    assert files[IMEX_NODES].content == "10.0.0.2\n10.0.0.1\n"
    assert "options nvidia NVreg_CreateImexChannel0=1\n" in files["/etc/modprobe.d/rackproof-nvidia.conf"].content
    assert "blacklist nouveau\n" in files["/etc/modprobe.d/rackproof-nvidia.conf"].content
    source = files["/etc/apt/sources.list.d/rackproof-nvidia.sources"].content
    assert "URIs: https://mirror.example/repo/\n" in source and f"Signed-By: {KEYRING}\n" in source
    assert STAMP not in PATHS  # it holds the time, so its hash says nothing
    for file in files.values():
        assert file.content.endswith("\n") and file.content.isascii()
        assert ("Managed by rackproof" in file.content) == (file.path != IMEX_NODES)
        assert file.sha256 == hashlib.sha256(file.content.encode()).hexdigest()


def test_the_node_list_is_for_fabrics_that_span_nodes(site_folder: Rack) -> None:
    assert IMEX_NODES not in {file.path for file in managed_files(resolve(site_folder.site("gb300")))}
    packages = f"packages: {{repository: 'https://x/', key_url: 'https://x/k', key_fingerprint: {'A' * 40}}}\n"
    site_folder.group("b300", "hardware: b300\n" + packages)
    files = {file.path for file in managed_files(resolve(site_folder.site("b300"), domain=("10.0.0.1",)))}
    assert IMEX_NODES not in files and FABRIC_MODULES in files and len(files) == 5


def test_equal_baselines_render_equal_files(site_folder: Rack) -> None:
    first, second = (managed_files(resolve(site_folder.site("gb300"), domain=DOMAIN, domain_source=s)) for s in "ab")
    assert first == second


def test_hash_of_text_is_of_its_utf8_bytes() -> None:
    assert File("host", "/x", "ä\n").sha256 == hashlib.sha256(b"\xc3\xa4\n").hexdigest()


def test_package_names() -> None:
    names, source = PackageNames.of("580.126.20", "nvl72", "blackwell", "here")
    assert source.startswith("layers/packages.yaml:")
    assert names.pin == "nvidia-driver-pinning-580.126.20"
    assert names.driver[0] == "nvidia-open-580" and not any("{" in name for name in names.driver)
    assert (names.fabric, names.fabric_unversioned) == (("nvidia-imex",), ())
    hgx, _ = PackageNames.of("580.126.20", "hgx", "blackwell", "here")
    hopper, _ = PackageNames.of("580.126.20", "hgx", "hopper", "here")
    assert "nvlsm" in hgx.fabric_unversioned and hopper.fabric_unversioned == ()
    assert hgx.fabric[0] == "nvidia-fabricmanager" and "nvlsm" in hgx.fabric_unversioned
    assert len(names.toolkit) == 4
    with pytest.raises(InputError, match=r"all.yaml:1: no package names are known for driver branch 570\n  accepted: branches"):
        PackageNames.of("570.1", "hgx", "hopper", "all.yaml:1")


URL = "https://developer.download.nvidia.com/compute/cuda/repos"


def test_the_data_names_only_sources_it_has() -> None:
    """Every entry resolves for every branch, kind and generation it could be asked for."""
    data = yamlfile.load(FILE).data
    for item in data["origins"].values():
        for name, described in data["platforms"].items():
            if described["family"] != item["family"]:
                continue
            platform = platform_of(f"{URL}/{name}/x86_64/", None, "x86_64", "here")
            for branch in item["branches"]["value"]:
                for kind, generation in (("nvl72", "blackwell"), ("hgx", "hopper")):
                    names, source = PackageNames.of(f"{branch}.1.2", kind, generation, "here", platform, item["origin"])
                    assert source.startswith("layers/packages.yaml:") and names.driver and names.fabric
                    every = (*names.driver, *names.fabric, *names.fabric_unversioned, names.pin, names.kernel)
                    assert not any("{" in name or "|" in name for name in every)


@pytest.mark.parametrize(
    ("repository", "named", "architecture", "family", "manager"),
    [
        (f"{URL}/ubuntu2404/sbsa/", None, "aarch64", "ubuntu", "apt"),
        (f"{URL}/ubuntu2204/x86_64", None, "x86_64", "ubuntu", "apt"),
        (f"{URL}/debian13/x86_64/", None, "x86_64", "debian", "apt"),
        (f"{URL}/rhel9/sbsa/", None, "aarch64", "el", "dnf"),
        (f"{URL}/rhel10/x86_64/", None, "x86_64", "el", "dnf"),
        ("https://mirror.example/cuda/", "rhel9", "x86_64", "el", "dnf"),
        ("https://mirror.example/cuda/", None, "aarch64", "ubuntu", "apt"),
    ],
)
def test_platforms(repository: str, named: str | None, architecture: str, family: str, manager: str) -> None:
    found = platform_of(repository, named, architecture, "here")
    assert (found.family, found.manager) == (family, manager)


@pytest.mark.parametrize(
    ("repository", "architecture", "message"),
    [
        (f"{URL}/ubuntu2404/arm64/", "aarch64", "packages.repository is for arm64\n  accepted: sbsa"),
        (f"{URL}/ubuntu2404/x86_64/", "aarch64", "packages.repository is for x86_64\n  accepted: sbsa"),
        (f"{URL}/debian13/sbsa/", "aarch64", "NVIDIA has no repository of debian13 for aarch64\n  accepted: ubuntu2204"),
        (f"{URL}/ubuntu1804/x86_64/", "x86_64", "packages for ubuntu1804 are not known\n  accepted: ubuntu2204"),
    ],
)
def test_a_repository_for_something_else_is_refused(repository: str, architecture: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        platform_of(repository, None, architecture, "gb300.yaml:7")
    assert str(caught.value).startswith(f"gb300.yaml:7: {message}")


def test_a_rocky_host_takes_what_is_made_for_rhel() -> None:
    rhel9 = platform_of(f"{URL}/rhel9/x86_64/", None, "x86_64", "here")
    assert rhel9.is_of("rocky", "9.6") and rhel9.is_of("rhel", "9") and not rhel9.is_of("rocky", "10.0")
    assert not rhel9.is_of("ubuntu", "9")
    assert set(platforms()) == {"ubuntu2204", "ubuntu2404", "debian12", "debian13", "rhel9", "rhel10"}


def _names(version: str, platform: str, kind: str = "nvl72", generation: str = "blackwell", origin: str = "nvidia") -> PackageNames:
    return PackageNames.of(version, kind, generation, "here", platform_of("", platform, "x86_64", "here"), origin)[0]


def test_names_by_family_and_branch() -> None:
    assert _names("610.43.02", "ubuntu2404").driver[:3] == ("nvidia-open", "nvidia-driver-open", "nvidia-dkms-open")
    debian = _names("580.126.20", "debian12")
    assert debian.any_of("nvidia-kernel-open-dkms") == ("nvidia-kernel-open-dkms", "nvidia-dkms-580-open")
    assert debian.installed({"nvidia-dkms-580-open": "1"}, "nvidia-kernel-open-dkms") == "nvidia-dkms-580-open"
    assert debian.installed({}, "nvidia-kernel-open-dkms") == "nvidia-kernel-open-dkms"
    el9, el10 = (_names("580.126.20", name) for name in ("rhel9", "rhel10"))
    assert (el9.stream, el10.stream, el9.pin) == ("nvidia-driver:580-open", "", "")
    assert "kmod-nvidia-open-dkms" in el9.driver and el9.fabric == ("nvidia-imex",)


def test_ubuntus_own_archive() -> None:
    names = _names("580.126.20", "ubuntu2404", "hgx", "hopper", "ubuntu")
    assert names.kernel == "linux-modules-nvidia-580-server-open" and not names.pin
    assert names.fabric == ("nvidia-fabricmanager-580", "libnvidia-nscq-580")
    with pytest.raises(InputError, match="has no nvlsm"):
        _names("580.126.20", "ubuntu2404", "hgx", "blackwell", "ubuntu")
    with pytest.raises(InputError, match="there is no origin ubuntu for debian12"):
        _names("580.126.20", "debian12", origin="ubuntu")


def test_where_installed_packages_come_from() -> None:
    there = {
        "nvidia-utils-580": "580.126.20-1ubuntu1", "libnvidia-compute-580": "580.126.20-1", "nvidia-imex": "580.126.20-1",
        "nvidia-container-toolkit": "1.19.1-0ubuntu1", "docker.io": "28.2.2-0ubuntu1",
        "nvidia-cuda-toolkit": "12.0.140~12.0.1-0ubuntu1", "nvidia-driver-cuda": "3:580.126.20-1.el9",
    }  # fmt: skip
    assert foreign(there, "nvidia") == {}
    there |= {"nvidia-fabricmanager-580": "580.126.20-0ubuntu0.24.04.1", "nvidia-smi": "535.183.01-1~deb12u1"}
    assert foreign(there, "nvidia") == {"nvidia-fabricmanager-580": "ubuntu", "nvidia-smi": "debian"}
    assert "nvidia-fabricmanager-580" not in foreign(there, "ubuntu") and "nvidia-imex" in foreign(there, "ubuntu")


def test_versionlocks() -> None:
    locks = ("nvidia-imex-0:580.126.20-1.*", "nvidia-driver-cuda-3:580.126.20-1.el9.*", "nvidia-modprobe-580.95.05-1.el9.*")
    assert locked(locks, "nvidia-imex", "580.126.20") and locked(locks, "nvidia-driver-cuda", "580.126.20")
    assert not locked(locks, "nvidia-modprobe", "580.126.20") and not locked(locks, "nvidia-driver", "580.126.20")
    assert not locked(locks, "nvidia-imex", "580.126.2")


def _site(folder: Rack, **packages: str) -> sites.Site:
    values = {"repository": f"{URL}/rhel9/x86_64/", "key_url": "https://x/k", "key_fingerprint": "A" * 40, **packages}
    return folder.site("b300").overlaid({"packages": values}, "over")


def test_files_of_a_dnf_host(site_folder: Rack) -> None:
    files = {file.path: file for file in managed_files(resolve(_site(site_folder)))}
    assert DNF_SOURCE in files and UPGRADES not in files
    text = files[DNF_SOURCE].content
    assert f"baseurl={URL}/rhel9/x86_64/\n" in text and "gpgcheck=1\n" in text and f"gpgkey=file://{RPM_KEY}\n" in text
    assert files[FABRIC_MODULES].content.endswith("\nmlx5_ib\nib_umad\n")


def test_the_archive_is_pinned_by_a_file(site_folder: Rack) -> None:
    site_folder.group("h200", "hardware: h200\nlayout: h200-tp8pp2\nallow_derived: true\n")
    values = {"repository": f"{URL}/ubuntu2404/x86_64/", "key_url": "https://x/k", "key_fingerprint": "A" * 40, "origin": "ubuntu"}
    baseline_ = resolve(site_folder.site("h200").overlaid({"packages": values}, "over"))
    files = {file.path: file for file in managed_files(baseline_)}
    assert "Pin: version *580.126.20-*\nPin-Priority: 1000\n" in files[PREFERENCES].content
    assert "nvidia-driver-580-server-open" in files[PREFERENCES].content and FABRIC_MODULES not in files


@pytest.mark.parametrize("bad", ["https://x/ y", "https://user:secret@x/", "https://x/'; rm -rf /", "x"])
def test_an_address_that_could_be_more_than_one_is_refused(site_folder: Rack, bad: str) -> None:
    with pytest.raises(InputError, match=r"packages\.repository"):
        _site(site_folder, repository=bad)
