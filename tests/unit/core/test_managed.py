"""Managed files and package names: what a deploy writes is what the baseline says, and nothing else."""

from __future__ import annotations

import hashlib

import pytest
from core_builders import Rack, baseline

from rackproof.baseline import resolve
from rackproof.errors import InputError
from rackproof.managed import (
    IMEX_NODES,
    KEYRING,
    PATHS,
    SERVING_ENVIRONMENT,
    SERVING_UNIT,
    STAMP,
    File,
    managed_files,
)
from rackproof.package_names import PackageNames

DOMAIN = ("10.0.0.2", "10.0.0.1")


def test_a_baseline_nobody_deploys_manages_nothing() -> None:
    assert managed_files(baseline("gb300")) == ()


def test_files_of_a_tray(site_folder: Rack) -> None:
    files = {file.path: file for file in managed_files(resolve(site_folder.site("gb300"), domain=DOMAIN))}
    # the key is fetched, not rendered, and this site installs no unit
    assert set(files) == set(PATHS) - {KEYRING, SERVING_UNIT, SERVING_ENVIRONMENT}
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
    assert IMEX_NODES not in files and len(files) == 4


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
