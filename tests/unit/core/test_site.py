"""The site: merge order, the line each value came from, and what group_vars may hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from core_builders import Rack

from rackproof import site as sites
from rackproof.errors import InputError
from rackproof.sourced import Cell

FINGERPRINT = "EB693B3035CD5710E231E123A4B469963BF863CC"


def test_later_files_win_value_by_value(site_folder: Rack) -> None:
    site_folder.group("all", "# all\nssh:\n  user: ops\n  port: 2222\ndriver: {version: '580.1'}\n")
    site_folder.group("rack", "ssh:\n\n  port: 22\ngpus: {expect_idle: false}\n")
    site_folder.group("row", "\n\n\nssh: {port: 23}\n")
    site = site_folder.site("rack", "row")
    assert site.get("ssh", "user") == Cell("ops", "group_vars/all.yaml:3")
    assert site.get("ssh", "port") == Cell(23, "group_vars/row.yaml:4")
    assert site.get("gpus", "expect_idle") == Cell(False, "group_vars/rack.yaml:4")
    assert site.get("driver", "version") == Cell("580.1", "group_vars/all.yaml:5")
    line = next(n for n, text in enumerate(sites.SHIPPED.read_text().splitlines(), 1) if text.startswith("image:"))
    assert site.get("image", "id") == Cell("v028", f"rackproof/site_defaults.yaml:{line}")
    assert site_folder.site("row", "rack").value("ssh", "port") == 22


def test_reading_a_site(site_folder: Rack) -> None:
    site = site_folder.site()
    assert site.get("layout") is None
    assert site.value("layout", default="none") == "none"
    assert site.value("ssh", "sudo") is False
    assert {key: cell.value for key, cell in site.under("ssh").items()} == {"user": "root", "port": 22, "sudo": False}
    assert site.under("simulation") == {}
    with pytest.raises(InputError, match=r"group_vars: nothing sets packages.key_url"):
        site.require("packages", "key_url")
    assert site.require("driver", "version").value == "580.126.20"


def test_overlay_goes_on_top_and_leaves_the_site_alone(site_folder: Rack) -> None:
    site = site_folder.site("gb300")
    digest = "sha256:" + "0" * 64
    simulation = {"image": {"index": digest}, "operating_systems": ["debian 13"]}
    over = site.overlaid({"ssh": {"port": 2200}, "simulation": simulation}, "the lab")
    assert over.get("ssh", "port") == Cell(2200, "the lab")
    assert over.get("ssh", "user") == site.get("ssh", "user")
    assert over.get("simulation", "image", "index") == Cell(digest, "the lab")
    assert over.value("simulation", "operating_systems") == ("debian 13",)
    assert site.value("ssh", "port") == 22
    with pytest.raises(InputError, match="the lab: unknown key 'sshh'"):
        site.overlaid({"sshh": {}}, "the lab")


def test_which_files_there_must_be(site_folder: Rack) -> None:
    assert site_folder.site("a-group-without-a-file") == site_folder.site()
    (site_folder.folder / "group_vars" / "all.yaml").unlink()
    with pytest.raises(InputError, match=r"group_vars/all\.yaml: there is no such file"):
        site_folder.site("gb300")


def test_one_file_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("driver:\n  version: '580.95.05'\n")
    site = sites.from_file(path)
    assert site.get("driver", "version") == Cell("580.95.05", f"{tmp_path.name}/mine.yaml:2")
    assert site.value("recipe") == "kimi_k3"
    monkeypatch.chdir(tmp_path)
    assert sites.from_file(Path("mine.yaml")).get("driver", "version") == Cell("580.95.05", "mine.yaml:2")


def test_the_shipped_defaults_pin_nothing() -> None:
    site = sites.shipped()
    assert site.get("driver", "version") is None
    assert site.get("container", "toolkit_version") is None
    assert site.get("hardware") is None
    assert not site.under("packages")


@pytest.mark.parametrize(
    ("text", "line", "problem", "accepted"),
    [
        ("drvier: {version: '580.1'}", 1, "unknown key 'drvier' in the file", "driver"),
        ("driver:\n  versoin: '580.1'", 2, "unknown key 'versoin' in driver", "version"),
        ("driver: {version: 580.126}", 1, "driver.version is 580.126, a float", "string"),
        ("driver: {version: '580'}", 1, "driver.version is '580'", "a version in quotes"),
        ("driver: {version: '580.126.x'}", 1, "driver.version is '580.126.x'", "a version in quotes"),
        ("driver: {version: '580.126.20; reboot'}", 1, "driver.version is", "a version in quotes"),
        ("driver: {version: \"580.126.20\\n\"}", 1, "driver.version is '580.126.20\\n'", "a version in quotes"),
        ("driver: {version: '\u0665\u0668\u0660.\u0661'}", 1, "driver.version is", "a version in quotes"),
        ("driver:", 1, "driver is None", "object"),
        ("packages: {key_fingerprint: eb693b3035cd5710e231e123a4b469963bf863cc}", 1, "packages.key_fingerprint is", "upper-case"),
        (f"packages: {{key_fingerprint: {FINGERPRINT[:-8]}}}", 1, "packages.key_fingerprint is", "40 upper-case hex digits"),
        (f"packages: {{key_fingerprint: \"{FINGERPRINT}\\n\"}}", 1, "packages.key_fingerprint is", "40 upper-case hex digits"),
        ("image: {repository: vllm/vllm-openai:v1@x}", 1, "image.repository is", "registry and path of a mirror"),
        ("image: {repository: \"a.example/vllm\\n\"}", 1, "image.repository is", "registry and path of a mirror"),
        ("simulation:\n  image: {index: 'sha256:12', amd64: x, arm64: x}", 2, "simulation.image.", "sha256: and 64 hex digits"),
        ("ssh: {port: 0}", 1, "ssh.port: 0 is less than", ""),
        ("ssh: {port: 65536}", 1, "ssh.port: 65536 is greater than", ""),
        ("ssh: {port: '22'}", 1, "ssh.port is '22'", "integer"),
        ("ssh: {user: ''}", 1, "ssh.user: '' ", ""),
        ("container: {engine: containerd}", 1, "container.engine is 'containerd'", "docker, podman"),
        ("simulation: {architecture: arm64}", 1, "simulation.architecture is 'arm64'", "x86_64, aarch64"),
        ("gpus: {expect_idle: 'yes'}", 1, "gpus.expect_idle is 'yes'", "boolean"),
        ("reboot:\n  allow: true\n  batch: 0", 3, "reboot.batch: 0 is less than", ""),
        ("- hardware: gb300", 1, "holds a list", "a mapping"),
    ],
)  # fmt: skip
def test_mistakes(site_folder: Rack, text: str, line: int, problem: str, accepted: str) -> None:
    path = site_folder.group("gb300", text + "\n")
    with pytest.raises(InputError) as caught:
        site_folder.site("gb300")
    assert caught.value.where == f"{path}:{line}"
    assert caught.value.problem.startswith(problem)
    assert accepted in caught.value.accepted


def test_the_repository_s_own_site_is_valid() -> None:
    folder = Path(__file__).parents[3] / "group_vars"
    for path in folder.glob("*.yaml"):
        assert sites.load(folder, [path.stem]).value("recipe") == "kimi_k3"
