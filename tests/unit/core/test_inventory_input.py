"""Inventories that are wrong: one clear message each, before anything is contacted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from core_builders import GB300, Rack

import rackproof
from rackproof.errors import InputError
from rackproof.inventory import load_targets

FILE = "rack.py"
MISTAKES = [
    ("layout", 'rack("tray[01-02]", group="typo")', "group_vars/typo.yaml:2: no layout 'gb300-tp9' in recipe kimi_k3"),
    ("yaml", 'rack("tray[01-02]", group="bad")', "{folder}/group_vars/bad.yaml:3: not valid YAML: "),
    ("variable", 'rack("tray[01-02]", group="unknown")', "{folder}/group_vars/unknown.yaml:2: unknown key 'lay_out' in the file"),
    ("no-group", 'rack("tray[01-02]", group="nobody")', "{file}: group 'nobody' has no file"),
    ("key-file", 'rack("tray[01-02]", group="key")', "group_vars/key.yaml:3: ssh.key_file is '/no/such/key', and there is no"),
    ("homeless", 'rack("tray[01-03]", group="gb300")',
     "{file}: host tray03 is in no deployment unit (layout gb300-tp8 takes 2 nodes)\n  accepted: every host in one unit"),
    ("homeless-declared", 'rack("tray[01-03]", group="gb300", units=["tray[01-02]"])', "{file}: host tray03 is in no deployment"),
    ("too-few", 'rack("tray01", group="gb300")', "{file}: host tray01 is in no deployment unit"),
    ("twice-in-nodeset", 'rack("tray[01-02,02]", group="gb300")', "{file}: host tray02 is named twice"),
    ("twice-in-units", 'rack("tray[01-02]", group="gb300", units=["tray[01-02]", "tray02"])', "{file}: host tray02 is named twice"),
    ("unit-and-spare", 'rack("tray[01-02]", group="gb300", units=["tray[01-02]"], spares="tray01")',
     "{file}: host tray01 is named twice"),
    ("twice-in-racks", 'rack("tray[01-02]", group="gb300"); rack("hgx1,tray02", group="b300")',
     "inventory: host tray02 is named twice"),
    ("stranger", 'rack("tray[01-02]", group="gb300", units=["tray[02-03]"])',
     "{file}: tray03 is in a unit but not in the rack\n  accepted: tray[01-02]"),
    ("strange-spare", 'rack("tray[01-02]", group="gb300", spares="tray09")', "{file}: tray09 is in a unit but not in the rack"),
    ("addresses", 'rack("tray[01-02]", group="gb300", addresses="10.0.0.[1-3]")', "{file}: 2 nodes and 3 addresses"),
    ("address-twice", 'rack("tray[01-02]", group="gb300", addresses="10.0.0.1,10.0.0.1")', "{file}: host 10.0.0.1 is named twice"),
    ("nodeset", 'rack("tray[01-", group="gb300")', "{file}: 'tray[01-' is not a nodeset"),
    ("domain", 'rack("hgx[1-2]", group="b300", nvlink_domain="r")',
     "{file} (NVLink domain r): the NVLink domain has 2 nodes\n  accepted: at most 1"),
    ("no-rack", "x = 1", "inventory: holds no rack"),
    ("syntax", "rack(", "{file}: cannot be run: SyntaxError: "),
    ("crash", "1 / 0", "{file}: cannot be run: ZeroDivisionError: division by zero"),
    ("exit", "raise SystemExit(0)", "{file}: cannot be run: SystemExit: 0"),
    ("import", "import no_such_module", "{file}: cannot be run: ModuleNotFoundError: "),
    ("argument", 'rack("tray01", group="gb300", unit=[])', "{file}: cannot be run: TypeError: "),
]  # fmt: skip


@pytest.fixture
def bad_site(site_folder: Rack) -> Rack:
    site_folder.group("typo", GB300.replace("gb300-tp8", "gb300-tp9"))
    site_folder.group("bad", "hardware: gb300\nlayout: [\n")
    site_folder.group("unknown", "hardware: gb300\nlay_out: gb300-tp8\n")
    site_folder.group("key", "hardware: gb300\nlayout: gb300-tp8\nssh: {key_file: /no/such/key}\n")
    return site_folder


@pytest.mark.usefixtures("no_contact")
@pytest.mark.parametrize(("code", "message"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_one_clear_message(bad_site: Rack, code: str, message: str) -> None:
    path = bad_site.inventory(code)
    with pytest.raises(InputError) as caught:
        load_targets([path])
    assert str(caught.value).startswith(message.format(folder=bad_site.folder, file=path))


@pytest.mark.usefixtures("no_contact")
@pytest.mark.parametrize(
    ("targets", "limit", "message"),
    [
        (["no/such.py"], None, "no/such.py: there is no such inventory file"),
        ([], None, "command line: names no node\n  accepted: an inventory file, root@tray[01-18], or @local"),
        (["root@"], None, "command line: '' names no node"),
        (["root@tray[01-"], None, "command line: 'tray[01-' is not a nodeset"),
        (["root@a,root@b"], None, "command line: 'root@a,root@b' names no node\n  accepted: one user@ before"),
        (["@a"], None, "command line: '@a' names no node"),
        (["@docker/"], None, "command line: '' names no node"),
        (["@docker/vllm:v1"], None, "command line: @docker/vllm:v1 names no container\n  accepted: @docker/ and the name of a"),
        (["@docker/--privileged"], None, "command line: @docker/--privileged names no container"),
        (["@ssh/a"], None, "command line: '@ssh/a' names no node"),
        (["a@b@c"], None, "command line: 'a@b@c' names no node"),
        (["a", "b,a"], None, "inventory: host a is named twice"),
        (["@local", "@local"], None, "inventory: host @local is named twice"),
        (["a", "b"], "c", "--limit: c is not in the inventory\n  accepted: a,b"),
        (["a", "b"], "a[", "--limit: 'a[' is not a nodeset"),
    ],
)
def test_a_command_line_that_is_wrong(targets: list[str], limit: str | None, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_targets(targets, limit=limit)
    assert str(caught.value).startswith(message)


@pytest.mark.usefixtures("no_contact")
def test_choices_that_contradict(site_folder: Rack, tmp_path: Path) -> None:
    path = site_folder.inventory('g = rack("tray[01-02]", group="gb300")')
    for choice in ({"hardware": "gb300"}, {"layout": "gb300-tp8"}, {"site_file": tmp_path / "x.yaml"}):
        with pytest.raises(InputError, match="command line: an inventory already says its hardware, layout and site"):
            load_targets([path], **choice)  # type: ignore[arg-type]
    for choice, message in (
        ({"hardware": "gb100"}, "--hardware: no hardware profile 'gb100'"),
        ({"hardware": "b300", "layout": "gb300-tp8"}, "--layout: layout gb300-tp8 is for gb300, not b300"),
        ({"site_file": tmp_path / "none.yaml"}, f"{tmp_path}/none.yaml: there is no such file"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            load_targets(["tray01"], **choice)  # type: ignore[arg-type]


@pytest.mark.usefixtures("no_contact")
def test_a_host_in_two_files(site_folder: Rack) -> None:
    paths = [site_folder.inventory('g = rack("hgx1", group="b300")', name) for name in ("one.py", "two.py")]
    with pytest.raises(InputError, match="inventory: host hgx1 is named twice"):
        load_targets(paths)


def test_under_pyinfra_a_mistake_is_one_message_and_exit_code_3(bad_site: Rack) -> None:
    path = bad_site.inventory('g = rack("tray[01-02]", group="typo")')
    done = subprocess.run(
        [str(Path(sys.executable).with_name("pyinfra")), path, "exec", "--", "true"],
        capture_output=True, text=True, timeout=120, check=False, cwd=bad_site.folder,
        env={**os.environ, "PYTHONPATH": str(Path(rackproof.__file__).parents[1])},
    )  # fmt: skip
    assert done.returncode == 3
    said = done.stdout + done.stderr
    assert said.count("rackproof: ") == 1
    assert "rackproof: group_vars/typo.yaml:2: no layout 'gb300-tp9' in recipe kimi_k3" in said
    assert "Traceback" not in said
