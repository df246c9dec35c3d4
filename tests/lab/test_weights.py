"""Weights from a mirror onto a node: cut off and gone on with, whole or not recorded, never overwritten.

The model is three shards of some kilobytes, the mirror the lab's web server. The programs themselves are tested closer
in tests/unit/weights.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_site import deploy, describe

from conftest import Rack

pytestmark = [pytest.mark.lab, pytest.mark.long]

TRAY, MODELS = "tray03", "/var/lib/models/Kimi-K3"
REVISION = "9f62e4e9fffbd0a83ddd60e1c209d828994b3569"  # the recipe's
SHARDS = [f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3)]
SIZE = 128 * 1024


def model() -> dict[str, bytes]:
    files = {}
    for name in SHARDS:
        header = json.dumps({name: {"dtype": "U8", "shape": [SIZE], "data_offsets": [0, SIZE]}}).encode()
        files[name] = struct.pack("<Q", len(header)) + header + os.urandom(SIZE)
    index = {"metadata": {"total_size": 3 * SIZE}, "weight_map": {f"w{n}": name for n, name in enumerate(SHARDS)}}
    files["model.safetensors.index.json"] = json.dumps(index).encode()
    files["config.json"] = b"{}"
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  ./{name}\n" for name, data in files.items())
    return files | {"SHA256SUMS": sums.encode()}


def _base64(path: Path, size: int) -> str:
    return base64.b64encode(path.read_bytes()[:size]).decode()


class Mirror:
    def __init__(self, rack: Rack, folder: Path) -> None:
        self.rack, self.folder = rack, folder
        self.www = Path(describe(rack)["ca"]).parents[1] / "www"
        (self.www / "debian.lab/k3").mkdir()
        for name, data in model().items():
            (self.www / "debian.lab/k3" / name).write_bytes(data)

    def faults(self, **what: object) -> None:
        (self.www / "faults.json").write_text(json.dumps({f"/k3/{name}": fault for name, fault in what.items()}))

    def deploy(self, deploy_file: str = "weights_only.py", **weights: Any) -> tuple[int, str]:
        values = {
            "weights": {"source": "mirror", "url": "http://debian.lab/k3/", **weights},
            "serving": {"model_directory": MODELS},
            "ssh": {"user": "deploy", "sudo": True},
        }
        return deploy(self.rack, self.folder, deploy_file, TRAY, values)


@pytest.fixture(scope="module")
def mirror(deployed: Rack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirror]:
    found = Mirror(deployed, tmp_path_factory.mktemp("weights"))
    yield found
    (found.www / "faults.json").unlink(missing_ok=True)
    deployed.lab("restore", TRAY)


def test_cut_off_gone_on_with_recorded_and_not_fetched_again(mirror: Mirror) -> None:
    mirror.faults(**{SHARDS[1]: 404})  # final, unlike a cut line, which is tried again for most of a minute
    code, said = mirror.deploy()
    assert code == 1 and f"not everything came: {SHARDS[1]}: curl: (22)" in said, said[-3000:]
    assert mirror.rack.run("rackproof-lab", "ssh", TRAY, f"cat {MODELS}/.rackproof-revision").returncode != 0
    mirror.faults()
    whole = mirror.www / "debian.lab/k3" / SHARDS[1]
    half = f"cat >{MODELS}/{SHARDS[1]}.part"  # what a line that was cut leaves
    done = mirror.rack.run("rackproof-lab", "ssh", TRAY, f"printf %s {_base64(whole, SIZE // 4)} | base64 -d | {half}")
    assert done.returncode == 0, done.stderr
    code, said = mirror.deploy()
    assert code == 0 and f"holds revision {REVISION}, whole" in said, said[-3000:]
    assert mirror.rack.ssh(TRAY, f"cat {MODELS}/.rackproof-revision") == f"{REVISION}\n"
    there = mirror.rack.ssh(TRAY, f"sha256sum <{MODELS}/{SHARDS[1]}").split()[0]
    assert there == hashlib.sha256(whole.read_bytes()).hexdigest()
    assert f'/k3/{SHARDS[1]} HTTP/1.1" 206' in (mirror.www.parent / "web.log").read_text(), (
        "it did not go on where it stopped"
    )
    code, said = mirror.deploy()
    assert code == 0 and "weights: in place" in said


def test_another_revision_is_not_written_over_it(mirror: Mirror) -> None:
    code, said = mirror.deploy(revision="0" * 40)
    assert code == 1 and f"holds revision {REVISION}, and {'0' * 40} is wanted" in said, said[-3000:]
    assert mirror.rack.ssh(TRAY, f"cat {MODELS}/.rackproof-revision") == f"{REVISION}\n"


def test_read_rate_on_request(mirror: Mirror) -> None:
    code, said = mirror.deploy("measure_only.py")
    assert code == 0 and "of 3 shards" in said and "of 3600 s" in said, said[-3000:]


def test_too_little_room_is_said_before_anything_is_fetched(mirror: Mirror) -> None:
    mirror.rack.ssh(TRAY, f"mount -t tmpfs -o size=300k none {MODELS}")
    try:
        code, said = mirror.deploy()
        assert code == 1 and "bytes free and" in said and "nothing is removed for you" in said, said[-3000:]
        assert mirror.rack.ssh(TRAY, f"ls {MODELS}") == ""
    finally:
        mirror.rack.ssh(TRAY, f"umount {MODELS}")
