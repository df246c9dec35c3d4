"""The nightly run by a real systemd timer: one tray plays the control host and reads the rack, itself included.

rackproof is installed there for the tray's own Python, from a package index; without one this is skipped.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import ROOT, Rack

pytestmark = [pytest.mark.lab, pytest.mark.long]

CONTROL = "tray04"
SERVICE = "rackproof-nightly.service"
VENV, PROJECT, STORE = "/opt/rackproof", "/srv/rackproof", "/var/lib/rackproof"
AS_USER = f"cd {PROJECT} && runuser -u rackproof -- {VENV}/bin/rackproof"

INVENTORY = """
import json
from pathlib import Path
from rackproof.inventory import rack

said = json.loads(Path(__file__).with_name("lab.json").read_text())
night = rack(said["names"], group="lab", addresses=said["addresses"], nvlink_domain="lab", overlay=said["overlay"],
             overlay_source="the running lab")
"""
CONTROL_INVENTORY = """
import rackproof_lab
from rackproof.control import control

_lab = rackproof_lab.describe()
rackproof_lab.enter_network()
_node = next(node for node in _lab["nodes"] if node["name"] == "tray04")
controller = control("tray04", addresses=_node["address"], overlay_source="the running lab", overlay={
    "ssh": {"user": _lab["ssh"]["user"], "key_file": _lab["ssh"]["key"], "known_hosts_file": _lab["ssh"]["known_hosts"]}})
