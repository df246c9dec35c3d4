"""What can go wrong around a deploy: each time the node says what is wrong and how it stands, stays usable, and the next
deploy finishes once the cause is gone. (Cut connections, killed processes and held locks: test_interrupted.py.)"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import Rack
from rackproof_lab.names import Lab
from rackproof_lab.repo import Signer

pytestmark = [pytest.mark.lab, pytest.mark.long]

TRAY = "tray02"
USABLE = "this host is as usable as before: no package is half installed; driver 575.57.08 is loaded"


@dataclass(frozen=True)
class Fault:
    """A fault of one node, where its deploy must end, what it must say, and which driver is loaded then."""

    apply: str
    heal: str
    step: str
    says: tuple[str, ...]
    driver: str = "575.57.08"


def _repository(rack: Rack) -> Path:
    lab = Lab(rack.env["RACKPROOF_LAB_ID"])
    return lab.dir / "www" / "developer.download.nvidia.com/compute/cuda/repos/debian13/x86_64"


def _web(faults: dict[str, object]) -> Callable[[Rack], None]:
    def change(rack: Rack) -> None:
        path = Lab(rack.env["RACKPROOF_LAB_ID"]).dir / "www" / "faults.json"
        if faults:
            path.write_text(json.dumps(faults))
        else:
            path.unlink(missing_ok=True)

    return change


def _sign_by_a_stranger(rack: Rack) -> None:
    folder = _repository(rack)
    for name in ("InRelease", "Release.gpg"):
        shutil.copy(folder / name, folder / f".kept-{name}")
    with tempfile.TemporaryDirectory() as home:
        signer = Signer(Path(home) / "gpg")
        signer.sign(folder / "Release")
        signer.close()


def _sign_again(rack: Rack) -> None:
    folder = _repository(rack)
    for name in ("InRelease", "Release.gpg"):
        if (folder / f".kept-{name}").exists():
            (folder / f".kept-{name}").replace(folder / name)


NODES_AT_ONCE = {
    "tray01": Fault(  # no room where packages are kept
        "mount -t tmpfs -o size=16k tmpfs /var/cache/apt/archives && mkdir -p /var/cache/apt/archives/partial",
        "umount /var/cache/apt/archives", "Pin and install driver", ("No space left on device", USABLE),
    ),
    "tray02": Fault(  # no room for the journal
        "mkdir -p /var/lib/rackproof && mount -t tmpfs -o size=4k tmpfs /var/lib/rackproof && "
        "head -c 8192 /dev/zero >/var/lib/rackproof/filler || true",
        "umount /var/lib/rackproof", "Lock the node", ("the journal cannot be written, so nothing is changed", "100%"),
    ),
    "tray03": Fault(  # the module does not build
        "mkdir -p /etc/rackproof-lab.d && echo nvidia-dkms-580-open >/etc/rackproof-lab.d/fail-postinst",
        "rm /etc/rackproof-lab.d/fail-postinst", "Pin and install driver",
        ("this host is not whole: half installed are", "nvidia-dkms-580-open", "driver 575.57.08 is loaded",
         "the next deploy goes on from here"),
    ),
    "tray04": Fault(  # the registry does not answer
        "sed -i 's/^10[.]88[.]\\([0-9]*\\)[.]2 /10.88.\\1.250 /' /etc/hosts", "sed -i 's/[.]250 /.2 /' /etc/hosts",
        "Pull vllm-openai by digest", ("10.88.",), driver="580.126.20",
    ),
}  # fmt: skip


@pytest.fixture
def half_leased(deployed: Rack) -> Iterator[Rack]:
    """One tray as leased; afterwards it is given back as it was deployed."""
    deployed.lab("reset", TRAY)
    yield deployed
    deployed.lab("restore", TRAY)


def test_nodes_with_a_fault_stay_usable_and_the_next_deploy_finishes(deployed: Rack) -> None:
    """Each tray has a fault of its own; none keeps another from going on as far as it can."""
    faults = NODES_AT_ONCE
    try:
        for node, fault in faults.items():
            deployed.lab("reset", node)
            deployed.ssh(node, fault.apply)
        code, _, log = deployed.deploy()
        assert code == 1, log[-4000:]
        for node, fault in faults.items():
            _assert_stopped(deployed, node, fault, log)
            deployed.ssh(node, fault.heal)
        code, _, log = deployed.deploy()
        assert code == 0, log[-4000:]
        assert all(f"[{node}] verdict: accept" in _plain(log) for node in faults)
    finally:
        deployed.lab("restore")


def _assert_stopped(rack: Rack, node: str, fault: Fault, log: str) -> None:
    said = "\n".join(line for line in _plain(log).splitlines() if f"[{node}]" in line)
    for words in fault.says:
        assert words in said, f"{node}: {words!r} was not said:\n{said[-3000:]}"
    steps = [
        part.partition("\n")[0] for part in _plain(log).split("--> Starting operation: ") if f"[{node}] Error" in part
    ]
    assert len(steps) == 1 and steps[0].startswith(fault.step), f"{node}: it failed at {steps}"
    assert fault.driver in rack.ssh(node, "cat /proc/driver/nvidia/version")
    assert rack.run("rackproof-lab", "ssh", node, "test -e /var/lib/rackproof/lock").returncode != 0, "still locked"


def _plain(log: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", log)


NEXT = "99.0.0-next"  # newer than any kernel that a test may run on
NO_MODULE = Fault(
    f"mkdir -p /usr/lib/modules/{NEXT} && touch /usr/lib/modules/{NEXT}/modules.dep /boot/vmlinuz-{NEXT}",
    f"rm -r /usr/lib/modules/{NEXT} /boot/vmlinuz-{NEXT}", "Reboot",
    (f"not rebooted: kernel {NEXT} boots next, and its nvidia module is none, wanted 580.126.20",
     "The host goes on as it is", f"dkms autoinstall -k {NEXT}"),
)  # fmt: skip


def test_a_kernel_that_has_no_module_is_not_booted_and_the_next_deploy_finishes(half_leased: Rack, tmp_path: Path) -> None:
    """While a node waited for consent to reboot, an upgrade brought a kernel for which DKMS built nothing."""
    waits = _other_site(tmp_path)
    for path in (waits / "group_vars").glob("*.yaml"):
        path.write_text(path.read_text().replace("allow: true", "allow: false"))
    done = half_leased.run("pyinfra", "-y", "--limit", TRAY, str(waits / "inventories/lab.py"), "deploys/k3.py")
    assert done.returncode == 1 and "needs a reboot (driver 575.57.08 is loaded" in done.stderr, done.stderr[-3000:]
    boot = half_leased.ssh(TRAY, "cat /proc/sys/kernel/random/boot_id")
    half_leased.ssh(TRAY, NO_MODULE.apply)
    code, _, log = half_leased.deploy("--limit", TRAY)
    assert code == 1, log[-4000:]
    _assert_stopped(half_leased, TRAY, NO_MODULE, log)
    assert half_leased.ssh(TRAY, "cat /proc/sys/kernel/random/boot_id") == boot
    half_leased.ssh(TRAY, NO_MODULE.heal)
    code, _, log = half_leased.deploy("--limit", TRAY)
    assert code == 0 and f"[{TRAY}] verdict: accept" in _plain(log), log[-4000:]


_PATH = "/compute/cuda/repos/debian13/x86_64"


def test_a_repository_that_fails_in_any_way_is_refused_and_the_next_deploy_finishes(half_leased: Rack) -> None:
    signed = [f"{_PATH}{part}{name}" for part in ("/", "/./") for name in ("InRelease", "Release")]
    for apply, heal, says in (
        (_web({"/compute": 503}), _web({}), ("Failed to fetch", "NVIDIA repository key")),
        (_web(dict.fromkeys(signed, 503)), _web({}), ("Failed to fetch", USABLE)),
        (_sign_by_a_stranger, _sign_again, ("is not signed", USABLE)),
        (
            _web(dict.fromkeys([f"{_PATH}/nvidia-dkms", f"{_PATH}/./nvidia-dkms"], "cut")),
            _web({}),
            ("Failed to fetch", USABLE),
        ),
    ):
        try:
            apply(half_leased)
            code, _, log = half_leased.deploy("--limit", TRAY)
        finally:
            heal(half_leased)
        assert code == 1, log[-4000:]
        for words in says:
            assert words in log, f"{words!r} was not said:\n{log[-4000:]}"
        assert "575.57.08" in half_leased.ssh(TRAY, "cat /proc/driver/nvidia/version")
    code, _, log = half_leased.deploy("--limit", TRAY)
    assert code == 0 and f"[{TRAY}] verdict: accept" in _plain(log), log[-4000:]


def test_a_wrong_digest_is_refused_by_the_registry_and_named(half_leased: Rack, tmp_path: Path) -> None:
    real = '{key: _lab["image"].get(key, _lab["image"]["index"]) for key in ("index", "amd64", "arm64")}'
    site = _other_site(tmp_path, inventory=(real, f'{{**{real}, "index": "sha256:{"0" * 64}"}}'))
    path = site / "inventories" / "lab.py"
    done = half_leased.run("pyinfra", "-y", "--limit", TRAY, str(path), "deploys/k3.py")
    assert done.returncode == 1
    assert "--> Starting operation: Pull vllm-openai by digest 000000000000" in done.stderr
    assert "manifest unknown" in done.stderr or "not found" in done.stderr, done.stderr[-2000:]
    code, _, log = half_leased.deploy("--limit", TRAY)
    assert code == 0, log[-4000:]


def test_a_key_that_is_not_the_pinned_one_is_not_trusted(half_leased: Rack, tmp_path: Path) -> None:
    site = _other_site(tmp_path, inventory=('_lab["apt"]["key_fingerprint"]', f'"{"A" * 40}"'))
    done = half_leased.run("pyinfra", "-y", "--limit", TRAY, str(site / "inventories/lab.py"), "deploys/k3.py")
    assert done.returncode == 1 and f"wanted {'A' * 40}: not trusted" in done.stderr
    assert "rackproof-nvidia" not in half_leased.ssh(TRAY, "ls /etc/apt/sources.list.d /etc/apt/keyrings")
    code, _, log = half_leased.deploy("--limit", TRAY)
    assert code == 0, log[-4000:]


def test_a_keyring_that_somebody_replaced_is_fetched_again(half_leased: Rack) -> None:
    code, _, log = half_leased.deploy("--limit", TRAY)
    assert code == 0, log[-4000:]
    half_leased.ssh(TRAY, "echo spoilt >/etc/apt/keyrings/rackproof-nvidia.asc; apt-get -q remove -y nvidia-imex")
    code, _, log = half_leased.deploy("--limit", TRAY)
    assert code == 0, log[-4000:]


def _other_site(folder: Path, inventory: tuple[str, str] = ("", "")) -> Path:
    root = Path(__file__).resolve().parents[2]
    for name in ("inventories", "group_vars"):
        shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "inventories" / "lab.py"
    text = path.read_text()
    assert inventory[0] in text  # else the test would deploy what it means to change
    path.write_text(text.replace(*inventory))
    return folder
