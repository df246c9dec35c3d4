"""`image resolve` and `image check`: words, JSON, exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from registry_server import Store, serving, sha

from rackproof.cli import main

OTHER = "sha256:" + "0" * 64


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def name(store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with serving(store) as address:
        yield f"{address}/vllm/vllm-openai"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["image", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_resolve_prints_what_to_pin(
    store: Store, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digests = store.image()
    code, out, _ = run(
        capsys, "resolve", f"{name}:v1", "--json", str(tmp_path / "a.json"), "--manifests", str(tmp_path / "m")
    )
    assert code == 0
    assert all(digest in out for digest in digests.values()) and "CUDA 13.0.2, vLLM not stated" in out
    assert "no site can choose it" in out
    data = json.loads((tmp_path / "a.json").read_text())
    assert data["index"] == digests["index"] and data["platforms"]["arm64"]["compressed_bytes"] == 1234
    kept = {"sha256:" + path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()}
    assert set(kept) == set(digests.values()) and all(sha(raw) == digest for digest, raw in kept.items())


def test_resolve_of_an_image_of_the_recipe_is_a_snippet_for_the_site(
    store: Store, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from rackproof import recipes

    digests = store.image()
    recipe = recipes.load()
    known = replace(recipe.images["v028"], index=digests["index"])
    monkeypatch.setattr("rackproof.recipes.load", lambda *_: replace(recipe, images={"v028": known}))
    _, out, _ = run(capsys, "resolve", f"{name}:v1")
    assert f"image:\n  id: v028\n  repository: {name}\n" in out


def test_resolve_shows_no_escape_of_an_image(store: Store, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    store.image(Env=["CUDA_VERSION=\x1b]0;owned\x07\n\x1b[31m13"])
    code, out, _ = run(capsys, "resolve", f"{name}:v1")
    assert code == 0 and "\x1b" not in out and "\x07" not in out


def test_resolve_of_nothing_is_3(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "resolve", f"{name}:v9")
    assert code == 3 and out == "" and "has no v9" in err


def statuses(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, str]]:
    code, out, err = run(capsys, "check", *words, "--json", "-")
    assert out, err
    document = json.loads(out)
    assert document["exit_code"] == code
    return code, {finding["name"]: finding["status"] for finding in document["findings"]}


def test_check_of_a_pin_that_is_there(store: Store, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    digest = store.image()["index"]
    code, found = statuses(capsys, f"{name}:v1@{digest}", "--hardware", "gb300")
    assert (
        code == 0
        and set(found.values()) == {"pass"}
        and "architecture of arm64" in found
        and "CUDA of amd64" not in found
    )


def test_a_moved_tag_is_a_warning(store: Store, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    digest = store.image()["index"]
    now = store.image(Labels={"a": "b"})["index"]
    code, out, _ = run(capsys, "check", f"{name}:v1@{digest}")
    assert code == 0 and f"v1 has moved: it is {now} now" in out
    del store.manifests["v1"]
    assert statuses(capsys, f"{name}:v1@{digest}")[1]["tag"] == "warn"


def test_a_digest_that_is_gone_and_one_that_was_changed_fail(
    store: Store, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = store.image()["index"]
    assert statuses(capsys, f"{name}:v1@{OTHER}") == (1, {"digest": "fail", "tag": "warn"})
    store.manifests[digest] += b" "
    assert statuses(capsys, f"{name}@{digest}") == (1, {"digest": "fail"})


def test_a_platform_that_is_missing_fails(store: Store, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    digest = store.image(architectures=("amd64",))["index"]
    code, out, _ = run(capsys, "check", f"{name}@{digest}", "--hardware", "gb300")
    assert code == 1 and "no linux/arm64, which this host needs; it has linux/amd64" in out
    assert statuses(capsys, f"{name}@{digest}", "--hardware", "b300")[0] == 0


def test_a_configuration_of_another_architecture_fails(
    store: Store, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = store.image(claims="amd64")["index"]
    assert statuses(capsys, f"{name}@{digest}", "--hardware", "gb300")[0] == 1


def test_a_registry_that_does_not_answer_is_undetermined(
    store: Store, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = store.image()["index"]
    store.auth = "token"
    assert statuses(capsys, f"{name}@{digest}") == (2, {"digest": "unknown"})


def test_a_self_built_image_is_never_supported(store: Store, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    digest = store.image(Labels={"ai.rackproof.status": "UNSUPPORTED-SELFBUILD"})["index"]
    assert statuses(capsys, f"{name}@{digest}")[0] == 4
    digest = store.image(Labels={"UNSUPPORTED-SELFBUILD": ""}, claims="riscv")["index"]
    assert statuses(capsys, f"{name}@{digest}")[0] == 4


def test_the_pin_of_a_site_is_asked_for_at_its_mirror(
    store: Store, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digests = store.image("v0.28.0")
    path = tmp_path / "site.yaml"
    path.write_text(
        f"hardware: gb300\nimage: {{repository: '{name}'}}\nsimulation: {{architecture: aarch64, image: "
        f"{{index: '{digests['index']}', amd64: '{digests['amd64']}', arm64: '{digests['arm64']}'}}}}\n"
    )
    code, found = statuses(capsys, "--site", str(path))
    assert code == 0 and found["CUDA of arm64"] == found["tag"] == found["platform"] == "pass"
    path.write_text(path.read_text().replace(digests["arm64"], OTHER))
    code, out, _ = run(capsys, "check", "--site", str(path))
    assert code == 1 and f"linux/arm64 is {digests['arm64']}, and {OTHER} is pinned" in out


@pytest.mark.parametrize(
    "words, said",
    [
        (["a/b:c"], "names no digest"),
        ([], "nothing sets hardware"),
        (["--hardware", "abacus"], "abacus"),
        (["a/B"], "is not the name of an image"),
        ([f"a/b@{OTHER}", "--ca-file", "/nonexistent.crt"], "/nonexistent.crt: No such file"),
    ],
)
def test_wrong_input_is_3_before_anything_is_asked(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "check", *words)
    assert code == 3 and out == "" and said in err
