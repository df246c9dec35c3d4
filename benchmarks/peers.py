"""The other ways to run the same checks on the same nodes: a bare ssh loop, testinfra, ansible.

Each is run as its own documentation shows it, from a virtual environment of its own. The methods that batch run the whole
probe. Those that go check by check run one command a check, the cheapest there is, in their favour: what they cost is the
way to the node and back.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import venv
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from loopback import LoopbackNodes

AT_ONCE = 64  # ssh clients of the bare loop
FORKS = 50  # of ansible; its own default is 5
WORKERS = 8  # of xdist
COMMAND = "cat /proc/cmdline"  # of every check of the methods that go check by check
# pytest 9.2.0 and xdist's loadgroup do not go together.
PACKAGES = ("ansible-core", "pytest<9.2", "pytest-testinfra>=10.2,<11", "pytest-xdist", "paramiko")

_TESTS = """\
import json
import pathlib
import pytest

CHECKS = json.loads((pathlib.Path(__file__).parent / "checks.json").read_text())


@pytest.mark.parametrize("name", CHECKS)
def test_check(host, name):
    assert host.run(CHECKS[name]).rc == 0
"""
_GROUPS = """\
import re
import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.xdist_group(re.search(r"[0-9]+(?:[.][0-9]+){3}", item.name).group()))
"""

# Programs installed by pip come with their byte code; ours, from a checkout, may keep it as well.
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def install(folder: Path) -> Path:
    """A virtual environment with the peers; its bin folder."""
    venv.create(folder, with_pip=True)
    subprocess.run([folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES], check=True)
    return folder / "bin"


class Peers:
    """Each method runs once on all nodes, and fails loudly where it did not do its work."""

    def __init__(self, nodes: LoopbackNodes, program: str, checks: Sequence[str], bin_: Path, limit_s: int) -> None:
        self.nodes, self.program, self.checks, self.bin, self.limit_s = nodes, program, checks, bin_, limit_s
        self.folder = nodes.folder

    def ssh_loop(self) -> None:
        """The floor: OpenSSH, many at once, the probe on standard input; the quick key exchange, as paramiko has."""
        options = {**self.nodes.ssh_options(), "KexAlgorithms": "curve25519-sha256"}
        words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]

        def one(address: str) -> None:
            command = ["ssh", "-F", "none", *words, address, "sh -s"]
            done = subprocess.run(command, input=self.program, capture_output=True, text=True, check=True)
            assert " done begin=" in done.stdout[-200:], address

        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(one, self.nodes.addresses))

    def rackproof(self) -> None:
        """Collect and judge, as a user runs it. Exit code 2: this machine has no GPU, so its verdict is undetermined."""
        words = ["-m", "rackproof.cli", "verify", *self.nodes.targets(), "--site", str(self.nodes.site()), "-q"]
        done = self._run([sys.executable, *words, "--timeout", str(self.limit_s)])
        assert done.returncode == 2 and f"{len(self.nodes.addresses)} node" in done.stdout, done.stderr

    def testinfra_ssh(self) -> None:
        self._testinfra("ssh", {})

    def testinfra_control(self) -> None:
        self._testinfra("ssh", {"ControlMaster": "auto", "ControlPersist": "60s", "ControlPath": "/tmp/rpb-%C"})

    def testinfra_xdist(self) -> None:
        (self.folder / "conftest.py").write_text(_GROUPS)
        words = ["-n", str(WORKERS), "--dist", "loadgroup", "--ssh-identity-file", str(self.nodes.key)]
        self._pytest("paramiko", words)

    def ansible_tasks(self) -> None:
        tasks = "".join(
            f"    - name: {check}\n      ansible.builtin.command: {COMMAND}\n      changed_when: false\n"
            for check in self.checks
        )
        self._ansible(tasks)

    def ansible_script(self) -> None:
        (self.folder / "probe.sh").write_text(self.program)
        self._ansible(f"    - ansible.builtin.script: {self.folder / 'probe.sh'}\n", ANSIBLE_PIPELINING="1")

    def _testinfra(self, backend: str, options: dict[str, str]) -> None:
        config = self.folder / "ssh_config"
        lines = [f"  {key} {value}" for key, value in {**self.nodes.ssh_options(), **options}.items()]
        config.write_text("Host *\n" + "\n".join(lines) + "\n")
        self._pytest(backend, ["-p", "no:xdist", "--ssh-config", str(config)])

    def _pytest(self, backend: str, words: Sequence[str]) -> None:
        (self.folder / "checks.json").write_text(json.dumps(dict.fromkeys(self.checks, COMMAND)))
        (self.folder / "test_checks.py").write_text(_TESTS)
        hosts = ",".join(f"{backend}://{target}:{self.nodes.port}" for target in self.nodes.targets())
        command = [self.bin / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--hosts={hosts}", *words]
        done = self._run([*command, str(self.folder / "test_checks.py")])
        wanted = f"{len(self.checks) * len(self.nodes.addresses)} passed"
        assert wanted in done.stdout, done.stdout[-800:] + done.stderr[-400:]

    def _ansible(self, tasks: str, **environment: str) -> None:
        options = self.nodes.ssh_options()
        inventory = self.folder / "hosts.ini"
        inventory.write_text("[nodes]\n" + "".join(f"{address}\n" for address in self.nodes.addresses))
        playbook = self.folder / "play.yaml"
        playbook.write_text(f"- hosts: nodes\n  gather_facts: false\n  tasks:\n{tasks}")
        common = f"-o UserKnownHostsFile={options['UserKnownHostsFile']} -o ControlMaster=auto -o ControlPersist=60s"
        settings = {
            "ANSIBLE_FORKS": str(FORKS), "ANSIBLE_HOME": str(self.folder / "ansible"), "ANSIBLE_SSH_ARGS": common,
            "ANSIBLE_REMOTE_USER": options["User"], "ANSIBLE_REMOTE_PORT": options["Port"],
            "ANSIBLE_PRIVATE_KEY_FILE": options["IdentityFile"], "ANSIBLE_SSH_CONTROL_PATH_DIR": "/tmp/rpb-ansible",
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable, **environment,
        }  # fmt: skip
        done = self._run([self.bin / "ansible-playbook", "-i", inventory, playbook], **settings)
        answered = done.stdout.count("unreachable=0    failed=0")
        assert done.returncode == 0 and answered == len(self.nodes.addresses), done.stdout[-800:] + done.stderr[-400:]

    def _run(self, words: Sequence[str | Path], **environment: str) -> subprocess.CompletedProcess[str]:
        process = subprocess.Popen(
            words, env={**_ENVIRONMENT, **environment}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, cwd=self.folder, start_new_session=True,
        )  # fmt: skip
        try:
            out, err = process.communicate(timeout=self.limit_s)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # the group that we made, and nothing else
            process.wait()
            raise
        return subprocess.CompletedProcess(list(words), process.returncode, out, err)
