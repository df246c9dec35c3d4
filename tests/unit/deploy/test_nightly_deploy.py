"""The nightly deploy: what it writes, what it refuses, and that a control host needs a site that says what to run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from rackproof import control, site
from rackproof.deploy.nightly import SERVICE, SETTINGS, TIMER, ControlState, Nightly, problem_of, script
from rackproof.errors import InputError

GOOD = {"systemd": "yes", "uid": "998", "program": "rackproof, version 0.1.0", "owner": "rackproof", "mode": "750",
        "calendar": "yes", "inventory": "yes", "enabled": "enabled", "active": "active", "end": "yes"}  # fmt: skip


def nightly(**said: Any) -> Nightly:
    return Nightly.of(site.shipped().overlaid({"nightly": {"inventory": "inventories/gb300.py", **said}}, "test"))


def files(**said: Any) -> dict[str, str]:
    return {file.path: file.content for file in nightly(**said).files}


def test_jitter_catching_up_deadline_and_user() -> None:
    written = files(jitter_s=60, deadline_s=900, at="Mon *-*-* 04:00:00")
    assert set(written) == {SERVICE, TIMER, SETTINGS}
    assert {"RandomizedDelaySec=60", "Persistent=true", "OnCalendar=Mon *-*-* 04:00:00"} <= set(
        written[TIMER].splitlines()
    )
    service = set(written[SERVICE].splitlines())
    assert {"TimeoutStartSec=900", "User=rackproof", "Type=oneshot", "ReadWritePaths=/var/lib/rackproof"} <= service
    assert not [line for line in service if line.startswith("SuccessExitStatus")]


def test_settings_arrive_as_they_were_said() -> None:
    command = ["/usr/bin/tell", "100% of $HOME; $(id)", 'a "quote"']
    text = files(on_change=command, keep_runs=5)[SETTINGS]
    read = yaml.safe_load(text)
    site.shipped().overlaid(read, "the settings file")
    assert read["nightly"]["on_change"] == command and read["nightly"]["keep_runs"] == 5


def test_words_of_the_command_line_cannot_become_others() -> None:
    written = files(inventory='inv/a b%i "$X".py', project="/srv/of 100%")
    assert 'nightly "inv/a b%%i \\"$$X\\".py" --settings' in written[SERVICE]
    assert "WorkingDirectory=/srv/of 100%%\n" in written[SERVICE]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for path, text in files(venv="/usr").items():
        (tmp_path / Path(path).name).write_text(text.replace("/usr/bin/rackproof", "/bin/true"))
    units = [str(tmp_path / Path(path).name) for path in (SERVICE, TIMER)]
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    assert "rackproof-nightly" not in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("missing", "words"),
    [({"end": ""}, "cannot be read"), ({"systemd": ""}, "cron line"), ({"program": ""}, "pip install rackproof"),
     ({"inventory": ""}, "there is no /srv/rackproof/inventories/gb300.py"), ({"calendar": ""}, "systemd cannot read"),
     ({"uid": "0"}, "is root")],
)  # fmt: skip
def test_what_a_person_has_to_put_right_first(missing: dict[str, str], words: str) -> None:
    assert problem_of(nightly(), GOOD) is None
    assert words in (problem_of(nightly(), {**GOOD, **missing}) or "")
    assert problem_of(nightly(), None) is not None


def test_user_and_folder_are_made_only_where_they_are_not_there() -> None:
    assert script(nightly(), GOOD) == ""
    assert "useradd --system" in script(nightly(), {**GOOD, "uid": "", "owner": ""})
    assert script(nightly(), {**GOOD, "mode": "755"}).startswith("install -d -m 750")


def test_the_state_of_this_machine_can_be_read() -> None:
    command = ControlState().command(wanted=nightly(user="nobody", venv="/no'where"))
    done = subprocess.run(["sh", "-c", str(command)], capture_output=True, text=True, check=False)
    there = ControlState().process(done.stdout.splitlines())
    assert there["end"] == "yes" and there["program"] == "" and there["uid"].isdigit()


@pytest.mark.parametrize(
    "said", [{"user": "root"}, {"user": "a b"}, {"venv": "opt"}, {"on_change": []}, {"at": "a\nb"}]
)
def test_a_site_that_cannot_be_meant_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        nightly(**said)


def test_control_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_sites", {})
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "inventories").mkdir()
    (tmp_path / "group_vars/all.yaml").write_text("{}")
    inventory = tmp_path / "inventories/control.py"

    def run(call: str) -> Any:
        inventory.write_text(f"from rackproof.control import control\ngroup = {call}\n")
        space: dict[str, Any] = {"__file__": str(inventory), "__name__": "inventory"}
        exec(compile(inventory.read_text(), str(inventory), "exec"), space)  # noqa: S102 - as pyinfra runs it
        return space["group"]

    with pytest.raises(InputError, match=r"nothing sets nightly\.inventory"):
        run('control("c1")')
    (tmp_path / "group_vars/all.yaml").write_text("nightly: {inventory: inventories/x.py}")
    hosts, _ = run('control("c[1-2]", addresses="10.0.0.[1-2]")')
    assert [(name, data["ssh_hostname"]) for name, data in hosts] == [("c1", "10.0.0.1"), ("c2", "10.0.0.2")]
    assert control.site_of("c1").value("nightly", "inventory") == "inventories/x.py"
    with pytest.raises(InputError, match="host c1 is named twice"):
        run('control("c1")')
    with pytest.raises(InputError, match="c9: is no control host"):
        control.site_of("c9")
