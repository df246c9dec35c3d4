"""Things the core tests are built of: probes run by real shells, small streams, sites and inventories on disk."""

from __future__ import annotations

import os
import shutil
import subprocess
import textwrap
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from rackproof import site as sites
from rackproof.baseline import Baseline, resolve
from rackproof.evidence.cksum import cksum
from rackproof.evidence.evidence import Evidence
from rackproof.evidence.probe import assemble
from rackproof.evidence.sections import Command, Section, Status
from rackproof.site import Site

EMPTY = 4294967295  # what cksum(1) says of an empty file
NONCE = "nonce-0123456789"
SHELLS = [
    [path, *rest]
    for path, *rest in ((shutil.which("dash"),), (shutil.which("bash"),), (shutil.which("busybox"), "sh"))
    if path
]
SHA = "ab" * 32


class Probe:
    """One run of a probe by a shell, in a temporary directory of its own, its processes marked by an environment."""

    def __init__(self, shell: Sequence[str], folder: Path, commands: Sequence[Command], **environment: str) -> None:
        self.temporary = folder / f"tmp-{uuid.uuid4().hex}"
        self.temporary.mkdir()
        self.mark = f"RACKPROOF_TEST_MARK={uuid.uuid4().hex}"
        name, value = self.mark.split("=")
        self.argv = [*shell, "-c", assemble(commands, NONCE)]
        self.environment = {**os.environ, "TMPDIR": str(self.temporary), name: value, **environment}

    def run(self) -> bytes:
        done = subprocess.run(
            self.argv, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == b""
        return done.stdout

    def processes(self) -> list[int]:
        """Living processes that descend from this run."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "environ").read_bytes().split(b"\0")
                except OSError:
                    continue
                if self.mark.encode() in words:
                    found.append(int(entry.name))
        return found

    def assert_nothing_left(self) -> None:
        wait_until(lambda: not self.processes(), "processes of the probe outlive it")
        assert list(self.temporary.iterdir()) == []


def wait_until(holds: object, what: str) -> None:
    """Wait for something another process does. Half a minute is no expectation, only the end of patience."""
    end = time.monotonic() + 30
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < end, what
        time.sleep(0.01)


def stream(*sections: tuple[str, str], nonce: str = NONCE, count: int | None = None, format_: str = "2") -> bytes:
    """A probe's output as a probe writes it; contents are lines of printable text."""
    lines = [f"#@{nonce} probe format={format_} version=0.1 node=tray01 uid=0 sudo= started=2026-01-01T00:00:00Z"]
    for name, text in sections:
        lines.append(f"#@{nonce} begin {name}")
        lines += [f"|{line}" for line in text.splitlines()]
        size = len(text.encode())
        lines.append(
            f"#@{nonce} end {name} status=ran rc=0 begin=10.00 finish=10.50 stdout={size} "
            f"stdout_cksum={cksum(text.encode())} stderr=0 stderr_cksum={EMPTY} deadline=10"
        )
    lines.append(f"#@{nonce} done begin=10.00 finish=11.25 sections={len(sections) if count is None else count}")
    return "".join(f"{line}\n" for line in lines).encode()


def section(name: str, data: bytes = b"", errors: bytes = b"", rc: int | None = 0) -> Section:
    return Section(name, Status.RAN, rc, 0.25, data, errors, deadline_s=10)


def evidence(node: str = "tray01", problem: str | None = None, **contents: bytes) -> Evidence:
    sections = {name: section(name, data) for name, data in contents.items()}
    return Evidence(node, sections, "0.1", NONCE, "2026-01-01T00:00:00Z", 1.25, problem, SHA)


ALL = """\
driver: {version: "580.126.20"}
container: {toolkit_version: "1.19.1"}
"""
GB300 = """\
hardware: gb300
layout: gb300-tp8
packages:
  repository: https://mirror.example/repo/
  key_url: https://mirror.example/key.pub
  key_fingerprint: EB693B3035CD5710E231E123A4B469963BF863CC
"""
B300 = "hardware: b300\nlayout: b300-tp8\n"


class Rack:
    """A site folder on disk: group_vars/ and inventories/."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "group_vars").mkdir()
        (folder / "inventories").mkdir()
        self.group("all", ALL)
        self.group("gb300", GB300)
        self.group("b300", B300)

    def group(self, name: str, text: str) -> Path:
        path = self.folder / "group_vars" / f"{name}.yaml"
        path.write_text(text)
        return path

    def inventory(self, text: str, name: str = "rack.py") -> str:
        path = self.folder / "inventories" / name
        path.write_text("from rackproof.inventory import rack\n" + textwrap.dedent(text))
        return str(path)

    def site(self, *groups: str) -> Site:
        return sites.load(self.folder / "group_vars", groups)


def baseline(hardware: str = "gb300", layout: str | None = None) -> Baseline:
    return resolve(sites.shipped(), hardware_id=hardware, layout_id=layout)
