"""Hosts with AMD GPUs, from where people start: bare, an older release of the driver, and deploys that ended half way.

Every state gets a host of its own, so that one deploy is tried from all of them at once. All must end accepted.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_site import describe

from conftest import ROOT, Rack, all_accepted, rack_of, statuses, unchanged

pytestmark = [pytest.mark.lab, pytest.mark.long]

BARE, OLD, UNBOOTED, HALF, WRITTEN = HOSTS = tuple(f"tray{number:02d}" for number in range(1, 6))
NOW = {"release": "31.40.0", "folder": "amdgpu/31.40/", "module": "6.19.14", "code": "31400000"}
OLDER = {"release": "30.30.3", "folder": "amdgpu/30.30.3/", "module": "6.16.13", "code": "30300300"}
FAIL = "mkdir -p /etc/rackproof-lab.d && echo amdgpu-dkms >/etc/rackproof-lab.d/fail-postinst"
HEAL = "rm -f /etc/rackproof-lab.d/fail-postinst"
MODE = "/sys/class/drm/card0/device/current_compute_partition"
# What only ROCm's tools print, and what a host with nothing but the driver therefore cannot say of itself.
TOOLS_ONLY = {"gpus.power_limit", "gpus.slowdown", "gpus.firmware", "gpus.temperature", "gpus.mec_firmware"}


@pytest.fixture(scope="module")
def servers() -> Iterator[Rack]:
    """Five MI355X servers without a driver; each serves by itself."""
    with rack_of("test-mi355x", len(HOSTS), "--state", "bare", "--profile", "mi355x") as rack:
        yield rack


def deploy(
    rack: Rack, folder: Path, *hosts: str, changes: dict[str, str] | None = None, more: str = ""
) -> tuple[int, dict[str, Any], str]:
    """The deploy on some hosts, with words of the site's file replaced, or more lines in it, in a folder of its own."""
    (folder / "inventories").mkdir(exist_ok=True)
    shutil.copy(ROOT / "inventories/lab.py", folder / "inventories")
    shutil.copytree(ROOT / "group_vars", folder / "group_vars", dirs_exist_ok=True)
    path = folder / "group_vars/lab_amd.yaml"
    text = path.read_text()
    for old, new in (changes or {}).items():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text + more)
    limits = [word for host in hosts for word in ("--limit", host)]
    inventory = str(folder / "inventories/lab.py")
    done = rack.run("pyinfra", "-y", "--json", inventory, str(ROOT / "deploys/k3.py"), *limits)
    results = json.loads(done.stdout)["results"] if done.stdout.strip() else {}
    return done.returncode, results or {}, done.stderr


def older(rack: Rack, folder: Path, host: str) -> tuple[int, dict[str, Any], str]:
    return deploy(rack, folder, host, changes={NOW[key]: OLDER[key] for key in ("release", "folder")})


def installed(rack: Rack, host: str) -> list[str]:
    return rack.ssh(host, "dpkg-query -W -f '${db:Status-Abbrev} ${Version}\\n' amdgpu-dkms amdgpu-dkms-firmware").splitlines()


def unknown(document: dict[str, Any], host: str, status: str = "unknown") -> set[str]:
    """Everything of a host that could not be judged, also what is no gate."""
    outcomes = next(node for node in document["nodes"] if node["node"] == host)["outcomes"]
    return {outcome["requirement"] for outcome in outcomes if outcome["status"] == status}


def why(document: dict[str, Any], host: str) -> dict[str, str]:
    """Gates of a host that do not pass, and what is said of them."""
    outcomes = next(node for node in document["nodes"] if node["node"] == host)["outcomes"]
    return {
        outcome["requirement"]: outcome["reason"] or outcome["observed"]
        for outcome in outcomes
        if outcome["severity"] == "gate" and outcome["status"] not in ("pass", "not_applicable")
    }


def failed(document: dict[str, Any], host: str) -> set[str]:
    return unknown(document, host, "fail")


def test_from_five_states_to_accepted(servers: Rack, tmp_path: Path) -> None:
    before = servers.verify("--limit", BARE)
    assert before["verdict"] == "reject" and "gpu_driver.render_nodes" in statuses(before, BARE)["fail"]

    code, results, log = older(servers, tmp_path, OLD)
    assert code == 0 and not results["failed_hosts"] and f"[{OLD}] verdict: accept" in log, log[-4000:]
    assert servers.ssh(OLD, "cat /sys/module/amdgpu/version").strip() == OLDER["module"]

    servers.ssh(HALF, FAIL)
    code, _, log = deploy(servers, tmp_path, UNBOOTED, HALF, changes={"allow: true": "allow: false"})
    assert code == 1 and "needs a reboot (module amdgpu the kernel's own is loaded, 6.19.14 is wanted" in log, log[-4000:]
    assert "half installed are amdgpu-dkms" in log and "driver none is loaded" in log, log[-4000:]
    servers.ssh(HALF, HEAL)
    assert [line[:2] for line in installed(servers, HALF)] == ["iF", "ii"], "a package is to be half configured"
    assert [line[:2] for line in installed(servers, UNBOOTED)] == ["ii", "ii"], "on disk"
    assert servers.ssh(UNBOOTED, "ls /sys/module/amdgpu").split().count("version") == 0, "and not in the kernel"

    faults = Path(describe(servers)["ca"]).parents[1] / "www/faults.json"
    faults.write_text(json.dumps({"/amdgpu": 503}))
    try:
        code, _, log = deploy(servers, tmp_path, WRITTEN)
    finally:
        faults.unlink()
    assert code == 1 and "Failed to fetch https://repo.radeon.com/amdgpu" in log, log[-4000:]
    assert "bfsort" in servers.ssh(WRITTEN, "cat /etc/default/grub.d/90-rackproof.cfg /boot/grub/grub.cfg")
    assert servers.ssh(WRITTEN, "ls /etc/apt/sources.list.d /usr/src").split().count("rackproof-amd.sources") == 1
    assert "amdgpu" not in servers.ssh(WRITTEN, "ls /usr/src"), "no driver"

    code, results, log = servers.deploy()
    assert code == 0 and not results["failed_hosts"], log[-4000:]
    assert [log.count(f"[{host}] verdict: accept") for host in HOSTS] == [1] * len(HOSTS), log[-4000:]
    for host in HOSTS:
        loaded, words, groups = servers.ssh(
            host, "cat /sys/module/amdgpu/version /proc/cmdline; stat -c %G /dev/kfd"
        ).splitlines()
        assert loaded == NOW["module"] and {"pci=realloc=off,bfsort", "iommu=pt"} <= set(words.split())
        assert groups == "render" and all(NOW["code"] in line for line in installed(servers, host))
    image = describe(servers)["image"]
    assert image["reference"] == "docker.io/vllm/vllm-openai-rocm:kimi-k3"
    assert image["index"] in servers.ssh(BARE, "docker images --digests vllm/vllm-openai-rocm")

    code, results, log = servers.deploy()
    assert code == 0 and unchanged(results), log[-4000:]
    document = servers.verify()
    assert all_accepted(document), [why(document, host) for host in HOSTS]
    assert {node["hardware"] for node in document["nodes"]} == {"mi355x"}
    assert [unknown(document, host) & TOOLS_ONLY for host in HOSTS] == [TOOLS_ONLY] * len(HOSTS)
    assert "gpu_driver.amdgpu_dkms" not in failed(document, BARE) | unknown(document, BARE)


