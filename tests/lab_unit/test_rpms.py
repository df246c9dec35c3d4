"""The stand-in rpms: names and relations that decide how a deploy by dnf goes."""

from __future__ import annotations

import pytest

from rackproof.package_names import FILE
from rackproof.yamlfile import load

rpms = pytest.importorskip("rackproof_lab.rpms")
RPMS = rpms.nvidia()


def test_there_is_every_package_that_a_deploy_on_this_family_asks_for() -> None:
    origin = load(FILE).data["origins"]["cuda-el"]
    for version in ("580.95.05", "580.126.20", "610.43.02"):
        names = {rpm.name for rpm in RPMS if rpm.version == version}
        assert {*origin["driver"]["value"], *origin["hgx"]["value"], *origin["nvl72"]["value"]} <= names
    assert "nvlsm" in {rpm.name for rpm in RPMS}


def test_every_file_name_is_used_once() -> None:
    names = [rpm.filename for rpm in RPMS]
    assert len(names) == len(set(names))


def test_libraries_and_modules_are_where_this_family_has_them() -> None:
    texts = [path for rpm in RPMS for path in rpm.files] + [rpm.post for rpm in RPMS]
    assert any("/usr/lib64/libcuda.so.1" in text for text in texts) and any("/extra" in text for text in texts)
    assert not any(word in text for text in texts for word in ("x86_64-linux-gnu", "updates/dkms", "update-initramfs"))


def test_a_stream_lists_the_driver_and_leaves_the_fabric_out() -> None:
    text = rpms.streams(RPMS)
    assert text.count("stream: 580-open") == 1 and text.count("stream: 610-open") == 1
    assert "kmod-nvidia-open-dkms-3:580.126.20-1.el9.x86_64" in text and "fabricmanager" not in text


def test_a_spec_packs_what_it_lists() -> None:
    (smi,) = [rpm for rpm in RPMS if rpm.name == "nvidia-driver-cuda" and rpm.version == "580.126.20"]
    spec = smi.spec()
    assert "Epoch: 3\n" in spec and spec.endswith("%files\n/usr/bin/nvidia-smi\n")
    assert "Requires: nvidia-driver-cuda-libs = 3:580.126.20\n" in spec
