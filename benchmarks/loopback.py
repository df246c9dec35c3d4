"""SSH nodes on this machine: sshd processes of our own on 127.0.0.x and a high port, with keys of their own.

Runs as any user: each node is this machine, and one logs in as oneself. Nothing outside the given folder is written
(but for /run/sshd, which a root sshd insists on), and every process started here is ended here.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

PER_PROCESS = 16  # ListenAddress lines that one sshd takes
SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


class LoopbackNodes:
    """`count` nodes as a context: their addresses, a client key, a known_hosts file and a log of what they did."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder, self.user = folder, getpass.getuser()
        self.addresses = [f"127.0.{number // 250}.{number % 250 + 2}" for number in range(count)]
        self.port = _free_port()
        self.key, self.known_hosts, self.log = folder / "client", folder / "known_hosts", folder / "sshd.log"
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> LoopbackNodes:
        for name in ("host", "client"):
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name))
        public = (self.folder / "host.pub").read_text()
        self.known_hosts.write_text("".join(f"[{address}]:{self.port} {public}" for address in self.addresses))
        shutil.copy(self.folder / "client.pub", self.folder / "authorized_keys")
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        try:
            for at in range(0, len(self.addresses), PER_PROCESS):
                self._start(at, self.addresses[at : at + PER_PROCESS])
            for address in self.addresses:
                self._wait(address)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            process.wait(timeout=10)

    def _start(self, number: int, addresses: list[str]) -> None:
        config = self.folder / f"sshd-{number}.conf"
        lines = [
            f"Port {self.port}", *(f"ListenAddress {address}" for address in addresses),
            f"HostKey {self.folder / 'host'}", f"AuthorizedKeysFile {self.folder / 'authorized_keys'}",
            "PidFile none", "UsePAM no", "StrictModes no", "PasswordAuthentication no", "PermitRootLogin prohibit-password",
            "KbdInteractiveAuthentication no", "MaxStartups 2000", "MaxSessions 100", "UseDNS no", "LogLevel VERBOSE",
        ]  # fmt: skip
        config.write_text("\n".join(lines) + "\n")
        self._processes.append(
            subprocess.Popen(
                [str(SSHD), "-D", "-E", str(self.log), "-f", str(config)], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,  # a Ctrl-C is ours first
            )
        )  # fmt: skip

    def _wait(self, address: str) -> None:
        end = time.monotonic() + 20
        while True:
            try:
                with socket.create_connection((address, self.port), timeout=1) as connection:
                    connection.recv(4)  # so that sshd logs no reset
                return
            except OSError:
                if time.monotonic() > end or any(process.poll() is not None for process in self._processes):
                    raise RuntimeError(f"sshd does not listen: {self._said()}") from None
                time.sleep(0.05)

    def _said(self) -> str:
        return self.log.read_text()[-500:] if self.log.exists() else "no log"

    def site(self) -> Path:
        """Site values with which rackproof reaches these nodes."""
        path = self.folder / "site.yaml"
        path.write_text(
            f"ssh:\n  user: {self.user}\n  port: {self.port}\n  key_file: {self.key}\n"
            f"  known_hosts_file: {self.known_hosts}\n  sudo: false\n"
        )
        return path

    def targets(self) -> list[str]:
        return [f"{self.user}@{address}" for address in self.addresses]

    def ssh_options(self) -> dict[str, str]:
        """Options for ssh(1), as in ssh_config(5)."""
        return {
            "Port": str(self.port), "User": self.user, "IdentityFile": str(self.key), "IdentitiesOnly": "yes",
            "UserKnownHostsFile": str(self.known_hosts), "StrictHostKeyChecking": "yes", "BatchMode": "yes",
            "LogLevel": "ERROR",
        }  # fmt: skip


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _run(*words: str) -> None:
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