"""
NIGHTLY = {
    "inventory": "inventories/night.py", "jitter_s": 600, "deadline_s": 900, "at": "*-*-* 03:00:00",
    "on_change": [f"{PROJECT}/tell", "a word with blanks; and $(more)"],
}  # fmt: skip
TELL = f'#!/bin/sh\nprintf "%s\\n" "$1|$RACKPROOF_VERDICT_BEFORE|$RACKPROOF_VERDICT|$RACKPROOF_EXIT_CODE" >> {STORE}/told\n'


def packages(rack: Rack) -> Path:
    """rackproof's dependencies for the Python of the trays, kept in the lab's cache."""
    version = rack.ssh(CONTROL, "python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'").strip()
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    mark = hashlib.sha256(" ".join([version, *wanted]).encode()).hexdigest()[:12]
    folder = Path(os.environ.get("RACKPROOF_LAB_CACHE", "/var/tmp/rackproof-lab-cache")) / f"control-{mark}"
    if not folder.exists():
        made = folder.with_suffix(f".{os.getpid()}")
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(made),
             "--python-version", version, "--only-binary=:all:", *wanted],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            pytest.skip(f"no packages for Python {version} from the package index: {done.stderr.strip()[-300:]}")
        made.rename(folder)
    return folder


def put(rack: Rack, path: Path, where: str) -> None:
    config = json.loads((lab_dir(rack) / "lab.json").read_text())["ssh"]["config"]
    done = rack.run("rackproof-lab", "exec", "scp", "-q", "-F", config, str(path), f"{CONTROL}:{where}")
    assert done.returncode == 0, done.stderr


def lab_dir(rack: Rack) -> Path:
    return Path(rack.env.get("RACKPROOF_LAB_DIR", "/var/tmp/rackproof-lab")) / rack.env["RACKPROOF_LAB_ID"]


@pytest.fixture(scope="module")
def control(deployed: Rack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Rack, Path]]:
    """The control host with rackproof and the site, and the site folder to deploy from."""
    folder = tmp_path_factory.mktemp("control")
    archive = folder / "all.tar"
    subprocess.run(["tar", "-cf", str(archive), "-C", str(packages(deployed)), "."], check=True)
    subprocess.run(
        ["tar", "-rf", str(archive), "-C", str(ROOT / "src"), "--exclude=__pycache__", "rackproof"], check=True
    )
    put(deployed, archive, "/tmp/all.tar")
    deployed.ssh(
        CONTROL,
        f"""
        set -e
        python3 -m venv --without-pip {VENV}
        tar -xf /tmp/all.tar -C {VENV}/lib/python3*/site-packages
        printf '#!{VENV}/bin/python3\\nimport sys\\nfrom rackproof.cli import main\\nsys.exit(main())\\n' > {VENV}/bin/rackproof
        chmod 755 {VENV}/bin/rackproof; rm /tmp/all.tar
        mkdir -p {PROJECT}/inventories {PROJECT}/group_vars""",
    )
    _site(deployed, folder)
    yield deployed, folder
    deployed.lab("restore", CONTROL)


def _site(rack: Rack, folder: Path) -> None:
    lab = json.loads((lab_dir(rack) / "lab.json").read_text())
    images = {key: lab["image"][key] for key in ("index", "amd64", "arm64")}
    said = {
        "names": ",".join(node["name"] for node in lab["nodes"]),
        "addresses": ",".join(node["address"] for node in lab["nodes"]),
        "overlay": {
            "hardware": lab["profile"], "layout": "gb300-tp8",
            "ssh": {"user": lab["ssh"]["user"], "key_file": f"{PROJECT}/key", "known_hosts_file": f"{PROJECT}/known_hosts"},
            "packages": {"key_url": lab["apt"]["key_url"], "key_fingerprint": lab["apt"]["key_fingerprint"]},
            "image": {"repository": lab["image"]["reference"].rpartition(":")[0]},
            "simulation": {"image": images},
        },
    }  # fmt: skip
    (folder / "inventories").mkdir()
    (folder / "group_vars").mkdir()
    texts = {
        "inventories/night.py": INVENTORY, "inventories/lab.json": json.dumps(said), "tell": TELL,
        "group_vars/all.yaml": (ROOT / "group_vars/all.yaml").read_text(),
        "group_vars/lab.yaml": (ROOT / "group_vars/lab.yaml").read_text(),
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text)
        put(rack, folder / name, f"{PROJECT}/{name}")
    (folder / "inventories/control.py").write_text(CONTROL_INVENTORY)
    (folder / "group_vars/all.yaml").write_text(json.dumps({"nightly": NIGHTLY}))
    put(rack, Path(lab["ssh"]["key"]), f"{PROJECT}/key")
    put(rack, Path(lab["ssh"]["known_hosts"]), f"{PROJECT}/known_hosts")
    rack.ssh(CONTROL, f"chmod 755 {PROJECT}/tell")


def deploy(rack: Rack, folder: Path) -> tuple[int, list[object], str]:
    done = rack.run("pyinfra", "-y", "--json", str(folder / "inventories/control.py"), "deploys/nightly.py")
    results = json.loads(done.stdout)["results"] if done.stdout.strip() else {}
    return done.returncode, results.get("operations", []), done.stderr


def started(rack: Rack) -> dict[str, str]:
    """Start the service as the timer does, wait for its end, and what systemd says of it."""
    shown = rack.ssh(
        CONTROL, f"systemctl start {SERVICE}; systemctl show {SERVICE} -p Result -p ExecMainStatus -p User"
    )
    return dict(line.split("=", 1) for line in shown.splitlines())


def test_installed_fired_and_in_place(control: tuple[Rack, Path]) -> None:
    rack, folder = control
    code, operations, log = deploy(rack, folder)
    assert code == 0 and operations, log[-3000:]
    timer = rack.ssh(
        CONTROL, "systemctl show rackproof-nightly.timer -p ActiveState -p Persistent -p RandomizedDelayUSec"
    )
    assert set(timer.split()) == {"ActiveState=active", "Persistent=yes", "RandomizedDelayUSec=10min"}
    code, operations, log = deploy(rack, folder)
    assert (code, operations) == (0, []), log[-3000:]
    rack.ssh(CONTROL, f"chown rackproof {PROJECT}/key && chmod 600 {PROJECT}/key")
    # Nothing was accepted yet: it could not compare, and that is red.
    assert started(rack) == {"Result": "exit-code", "ExecMainStatus": "2", "User": "rackproof"}
    rack.ssh(CONTROL, f"{AS_USER} drift accept {NIGHTLY['inventory']} --store {STORE}")
    assert started(rack) == {"Result": "success", "ExecMainStatus": "0", "User": "rackproof"}
    kept = rack.ssh(
        CONTROL, f"ls {STORE} {STORE}/reports; stat -c %U {STORE}/history.db; cat {STORE}/told"
    ).splitlines()
    assert {"accepted", "evidence", "verdict.json", "verdict.xml", "drift.json", "drift.md", "rackproof"} <= set(kept)
    word = NIGHTLY["on_change"][1]
    assert kept[-2:] == [f"{word}||accept|2", f"{word}|accept|accept|0"]
    history = json.loads(rack.ssh(CONTROL, f"{AS_USER} drift history tray01 --json --store {STORE}"))
    assert [run["problem"] is None for run in history["runs"]] == [False, True]


def test_what_a_person_has_to_put_right_is_said_and_nothing_is_changed(control: tuple[Rack, Path]) -> None:
    rack, folder = control
    site = folder / "group_vars/all.yaml"
    for wrong, words in (
        ({"venv": "/opt/none"}, "/opt/none/bin/rackproof does not run"),
        ({"at": "at noon-ish"}, "cannot read"),
    ):
        site.write_text(json.dumps({"nightly": {**NIGHTLY, **wrong}}))
        code, _, log = deploy(rack, folder)
        assert code != 0 and words in log, log[-2000:]
    site.write_text(json.dumps({"nightly": NIGHTLY}))
    assert deploy(rack, folder)[1] == []
