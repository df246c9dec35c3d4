"""Whole deploys by dnf: HGX B300 servers that play Rocky 9, from bare to accepted, from an older baseline, from half-way states.

Userland and systemd are Debian's (lab/rackproof_lab/rocky.py); os-release, rpm database, repositories with gpgcheck and
module streams, versionlock, dracut, grubby, boot entries and places of files are those of Enterprise Linux.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_deploy_platforms import deploy

from conftest import BIN, LAB_ID, LONG_S, ROOT, Rack, all_accepted, rack_of, unchanged

pytestmark = [pytest.mark.lab, pytest.mark.long]

NODES = ("tray01", "tray02", "tray03")
OLDER, NOW = "580.95.05", "580.126.20"
DRIVER = ("kmod-nvidia-open-dkms", "nvidia-driver-cuda", "nvidia-driver-cuda-libs", "nvidia-modprobe", "nvidia-persistenced")
FABRIC = ("nvidia-fabricmanager", "libnvidia-nscq")
RPMS = "rpm -qa --qf '%{NAME} %{VERSION}\\n' | sort"
HOOKS = "/etc/rackproof-lab.d"


@pytest.fixture(scope="module")
def servers() -> Iterator[Rack]:
    """Three HGX B300 servers without a driver and without an engine."""
    with rack_of(f"{LAB_ID}-dnf", len(NODES), "--profile", "b300", "--flavour", "rocky9", "--state", "bare") as rack:
        yield rack


def test_servers_of_rocky_from_every_state_to_accepted(servers: Rack, tmp_path: Path) -> None:
    """Two from bare to an older baseline, one of them then upgraded by hand and badly; a third whose first dnf is killed."""
    words = ("--limit", "tray01", "--limit", "tray02")
    code, results, log = deploy(
        servers, tmp_path, *words, more="kernel: {tune: true}\n", **{NOW.replace(".", "__"): OLDER}
    )
    assert code == 0 and not results["failed_hosts"], log[-4000:]
    for node in words[1::2]:
        assert f"[{node}] verdict: accept" in log
        assert OLDER in servers.ssh(node, "cat /sys/module/nvidia/version")
        assert "iommu=pt" in servers.ssh(node, "cat /proc/cmdline"), "by grubby, in the boot entry"

    _upgraded_by_hand(servers, "tray02")
    _killed_in_a_scriptlet(servers, "tray03")

    code, results, log = servers.deploy()
    assert code == 0 and not results["failed_hosts"], log[-4000:]
    assert [log.count(f"[{node}] verdict: accept") for node in NODES] == [1] * len(NODES), log[-4000:]
    code, results, log = servers.deploy()
    assert code == 0 and unchanged(results), log[-4000:]
    assert all_accepted(servers.verify())
    for node in NODES:
        _by_dnf(servers, node)


def _upgraded_by_hand(rack: Rack, node: str) -> None:
    """New packages whose module was not built, and a lock of another version on one of them; nothing rebooted."""
    exact = " ".join(f"{name}-3:{NOW}-1.el9" for name in DRIVER)
    rack.ssh(node, f"mkdir -p {HOOKS} && echo kmod-nvidia-open-dkms >{HOOKS}/fail-postinst; dnf -q versionlock clear; "
             f"dnf -y -q install {exact} >/tmp/said 2>&1; rm {HOOKS}/fail-postinst; "
             "dnf -y -q versionlock add nvidia-fabricmanager-610.43.02-1")  # fmt: skip
    assert f"kmod-nvidia-open-dkms {NOW}" in rack.ssh(node, RPMS), rack.ssh(node, "cat /tmp/said")
    assert OLDER in rack.ssh(node, "modinfo -F version nvidia"), "rpm says it is installed, and its script did nothing"


def _killed_in_a_scriptlet(rack: Rack, node: str) -> None:
    """A deploy whose dnf is killed while the driver's module is being built."""
    rack.ssh(node, f"mkdir -p {HOOKS} && echo kmod-nvidia-open-dkms >{HOOKS}/slow-package && echo 3600 >{HOOKS}/slow-postinst")
    process = subprocess.Popen(
        [str(BIN / "pyinfra"), "-y", "inventories/lab.py", "deploys/k3.py", "--limit", node], cwd=ROOT, env=rack.env,
        text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + LONG_S
        while rack.ssh(node, "pgrep -x sleep -a || :").count("3600") == 0:
            assert process.poll() is None and time.monotonic() < deadline, process.communicate()[1][-4000:]
            time.sleep(1)
        rack.ssh(node, f"rm -r {HOOKS}; pkill -9 -x dnf; pkill -9 -x sleep; :")
        _, log = process.communicate(timeout=LONG_S)
    finally:
        process.kill()
    assert process.returncode == 1, log[-3000:]
    assert f"kmod-nvidia-open-dkms {NOW}" in rack.ssh(node, RPMS), "rpm notes a package before its script runs"
    assert "none" in rack.ssh(node, "modinfo -F version nvidia || echo none")


def _by_dnf(rack: Rack, node: str) -> None:
    """Everything came from rpms, at its version, locked, once; and there is nothing of another package manager."""
    there = [line for line in rack.ssh(node, RPMS).splitlines() if not line.startswith("gpg-pubkey ")]
    for name in (*DRIVER, *FABRIC):
        assert f"{name} {NOW}" in there
    assert {"nvidia-container-toolkit 1.19.1", "nvlsm 2025.10.14"} <= set(there)
    names = {line.split()[0] for line in there}
    assert len(names) == len(there), "no package is there in two versions"
    assert {"docker-ce", "containerd.io", "infiniband-diags", "python3-dnf-plugin-versionlock"} <= names
    locks = rack.ssh(node, "dnf -q -C versionlock list")
    assert all(f"{name}-" in locks for name in (*DRIVER, *FABRIC)) and "610.43.02" not in locks
    assert "nvidia-driver 580-open [e]" in " ".join(rack.ssh(node, "dnf -q -C module list --enabled").split())
    assert "5.14.0" in rack.ssh(node, "uname -r") and rack.ssh(node, "command -v dpkg apt-get || echo none") == "none\n"
    upgrade = rack.ssh(node, f"dnf -y -q upgrade >/dev/null; {RPMS}")
    assert f"kmod-nvidia-open-dkms {NOW}" in upgrade and f"nvidia-fabricmanager {NOW}" in upgrade, "610 is left alone"
