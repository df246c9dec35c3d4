"""The nightly run on a control host: a user of its own, a service and a timer. Adds nothing where all of it is in place.

What the service does is `rackproof nightly`; cron or CI may call that as well.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from dataclasses import dataclass
from typing import Any

from pyinfra import host as current_host
from pyinfra import logger
from pyinfra.api import FactBase

from rackproof.control import site_of
from rackproof.deploy import operations
from rackproof.deploy.transport import keep_alive
from rackproof.errors import RackproofError
from rackproof.inventory import refuse
from rackproof.launch.quoting import systemd, systemd_path, systemd_text
from rackproof.managed import File
from rackproof.site import Site

SERVICE = "/etc/systemd/system/rackproof-nightly.service"
TIMER = "/etc/systemd/system/rackproof-nightly.timer"
SETTINGS = "/etc/rackproof/nightly.yaml"
_HEADER = "# Managed by rackproof (deploys/nightly.py); the next deploy undoes changes here.\n"
STEP_S = 120


@dataclass(frozen=True)
class Nightly:
    """What the site says under `nightly:`."""

    user: str
    venv: str
    project: str
    inventory: str
    store: str
    at: str
    jitter_s: int
    deadline_s: int
    settings: str  # what `rackproof nightly --settings` reads, as text

    @classmethod
    def of(cls, site: Site) -> Nightly:
        names = [name for name in cls.__dataclass_fields__ if name != "settings"]
        said = {name: cell.value for name, cell in site.under("nightly").items()}
        settings = json.dumps({"nightly": said}, indent=1, sort_keys=True)  # JSON is YAML
        return cls(**{name: site.require("nightly", name).value for name in names}, settings=f"{_HEADER}{settings}\n")

    @property
    def program(self) -> str:
        return f"{self.venv}/bin/rackproof"

    @property
    def files(self) -> tuple[File, ...]:
        return (
            File("nightly", SETTINGS, self.settings),
            File("nightly", SERVICE, self._service()),
            File("nightly", TIMER, self._timer()),
        )

    def _service(self) -> str:
        """A oneshot service has no other deadline than that of its start. Every exit code but 0 makes the unit failed."""
        words = (self.program, "nightly", self.inventory, "--settings", SETTINGS, "--plain")
        return f"""{_HEADER}[Unit]
Description=rackproof: nightly run of {systemd_text(self.inventory)}
Documentation=https://www.freedesktop.org/software/systemd/man/systemd.timer.html
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
User={self.user}
WorkingDirectory={systemd_text(self.project)}
ExecStart={" ".join(systemd(word) for word in words)}
TimeoutStartSec={self.deadline_s}
KillMode=control-group
Nice=10
UMask=0027
NoNewPrivileges=yes
PrivateTmp=yes
ProtectSystem=strict
ProtectHome=read-only
ReadWritePaths={systemd_path(self.store)}
"""

    def _timer(self) -> str:
        """Persistent: a run that was missed while the host was down is made up for when it is back."""
        return f"""{_HEADER}[Unit]
Description=rackproof: nightly run, by the clock

[Timer]
OnCalendar={systemd_text(self.at)}
RandomizedDelaySec={self.jitter_s}
Persistent=true

[Install]
WantedBy=timers.target
"""


class ControlState(FactBase[Any]):
    """What is there, as `name=value` lines; one round trip."""

    def command(self, wanted: Nightly) -> str:
        user, program, store = (shlex.quote(text) for text in (wanted.user, wanted.program, wanted.store))
        inventory = shlex.quote(f"{wanted.project}/{wanted.inventory}")
        hashes = "\n".join(
            f"echo {file.path}=$(sha256sum < {file.path} 2>/dev/null | cut -d' ' -f1)" for file in wanted.files
        )
        return f"""sh -c {
            shlex.quote(f'''
echo systemd=$(test -d /run/systemd/system && echo yes)
echo uid=$(id -u {user} 2>/dev/null)
echo program=$(cd / && {program} --version 2>/dev/null | tail -n 1)
echo owner=$(stat -c %U {store} 2>/dev/null)
echo mode=$(stat -c %a {store} 2>/dev/null)
echo calendar=$(systemd-analyze calendar {shlex.quote(wanted.at)} >/dev/null 2>&1 && echo yes)
echo inventory=$(test -r {inventory} && echo yes)
echo enabled=$(systemctl is-enabled rackproof-nightly.timer 2>/dev/null)
echo active=$(systemctl is-active rackproof-nightly.timer 2>/dev/null)
{hashes}
echo end=yes
''')
        }"""

    @staticmethod
    def default() -> Any:
        return None

    def process(self, output: list[str]) -> Any:
        return dict(line.partition("=")[::2] for line in output if "=" in line)


def bring_about() -> None:
    """Decide from one reading what to change on the control host that pyinfra is preparing."""
    name = current_host.name
    try:
        wanted = Nightly.of(site_of(name))
    except RackproofError as error:
        refuse(error)
    keep_alive(current_host)
    there = current_host.get_fact(ControlState, wanted=wanted, _timeout=STEP_S)
    problem = problem_of(wanted, there)
    if problem is not None:
        operations.stop(name=f"Stop: {problem}", reason=f"{name}: {problem}")
        return
    steps = script(wanted, there)
    if steps:
        operations.plain(name="Make the user and the folder of the nightly run", script=steps, _timeout=STEP_S)
    changed = [file for file in wanted.files if there.get(file.path) != _sha256(file)]
    on = there.get("enabled") == "enabled" and there.get("active") == "active"
    start = "systemctl daemon-reload\nsystemctl enable --quiet rackproof-nightly.timer\nsystemctl restart rackproof-nightly.timer"
    if changed:
        install = f"{operations.writing(changed)}{start}"
        operations.plain(name="Install the nightly service and timer", script=install, _timeout=STEP_S)
    elif not on:
        operations.plain(name="Start the nightly timer", script=start, _timeout=STEP_S)
    if not steps and not changed and on:
        logger.info(f"{current_host.print_prefix}nightly: in place")


def problem_of(wanted: Nightly, there: dict[str, str] | None) -> str | None:
    """What a person has to put right first, with the next step."""
    if there is None or there.get("end") != "yes":
        return "the control host cannot be read, so nothing is changed"
    if there.get("systemd") != "yes":
        return "does not run systemd: use the cron line or the CI job of docs/nightly.md"
    if not there.get("program", "").startswith("rackproof"):
        return (
            f"{wanted.program} does not run: make it there with `python3 -m venv {wanted.venv}` and "
            f"`{wanted.venv}/bin/pip install rackproof`, or say nightly.venv"
        )
    if there.get("inventory") != "yes":
        return f"there is no {wanted.project}/{wanted.inventory}: put the site there, or say nightly.project"
    if there.get("calendar") != "yes":
        return f"nightly.at is {wanted.at!r}, which systemd cannot read; accepted: see `man systemd.time`"
    return "the user of the nightly run is root" if there.get("uid") == "0" else None


def script(wanted: Nightly, there: dict[str, str]) -> str:
    """Steps for the user and its folder; "" where both are there."""
    user, store = shlex.quote(wanted.user), shlex.quote(wanted.store)
    steps = []
    if not there.get("uid"):
        steps.append(
            f"useradd --system --user-group --home-dir {store} --no-create-home --shell /usr/sbin/nologin {user}"
        )
    if there.get("owner") != wanted.user or there.get("mode") != "750":
        steps.append(f"install -d -m 750 -o {user} -g {user} {store}")
    return "\n".join(steps)


def _sha256(file: File) -> str:
    return hashlib.sha256(file.content.encode()).hexdigest()
