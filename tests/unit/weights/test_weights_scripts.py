"""The programs that fetch weights, run for real: sh, curl and a mirror on loopback; docker and rsync are stand-ins."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mirror_server import INDEX, REVISION, Mirror, model, serving, sums

from rackproof.deploy import weights_scripts as scripts
from rackproof.deploy.weights_read_rate import measure
from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Section, Status
from rackproof.evidence.tools import weights
from rackproof.facts import known
from rackproof.layers.weights.deploy import WeightsState, state_of

pytestmark = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in ("curl", "flock", "xargs")), reason="needs curl, flock and xargs"
)
SECOND = "model-00002-of-00003.safetensors"


class Target:
    """A model directory, and what is run to fill it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.dir = folder, folder / "Kimi K3"
        self.bin = folder / "bin"
        self.bin.mkdir()

    def values(self, **more: object) -> dict[str, Any]:
        return {**scripts.common(str(self.dir), REVISION, slow=False, bytes_=10), "pause": 0, "every": 1, **more}

    def run(self, script: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"}
        return subprocess.run(
            ["sh", "-c", f"set -eu\n{script}"], input=stdin, capture_output=True, text=True, env=env, check=False
        )

    def http(self, url: str, files: str = "", **more: object) -> subprocess.CompletedProcess[str]:
        return self.run(scripts.fetch_http(self.values(url=url, protocols="http", files=files, **more)))

    def state(self) -> WeightsState:
        """As the next deploy would read it: by the probe."""
        sections = {}
        for command in weights.weights_commands(str(self.dir)):
            done = subprocess.run(["sh", "-c", command.script], capture_output=True, check=False)
            sections[command.name] = Section(command.name, Status.RAN, done.returncode, 0.1, done.stdout, b"", deadline_s=30)
        evidence = Evidence("tray01", sections)
        return state_of(known(weights.sized(weights.weights(evidence), weights.headers(evidence))))

    def tool(self, name: str, script: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    @property
    def names(self) -> set[str]:
        return {str(path.relative_to(self.dir)) for path in self.dir.rglob("*") if path.is_file()} - {".rackproof-lock"}


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(tmp_path)


@pytest.fixture
def mirror() -> Mirror:
    found = Mirror()
    found.files["SHA256SUMS"] = sums(found.files)
    return found


@pytest.fixture
def url(mirror: Mirror) -> Iterator[str]:
    with serving(mirror) as address:
        yield address


def refused(done: subprocess.CompletedProcess[str], words: str) -> None:
    assert done.returncode == 1 and words in done.stderr, (done.stdout, done.stderr)
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_from_nothing_to_whole_and_recorded(target: Target, mirror: Mirror, url: str) -> None:
    assert target.state() == WeightsState("", f"there is no {target.dir}")
    done = target.http(url)
    assert done.returncode == 0 and "whole" in done.stdout, done.stderr
    assert target.names == set(model()) | {".rackproof-revision"}
    assert all((target.dir / name).read_bytes() == data for name, data in model().items())
    assert target.state() == WeightsState(REVISION, "")


def test_a_second_run_fetches_nothing(target: Target, mirror: Mirror, url: str) -> None:
    target.http(url)
    mirror.asked.clear()
    assert target.http(url).returncode == 0
    assert {name for method, name, _ in mirror.asked if method == "GET"} == {"SHA256SUMS", ".rackproof-revision"}


def test_a_cut_line_is_resumed_where_it_stopped(target: Target, mirror: Mirror, url: str) -> None:
    mirror.faults[SECOND] = ["cut", "cut", 503]
    assert target.http(url).returncode == 0
    starts = [
        int(asked.removeprefix("bytes=").rstrip("-"))
        for method, name, asked in mirror.asked
        if name == SECOND and asked
    ]
    assert starts and starts == sorted(starts) and starts[0] == len(mirror.files[SECOND]) // 2
    assert (target.dir / SECOND).read_bytes() == mirror.files[SECOND]


def test_a_line_that_is_always_cut_ends_in_words_and_the_next_run_goes_on(
    target: Target, mirror: Mirror, url: str
) -> None:
    mirror.faults[SECOND] = [500] * 20
    refused(target.http(url), f"not everything came: {SECOND}: 5 tries")
    found = target.state()
    assert found.revision == "" and SECOND in found.missing
    mirror.faults.clear()
    assert target.http(url).returncode == 0


def test_a_mirror_without_ranges_is_read_from_the_start(target: Target, mirror: Mirror, url: str) -> None:
    mirror.ranges = False
    mirror.faults[SECOND] = ["cut"]
    assert target.http(url).returncode == 0


def test_changed_bytes_are_refused_and_not_kept(target: Target, mirror: Mirror, url: str) -> None:
    good = mirror.files[SECOND]
    mirror.files[SECOND] = good[:-1] + b"!"
    refused(target.http(url), f"{SECOND}: what the mirror sent has the sha256")
    assert SECOND not in target.names and f"{SECOND}.part" not in target.names
    assert ".rackproof-revision" not in target.names
    mirror.files[SECOND] = good
    assert target.http(url).returncode == 0


def test_without_sums_the_site_names_what_belongs_to_it(target: Target, mirror: Mirror, url: str) -> None:
    del mirror.files["SHA256SUMS"]
    refused(target.http(url), "weights.files must name")
    assert target.http(url, "config.json").returncode == 0
    assert target.names == set(model()) | {".rackproof-revision"}
    refused(target.http(url, "config.json tokenizer.json"), "the mirror answers 404 for tokenizer.json")


def test_a_shard_shorter_than_its_header_says_is_not_whole(target: Target, mirror: Mirror, url: str) -> None:
    mirror.files[SECOND] = mirror.files[SECOND][:-1]
    mirror.files["SHA256SUMS"] = sums({name: data for name, data in mirror.files.items() if name != "SHA256SUMS"})
    done = target.http(url)
    assert done.returncode == 1 and "is not whole" in done.stderr
    found = target.state()
    assert found.revision == ""


def test_the_mirrors_own_revision_counts(target: Target, mirror: Mirror, url: str) -> None:
    mirror.files[".rackproof-revision"] = b"0" * 40 + b"\n"
    refused(target.http(url), f"the mirror holds revision {'0' * 40}")
    mirror.files[".rackproof-revision"] = f"{REVISION}\n".encode()
    assert target.http(url).returncode == 0


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/etc/evil", "-evil", "a;touch evil", "$(evil)", "a//b"])
def test_a_name_that_leaves_the_folder_is_refused(target: Target, mirror: Mirror, url: str, name: str) -> None:
    mirror.files["SHA256SUMS"] += b"0" * 64 + f"  {name}\n".encode()
    refused(target.http(url), "whose name cannot be used")
    assert not list(target.folder.rglob("evil"))


def test_too_little_room_is_said_before_anything_is_fetched(target: Target, mirror: Mirror, url: str) -> None:
    target.tool(
        "df", "case $1 in -PT) echo x; echo 'x ext4 1 1 1 1% /' ;; *) echo x; echo '/dev/x 10 9 1 90% /' ;; esac"
    )
    refused(target.http(url), "has 1024 bytes free and")
    assert target.names == set()


def test_network_storage_needs_a_word(target: Target, mirror: Mirror, url: str) -> None:
    target.tool("df", "case $1 in -PT) echo x; echo 'x nfs4 1 1 1 1% /' ;; *) exec /bin/df \"$@\" ;; esac")
    refused(target.http(url), "lies on nfs4, which is not local storage")
    assert target.http(url, slow=1).returncode == 0


def test_what_is_there_is_never_overwritten(target: Target, mirror: Mirror, url: str) -> None:
    target.dir.mkdir()
    (target.dir / SECOND).write_bytes(b"somebody's")
    refused(target.http(url), f"{SECOND} has 10 bytes and the mirror's has")
    assert (target.dir / SECOND).read_bytes() == b"somebody's"


def test_two_deploys_do_not_fill_one_folder(target: Target, url: str) -> None:
    target.dir.mkdir()
    lock = target.dir / ".rackproof-lock"
    with subprocess.Popen(
        ["flock", str(lock), "sh", "-c", "echo held; cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        holder.stdout.readline()
        refused(target.http(url), "another deploy is filling")
        holder.stdin.close()


def test_a_mirror_that_does_not_answer(target: Target) -> None:
    refused(target.http("http://127.0.0.1:1/k3"), "does not answer")


# --- rsync ---

RSYNC = r"""
for last; do :; done
case "$*" in *--dry-run*) printf 'Total file size: 1,234,567 bytes\nTotal transferred file size: 1,000 bytes\n'; exit ;; esac
n=$(($(cat "$COUNT" 2>/dev/null || echo 0) + 1)); echo $n >"$COUNT"
[ $n -gt FAILS ] || { echo 'rsync: connection unexpectedly closed' >&2; exit CODE; }
cp -r "$SOURCE"/. "$last"
"""


def rsync(
    target: Target, monkeypatch: pytest.MonkeyPatch, fails: int, code: int = 12
) -> subprocess.CompletedProcess[str]:
    source = target.folder / "source"
    source.mkdir(exist_ok=True)
    for name, data in model().items():
        (source / name).write_bytes(data)
    monkeypatch.setenv("COUNT", str(target.folder / "count"))
    monkeypatch.setenv("SOURCE", str(source))
    target.tool("rsync", RSYNC.replace("FAILS", str(fails)).replace("CODE", str(code)))
    return target.run(scripts.fetch_rsync(target.values(url="rsync://mirror/k3")))


def test_rsync_is_started_again_after_a_cut(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rsync(target, monkeypatch, 2).returncode == 0
    assert target.state() == WeightsState(REVISION, "")


def test_rsync_that_fails_for_another_reason_is_not(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(rsync(target, monkeypatch, 99, code=5), "rsync ended with 5: rsync: connection unexpectedly closed")
    assert (target.folder / "count").read_text() == "1\n"


# --- Hugging Face ---

DOCKER = r"""
case $1 in
  image) echo sha256:abc ;;
  rm) exit 0 ;;
  run)
    printf '%s\n' "$@" >"$SEEN"
    for word; do case $word in *:/run/secrets/huggingface:ro) cp "${word%%:*}" "$SEEN.token"; stat -c %a "${word%%:*}" >"$SEEN.mode" ;; esac; done
    [ ! -e "$SEEN.fail" ] || { echo 'HTTP 401: gated'; exit 1; }
    cp -r "$SOURCE"/. "$TARGET" ;;
esac
"""


def hub(
    target: Target, monkeypatch: pytest.MonkeyPatch, token: str, engine: str = "docker"
) -> subprocess.CompletedProcess[str]:
    source = target.folder / "source"
    source.mkdir(exist_ok=True)
    for name, data in model().items():
        (source / name).write_bytes(data)
    for key, value in {"SEEN": target.folder / "seen", "SOURCE": source, "TARGET": target.dir}.items():
        monkeypatch.setenv(key, str(value))
    target.tool(engine, DOCKER)
    monkeypatch.setattr(scripts, "SECRETS", str(target.folder / "secrets"))
    values = target.values(
        reference="r@sha256:1", tagged="r:t", repository="moonshotai/Kimi-K3", endpoint="https://hub.example",
        with_token=int(bool(token)), engine=engine,
    )  # fmt: skip
    return target.run(scripts.fetch_huggingface(values), stdin=token)


def test_hugging_face_in_the_pinned_image_with_the_token_in_a_file(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = hub(target, monkeypatch, "hf_s3cret")
    assert done.returncode == 0, done.stderr
    words = (target.folder / "seen").read_text()
    assert "hf_s3cret" not in words + done.stdout + done.stderr
    assert (target.folder / "seen.token").read_text() == "hf_s3cret" and (
        target.folder / "seen.mode"
    ).read_text() == "600\n"
    assert (
        f"moonshotai/Kimi-K3\n{REVISION}\n" in words
        and "HF_ENDPOINT=https://hub.example" in words
        and "sha256:abc" in words
    )
    assert list((target.folder / "secrets").iterdir()) == []
    assert target.state() == WeightsState(REVISION, "")


def test_hugging_face_by_podman(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    target.tool("docker", "exit 9")
    done = hub(target, monkeypatch, "", engine="podman")
    assert done.returncode == 0, done.stderr
    assert "--security-opt\nlabel=disable\n" in (target.folder / "seen").read_text()


def test_hugging_face_that_refuses(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    (target.folder / "seen.fail").touch()
    refused(hub(target, monkeypatch, ""), "the download ended early; run the deploy again to go on: HTTP 401: gated")
    assert "/run/secrets" not in (target.folder / "seen").read_text()


# --- what is there, and how fast ---


def test_state_says_what_is_missing(target: Target) -> None:
    target.dir.mkdir()
    assert target.state() == WeightsState("", f"there is no {INDEX}")
    for name, data in model().items():
        (target.dir / name).write_bytes(data)
    assert target.state() == WeightsState("", "")
    (target.dir / SECOND).write_bytes(b"")
    assert target.state() == WeightsState("", f"{SECOND} is not there, or empty")
    (target.dir / SECOND).write_bytes(b"x")
    found = target.state()
    assert "and their index says" in found.missing


def test_read_rate_against_the_ready_timeout(target: Target) -> None:
    target.dir.mkdir()
    for name, data in model(size=1024 * 1024).items():
        (target.dir / name).write_bytes(data)
    done = target.run(measure(str(target.dir), 3 * 16777216, 2, 3600, "the recipe"))
    if "without the page cache" in done.stderr:
        pytest.skip("no direct I/O on this filesystem")
    assert done.returncode == 0 and "of 2 shards" in done.stdout and "of 3600 s" in done.stdout, done.stderr
    slow = target.run(measure(str(target.dir), 3 * 16777216, 2, -1, "the recipe"))
    assert slow.returncode == 1 and "given up after -1 s (the recipe)" in slow.stderr
    (target.dir / SECOND).unlink()
    refused(target.run(measure(str(target.dir), 16777216, 1, 3600, "the recipe")), "is not whole")
