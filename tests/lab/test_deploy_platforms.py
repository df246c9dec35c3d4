"""Deploys of whole systems from where people start: bare hosts, an older baseline, and deploys that ended half way.

Every state gets a node of its own, so that one deploy is tried from all of them at once. All must end accepted.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import LAB_ID, NODES, ROOT, Rack, rack_of
from rackproof.managed import HISTORY, STAMP

pytestmark = [pytest.mark.lab, pytest.mark.long]

OLDER, NOW = "580.95.05", "580.126.20"
DRIVER = ("nvidia-open-580", "nvidia-driver-580-open", "nvidia-dkms-580-open", "libnvidia-compute-580", "nvidia-utils-580",
          "nvidia-kernel-common-580", "nvidia-firmware-580", "nvidia-modprobe", "nvidia-persistenced")  # fmt: skip
APT = "DEBIAN_FRONTEND=noninteractive apt-get -qq -y --allow-downgrades --allow-change-held-packages"
FAIL = "mkdir -p /etc/rackproof-lab.d && echo nvidia-dkms-580-open > /etc/rackproof-lab.d/fail-postinst"
HEAL = "rm -f /etc/rackproof-lab.d/fail-postinst"


BARE = "tray05"  # of the HGX servers: the one that stays as it came


@pytest.fixture(scope="module")
def trays() -> Iterator[Rack]:
    """Four GB300 trays without a driver."""
    with rack_of(f"{LAB_ID}-gb300", len(NODES), "--state", "bare") as rack:
        yield rack


@pytest.fixture(scope="module")
def hgx() -> Iterator[Rack]:
    """Five HGX B300 servers without a driver; each serves by itself."""
    with rack_of(f"{LAB_ID}-b300", len(NODES) + 1, "--state", "bare", "--profile", "b300") as rack:
        yield rack


def deploy(rack: Rack, folder: Path, *words: str, more: str = "", **changes: str) -> tuple[int, dict[str, Any], str]:
    """The deploy with lines of the site's files replaced, and more of them, in a site folder of its own."""
    (folder / "inventories").mkdir(exist_ok=True)
    shutil.copy(ROOT / "inventories/lab.py", folder / "inventories")
    shutil.copytree(ROOT / "group_vars", folder / "group_vars", dirs_exist_ok=True)
    for path in (folder / "group_vars").glob("*.yaml"):
        text = path.read_text()
        for old, new in changes.items():
            text = text.replace(old.replace("__", "."), new)
        path.write_text(text + more * (path.name == "lab.yaml"))
    inventory = str(folder / "inventories/lab.py")
    done = rack.run("pyinfra", "-y", "--json", inventory, str(ROOT / "deploys/k3.py"), *words)
    results = json.loads(done.stdout)["results"] if done.stdout.strip() else {}
    return done.returncode, results or {}, done.stderr


def accepted(rack: Rack, *nodes: str) -> None:
    """One deploy brings every node to where its own checks accept it, and leaves nothing to be done."""
    code, results, log = rack.deploy()
    assert code == 0 and not results["failed_hosts"], log[-4000:]
    assert [log.count(f"[{node}] verdict: accept") for node in nodes] == [1] * len(nodes), log[-4000:]
    again = rack.run("rackproof", "plan", "inventories/lab.py")
    assert again.returncode == 0, again.stdout[-3000:]


def older_baseline(rack: Rack, folder: Path, *nodes: str, more: str = "") -> str:
    """Deploy the baseline of an older driver until it is accepted. Returns its hash, as it is stamped."""
    words = [word for node in nodes for word in ("--limit", node)]
    code, results, log = deploy(rack, folder, *words, more=more, **{NOW.replace(".", "__"): OLDER})
    assert code == 0 and not results["failed_hosts"], log[-4000:]
    assert all(f"[{node}] verdict: accept" in log for node in nodes), log[-4000:]
    assert OLDER in rack.ssh(nodes[0], "cat /sys/module/nvidia/version")
    stamp = stamped(rack, nodes[0])
    assert stamp["driver"] == OLDER
    return str(stamp["baseline"])