def test_rocm_s_tools_say_the_rest(servers: Rack) -> None:
    """A host needs neither; with amd-smi nothing of a GPU is left that cannot be judged, and rocm-smi stands in for it."""
    source = "deb [signed-by=/etc/apt/keyrings/rackproof-amd.asc] https://repo.radeon.com/rocm/apt/7.2.3 noble main"
    for host, package in ((OLD, "amd-smi-lib"), (HALF, "rocm-smi-lib")):
        servers.ssh(host, f"echo '{source}' >/etc/apt/sources.list.d/rocm.list && apt-get -qq update && "
                          f"apt-get -qq -y install {package} >/dev/null")  # fmt: skip
    document = servers.verify()
    assert all_accepted(document), [why(document, host) for host in HOSTS]
    assert not (unknown(document, OLD) | failed(document, OLD)) & TOOLS_ONLY
    assert "AMD Instinct MI355X" in servers.ssh(HALF, "rocm-smi --showproductname --json")
    code, results, log = servers.deploy("--limit", OLD)
    assert code == 0 and unchanged(results), log[-4000:]


def test_partition_modes_are_said_and_left(servers: Rack) -> None:
    boot = servers.ssh(BARE, f"echo CPX >{MODE}; cat /proc/sys/kernel/random/boot_id")
    try:
        plan = servers.run("rackproof", "plan", "inventories/lab.py", "--limit", BARE)
        assert "GPUs are partitioned (CPX)" in plan.stdout, plan.stdout
        code, _, log = servers.deploy("--limit", BARE)
        assert code == 1 and "GPUs are partitioned (CPX)" in log, log[-4000:]
        assert f"{BARE}: not accepted (reject): gpus.partition: GPU 0 (00000000:05:00.0): CPX" in log, log[-4000:]
        assert servers.ssh(BARE, f"cat {MODE} /proc/sys/kernel/random/boot_id") == f"CPX\n{boot}"
        document = servers.verify("--limit", BARE)
        assert statuses(document, BARE)["fail"] == {"gpus.partition"}
    finally:
        servers.ssh(BARE, f"echo SPX >{MODE}")


def test_container_toolkit_and_users_where_the_site_asks(servers: Rack, tmp_path: Path) -> None:
    asked = 'container: {{amd_toolkit: {{version: "{version}"}}}}\ngpus: {{users: [deploy]}}\n'
    code, results, log = deploy(servers, tmp_path, UNBOOTED, more=asked.format(version="1.2.0"))
    assert code == 0 and not results["failed_hosts"] and f"[{UNBOOTED}] verdict: accept" in log, log[-4000:]
    assert servers.ssh(UNBOOTED, "dpkg-query -W -f '${Version}' amd-container-toolkit") == "1.2.0~24.04"

    servers.ssh(UNBOOTED, "rm /etc/cdi/amd.json")
    code, results, log = deploy(servers, tmp_path, UNBOOTED, more=asked.format(version="1.3.0"))
    assert code == 0 and f"[{UNBOOTED}] verdict: accept" in log, log[-4000:]
    assert servers.ssh(UNBOOTED, "dpkg-query -W -f '${Version}' amd-container-toolkit") == "1.3.0~24.04"
    assert '"amd"' in servers.ssh(UNBOOTED, "docker info --format '{{json .Runtimes}}'")
    assert "is valid" in servers.ssh(UNBOOTED, "amd-ctk cdi validate")
    assert {"render", "video"} <= set(servers.ssh(UNBOOTED, "id -nG deploy").split())

    code, results, log = deploy(servers, tmp_path, UNBOOTED, more=asked.format(version="1.3.0"))
    assert code == 0 and unchanged(results), log[-4000:]
    nobody = asked.format(version="1.3.0").replace("deploy", "nobody-here")
    code, _, log = deploy(servers, tmp_path, UNBOOTED, more=nobody)
    assert code == 1 and "there is no user nobody-here on this host (gpus.users)" in log, log[-4000:]
