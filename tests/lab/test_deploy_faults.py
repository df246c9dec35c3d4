"""What can go wrong around a deploy: each time the node says what is wrong and how it stands, stays usable, and the next
deploy finishes once the cause is gone. (Cut connections, killed processes and held locks: test_interrupted.py.)"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import Rack
from rackproof_lab.names import Lab
from rackproof_lab.repo import Signer

pytestmark = pytest.mark.lab

TRAY = "tray02"
USABLE = "this host is as usable as before: no package is half installed; driver 575.57.08 is loaded"


@dataclass(frozen=True)
class Fault:
    """A fault, where the deploy must end, what it must say, and how the node stands then."""

    apply: Callable[[Rack], None]
    heal: Callable[[Rack], None]
    step: str
    says: tuple[str, ...]
    driver: str = "575.57.08"  # loaded afterwards


def sh(command: str) -> Callable[[Rack], None]:
    return lambda rack: print(rack.ssh(TRAY, command))


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


_NEXT = "9.9.9-next"
FAULTS = {
    "repository down": Fault(
        _web({"/compute": 503}), _web({}), "NVIDIA repository key", ("503",),
    ),
    "repository goes down after its key": Fault(
        _web({"/compute/cuda/repos/debian13/x86_64/./InRelease": 503, "/compute/cuda/repos/debian13/x86_64/InRelease": 503,
              "/compute/cuda/repos/debian13/x86_64/./Release": 503, "/compute/cuda/repos/debian13/x86_64/Release": 503}),
        _web({}), "Pin and install driver", ("503", USABLE),
    ),
    "repository signed by a wrong key": Fault(
        _sign_by_a_stranger, _sign_again, "Pin and install driver", ("not signed", USABLE),
    ),
    "archive cut off": Fault(
        _web({"/compute/cuda/repos/debian13/x86_64/./nvidia-dkms": "cut", "/compute/cuda/repos/debian13/x86_64/nvidia-dkms": "cut"}),
        _web({}), "Pin and install driver", ("Failed to fetch", USABLE),
    ),
    "disk full where packages are kept": Fault(
        sh("mount -t tmpfs -o size=16k tmpfs /var/cache/apt/archives && mkdir -p /var/cache/apt/archives/partial"),
        sh("umount /var/cache/apt/archives"), "Pin and install driver", ("No space left on device", USABLE),
    ),
    "disk full where the journal is": Fault(
        sh("mkdir -p /var/lib/rackproof && mount -t tmpfs -o size=4k tmpfs /var/lib/rackproof && "
           "head -c 8192 /dev/zero >/var/lib/rackproof/filler || true"),
        sh("umount /var/lib/rackproof"), "Lock the node", ("the journal cannot be written, so nothing is changed", "100%"),
    ),
    "registry down": Fault(
        sh("sed -i 's/^10[.]88[.]\\([0-9]*\\)[.]2 /10.88.\\1.250 /' /etc/hosts"),
        sh("sed -i 's/[.]250 /.2 /' /etc/hosts"), "Pull vllm-openai by digest", ("10.88.",), driver="580.126.20",
    ),
    "module does not build": Fault(
        sh("mkdir -p /etc/rackproof-lab.d && echo nvidia-dkms-580-open >/etc/rackproof-lab.d/fail-postinst"),
        sh("rm /etc/rackproof-lab.d/fail-postinst"), "Pin and install driver",
        ("this host is not whole: half installed are", "nvidia-dkms-580-open", "driver 575.57.08 is loaded",
         "what runs goes on"),
    ),
    "no module for the next kernel": Fault(
        sh(f"mkdir -p /lib/modules/{_NEXT} && touch /lib/modules/{_NEXT}/modules.dep /boot/vmlinuz-{_NEXT}"),
        sh(f"rm -r /lib/modules/{_NEXT} /boot/vmlinuz-{_NEXT}"), "Reboot",
        (f"not rebooted: kernel {_NEXT} boots next, and its nvidia module is none, wanted 580.126.20",
         f"Install linux-headers-{_NEXT}"),
    ),
}  # fmt: skip


@pytest.fixture
def half_leased(deployed: Rack) -> Iterator[Rack]:
    """One tray as leased; afterwards it is given back as it was deployed."""
    deployed.lab("reset", TRAY)
    yield deployed
    deployed.lab("restore", TRAY)


@pytest.mark.parametrize("name", FAULTS)
def test_the_node_stays_usable_and_the_next_deploy_finishes(half_leased: Rack, name: str) -> None:
    fault = FAULTS[name]
    boot = half_leased.ssh(TRAY, "cat /proc/sys/kernel/random/boot_id")
    with _applied(half_leased, fault):
        code, _, log = half_leased.deploy("--limit", TRAY)
        assert code == 1, log[-4000:]
        for words in fault.says:
            assert words in log, f"{words!r} is not in the log:\n{log[-5000:]}"
        assert f"--> Starting operation: {fault.step}" in log
        assert log.rpartition("--> Starting operation: ")[2].startswith(fault.step), "it went on after the failure"
        loaded = half_leased.ssh(TRAY, "cat /proc/driver/nvidia/version")
        assert fault.driver in loaded
        if fault.driver == "575.57.08":
            assert half_leased.ssh(TRAY, "cat /proc/sys/kernel/random/boot_id") == boot
        assert half_leased.run("rackproof-lab", "ssh", TRAY, "test -e /var/lib/rackproof/lock").returncode != 0
    code, _, log = half_leased.deploy("--limit", TRAY)
    assert code == 0, log[-4000:]
    assert f"[{TRAY}] verdict: accept" in re.sub(r"\x1b\[[0-9;]*m", "", log)


def test_a_wrong_digest_is_refused_by_the_registry_and_named(half_leased: Rack, tmp_path: Path) -> None:
    real = '{key: _lab["image"][key] for key in ("index", "amd64", "arm64")}'
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


@contextmanager
def _applied(rack: Rack, fault: Fault) -> Iterator[None]:
    fault.apply(rack)
    try:
        yield
    finally:
        fault.heal(rack)


def _other_site(folder: Path, inventory: tuple[str, str] = ("", "")) -> Path:
    root = Path(__file__).resolve().parents[2]
    for name in ("inventories", "group_vars"):
        shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "inventories" / "lab.py"
    path.write_text(path.read_text().replace(*inventory))
    return folder