def stamped(rack: Rack, node: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(rack.ssh(node, f"cat {STAMP}"))
    return found


def came_from(rack: Rack, node: str, older: str) -> None:
    """The node has the present baseline's stamp, and keeps the older one's to go back to."""
    stamp = stamped(rack, node)
    assert stamp["driver"] == NOW and stamp["baseline"] != older
    assert NOW in rack.ssh(node, "cat /sys/module/nvidia/version")
    assert older in rack.ssh(node, f"cat {HISTORY}/*.json")


def test_a_rack_of_trays(trays: Rack, tmp_path: Path) -> None:
    """Bare to an older baseline; then to the present one from there and from three ways in which that can stop."""
    older = older_baseline(trays, tmp_path, *NODES, more="kernel: {tune: true}\n")
    assert "init_on_alloc=0 iommu.passthrough=1" in trays.ssh("tray01", "cat /proc/cmdline")

    exact = " ".join(f"{name}={NOW}-1" for name in DRIVER)
    pinned = f"apt-get -qq update && {APT} install nvidia-driver-pinning-{NOW} >/dev/null"
    trays.ssh("tray02", f"{pinned} && {APT} install {exact} >/dev/null")  # on disk, not booted; IMEX is the older one
    trays.ssh("tray03", f"{FAIL}; {pinned}; {APT} install {exact} >/dev/null 2>&1 && echo unexpected; {HEAL}")
    toolkit = "nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container-tools libnvidia-container1"
    old = " ".join(f"{name}=1.18.2-1" for name in toolkit.split())
    trays.ssh("tray04", f"apt-get -qq update && {APT} install {old} >/dev/null && rm -f /etc/docker/daemon.json "
              "/var/run/cdi/nvidia.yaml /etc/rackproof/baseline.json && echo 127.0.0.1 >/etc/nvidia-imex/nodes_config.cfg")  # fmt: skip
    assert "iF" in trays.ssh("tray03", "dpkg -l | cut -c 1-2 | sort -u"), "a package is to be half configured"

    accepted(trays, *NODES)
    came_from(trays, "tray01", older)


def test_hgx_servers(hgx: Rack, tmp_path: Path) -> None:
    """From an older baseline, from bare, and from three deploys that stopped: before the reboot, in a package, and before
    the daemons."""
    older = older_baseline(hgx, tmp_path, "tray01")
    words = ("--limit", "tray02", "--limit", "tray03", "--limit", "tray04")
    code, _, log = deploy(hgx, tmp_path, *words, **{"allow: true": "allow: false"})
    assert code == 1 and log.count("needs a reboot (driver none is loaded") >= 3, log[-4000:]
    hgx.ssh("tray03", f"{FAIL}; {APT} install --reinstall nvidia-dkms-580-open={NOW}-1 >/dev/null 2>&1; {HEAL}")
    assert "iF" in hgx.ssh("tray03", "dpkg -l | cut -c 1-2 | sort -u"), "a package is to be half configured"
    hgx.ssh(
        "tray04",
        "systemctl disable -q --now docker.service docker.socket; rm -f /etc/modules-load.d/rackproof-fabric.conf",
    )

    assert not hgx.ssh(BARE, f"ls {STAMP} /sys/module/nvidia 2>/dev/null || true").strip(), "nobody has deployed there"

    accepted(hgx, *NODES, BARE)
    came_from(hgx, "tray01", older)
    for node in (*NODES, BARE):
        assert hgx.ssh(node, "cat /etc/modules-load.d/rackproof-fabric.conf").split()[-2:] == ["mlx5_ib", "ib_umad"]
        assert "nvlsm" in hgx.ssh(node, "dpkg-query -W nvlsm infiniband-diags")
