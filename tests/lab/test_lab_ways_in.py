"""Ways to a node in the rack: a real container of a real docker, and a tray that only its neighbour can reach."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import BIN, ROOT, Rack
from rackproof_lab import describe

pytestmark = [pytest.mark.lab, pytest.mark.long]

# dash and coreutils, and nothing else: less than any distribution's image.
BOX = """set -e
tools='sh cat cksum cp date dd df head id mkfifo mktemp mv od readlink rm sed grep awk sha256sum sleep sort stat tail
timeout tr uname wc xargs find getent getconf ls cut touch'
for t in $tools; do command -v "$t"; done | sed 's,^/,,' >/tmp/box
ldd $(sed 's,^,/,' /tmp/box) | grep -o '/[^ :]*\\.so[^ :]*' | sort -u | sed 's,^/,,' >>/tmp/box
tar -C / -ch --no-recursion tmp -T /tmp/box | docker import - box >/dev/null
docker run -d --name box --network none --entrypoint /usr/bin/sleep box 900
docker create --name stopped --network none --entrypoint /usr/bin/sleep box 900
"""


@pytest.fixture
def engine(lab: Rack, tmp_path: Path) -> Iterator[dict[str, str]]:
    """tray01's docker as this machine's own, by a socket that ssh forwards."""
    lab.ssh("tray01", BOX)
    end, config = tmp_path / "docker.sock", str(describe(lab.env["RACKPROOF_LAB_ID"])["ssh"]["config"])
    words = [str(BIN / "rackproof-lab"), "exec", "ssh", "-F", config, "-nNT", "-L", f"{end}:/run/docker.sock", "tray01"]
    tunnel = subprocess.Popen(words, cwd=ROOT, env=lab.env, start_new_session=True)
    try:
        while not end.exists():
            assert tunnel.poll() is None, "ssh ended before it forwarded anything"
        yield {"DOCKER_HOST": f"unix://{end}"}
    finally:
        os.killpg(tunnel.pid, signal.SIGTERM)
        tunnel.wait(timeout=30)
        lab.ssh("tray01", "docker rm -f box stopped >/dev/null; docker rmi box >/dev/null")


def test_a_container(lab: Rack, engine: dict[str, str]) -> None:
    done = lab.run("rackproof", "verify", "@docker/box", "--json", "-", env=engine)
    assert done.returncode in (1, 2), done.stderr[-2000:]
    (node,) = json.loads(done.stdout)["nodes"]
    assert node["node"] == "@docker/box" and node["evidence_sha256"]
    assert lab.ssh("tray01", "docker exec box ls -A /tmp").strip() == ""


def test_a_stopped_container_stays_as_it_is(lab: Rack, engine: dict[str, str]) -> None:
    done = lab.run("rackproof", "verify", "@docker/stopped", "--json", "-", env=engine)
    assert done.returncode == 2 and "is not running" in done.stdout
    assert lab.ssh("tray01", "docker inspect -f '{{.State.Status}}' stopped").strip() == "created"


def test_a_tray_behind_another(lab: Rack, tmp_path: Path) -> None:
    about = describe(lab.env["RACKPROOF_LAB_ID"])
    door, hidden = (node["address"] for node in about["nodes"][:2])
    config, site = tmp_path / "ssh_config", tmp_path / "site.yaml"
    ssh = about["ssh"]
    config.write_text(
        f"Host hidden\n  HostName {hidden}\n  ProxyJump door\n"
        f"Host door\n  HostName {door}\n  User root\n  IdentityFile {ssh['key']}\n  UserKnownHostsFile {ssh['known_hosts']}\n"
    )
    site.write_text(
        f"ssh: {{user: root, key_file: {ssh['key']}, known_hosts_file: {ssh['known_hosts']}, config_file: {config}}}\n"
    )
    rule = f"INPUT -p tcp --dport 22 ! -s {door} -m conntrack --ctstate NEW -j REJECT"
    lab.ssh("tray02", f"iptables -I {rule}")
    try:
        direct = lab.run("rackproof-lab", "exec", "rackproof", "verify", f"root@{hidden}", "--site", str(site), "--json", "-")
        assert "unreachable" in direct.stdout, direct.stderr
        done = lab.run(
            "rackproof-lab", "exec", "rackproof", "verify", "hidden", "--site", str(site), "--json", "-"
        )
        document = json.loads(done.stdout)
        assert document["nodes"][0]["evidence_sha256"], done.stdout[-2000:]
    finally:
        lab.lab("exec", "ssh", "-F", str(ssh["config"]), "-J", "tray01", "tray02", f"iptables -D {rule}")
