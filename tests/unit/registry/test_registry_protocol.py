"""The protocol against a real HTTP server on loopback: what is read, what is tried again, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from registry_server import BASIC, PASSWORD, USER, Store, certificates, half, later, serving, sha

from rackproof.errors import InputError
from rackproof.registry import RegistryError, Resolved, Trouble, resolve, transport
from rackproof.registry.client import MANIFEST_BYTES, Registry
from rackproof.registry.credentials import Credentials
from rackproof.registry.reference import Reference, parse
from rackproof.registry.transport import Transport

GIVEN = Credentials(USER, PASSWORD)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def host(store: Store) -> Iterator[str]:
    with serving(store) as address:
        yield address


@pytest.fixture
def slept() -> list[float]:
    return []


def ask(
    host: str, slept: list[float] | None = None, given: Credentials | None = None, wanted: str = "v1", **more: Path
) -> Resolved:
    notes: list[float] = [] if slept is None else slept
    reference = Reference(host, "vllm/vllm-openai", wanted)
    return resolve(reference, Registry(reference, Transport(**more, sleep=notes.append), given), wanted)


def refusal(
    host: str, slept: list[float] | None = None, given: Credentials | None = None, wanted: str = "v1", **more: Path
) -> RegistryError:
    with pytest.raises(RegistryError) as caught:
        ask(host, slept, given, wanted, **more)
    assert str(caught.value).startswith("registry 127.0.0.1:") and "\n" not in str(caught.value)
    assert PASSWORD not in str(caught.value) and BASIC not in str(caught.value)
    return caught.value


def manifest(name: str = "v1") -> str:
    return f"/v2/vllm/vllm-openai/manifests/{name}"


# --- what is read ---


def test_tag_to_index_platforms_and_configuration(store: Store, host: str) -> None:
    digests = store.image(Labels={"org.opencontainers.image.version": "v0.28.0"})
    found = ask(host)
    assert found.index is not None and found.digest == found.index.digest == digests["index"]
    assert found.listed == {"amd64": digests["amd64"], "arm64": digests["arm64"]}  # without the attestation
    arm = found.platforms["arm64"]
    assert (arm.digest, arm.bytes, arm.layers) == (digests["arm64"], 1234, 2)
    assert (arm.cuda, arm.vllm, arm.config_architecture) == ("13.0.2", "v0.28.0", "arm64")
    assert arm.config_digest in store.blobs


def test_a_label_that_a_base_image_left_is_no_version_of_vllm(store: Store, host: str) -> None:
    store.image(Labels={"org.opencontainers.image.version": "22.04"}, Env=["A=1", "broken", "B"])
    arm = ask(host).platforms["arm64"]
    assert (arm.vllm, arm.cuda) == (None, None)


def test_one_platform_by_its_digest_has_no_index(store: Store, host: str) -> None:
    digests = store.image()
    found = ask(host, wanted=digests["arm64"])
    assert found.index is None and found.digest == digests["arm64"] and list(found.platforms) == ["arm64"]


# --- digests ---


def test_bytes_that_do_not_have_the_digest_asked_for_are_refused(store: Store, host: str) -> None:
    digests = store.image()
    store.manifests[digests["index"]] = store.manifests["v1"].replace(b"linux", b"Linux")
    error = refusal(host, wanted=digests["index"])
    assert error.trouble is Trouble.TAMPERED and digests["index"] in str(error)


def test_a_manifest_or_configuration_changed_below_a_sound_index_is_refused(store: Store, host: str) -> None:
    digests = store.image()
    good = store.manifests[digests["arm64"]]
    store.manifests[digests["arm64"]] = good + b" "
    assert refusal(host).trouble is Trouble.TAMPERED
    store.manifests[digests["arm64"]] = good
    blob = next(name for name, data in store.blobs.items() if b"arm64" in data)
    store.blobs[blob] = store.blobs[blob].replace(b"13.0.2", b"13.0.3")
    assert refusal(host).trouble is Trouble.TAMPERED


@pytest.mark.parametrize(
    "body", [b"[]", b"not json", b"{", b'{"manifests": []}', b'{"manifests": 7}', b"{}", b'{"config": {"digest": "sha256:x"}}',
             b'{"manifests": [{"platform": {"os": "linux", "architecture": "arm64"}, "digest": "sha1:1"}]}', b"[" * 100000],
)  # fmt: skip
def test_what_is_no_manifest_is_refused_in_words(store: Store, host: str, body: bytes) -> None:
    store.manifests["v1"] = body
    assert refusal(host).trouble is Trouble.BROKEN


def test_a_manifest_larger_than_any_is_cut_off(store: Store, host: str) -> None:
    store.manifests["v1"] = b" " * (MANIFEST_BYTES + 1)
    assert "sent more than" in str(refusal(host))


# --- trying again, and not ---


def test_a_connection_cut_at_half_is_tried_again(store: Store, host: str, slept: list[float]) -> None:
    digests = store.image()
    store.faults[manifest()] = [half(200, store.manifests["v1"])] * 2
    assert ask(host, slept).digest == digests["index"]
    assert len(slept) == 2


def test_a_connection_that_is_always_cut_ends_in_words(store: Store, host: str, slept: list[float]) -> None:
    store.image()
    store.faults[manifest()] = [half(200, store.manifests["v1"])] * 99
    error = refusal(host, slept)
    assert error.trouble is Trouble.UNREACHABLE and "broke off in the middle" in str(error)
    assert len(store.asked) == transport.ATTEMPTS


def test_rate_limit_waits_as_long_as_the_registry_says(store: Store, host: str, slept: list[float]) -> None:
    digests = store.image()
    store.faults[manifest()] = [later(429, Retry_After="7"), 503]
    assert ask(host, slept).digest == digests["index"]
    assert slept[0] == 7 and 0 < slept[1] <= 2


@pytest.mark.parametrize("after", ["86400", "Fri, 31 Dec 2199 23:59:59 GMT"])
def test_a_registry_that_asks_for_a_long_wait_is_not_waited_for(
    store: Store, host: str, slept: list[float], after: str
) -> None:
    store.faults[manifest()] = [later(429, Retry_After=after)]
    error = refusal(host, slept)
    assert error.trouble is Trouble.LIMITED and slept == [] and len(store.asked) == 1


def test_a_rate_limit_that_stays_ends_in_words(store: Store, host: str, slept: list[float]) -> None:
    store.faults[manifest()] = [later(429, Retry_After="rubbish")] * 99
    assert "image.repository" in str(refusal(host, slept)) and len(slept) == transport.ATTEMPTS - 1


@pytest.mark.parametrize("status", [400, 403, 405, 410, 418])
def test_no_other_refusal_is_tried_again(store: Store, host: str, slept: list[float], status: int) -> None:
    store.faults[manifest()] = [status]
    refusal(host, slept)
    assert slept == [] and len(store.asked) == 1


def test_missing_is_told_from_unreachable(store: Store, host: str, slept: list[float]) -> None:
    error = refusal(host, slept)
    assert error.trouble is Trouble.MISSING and "has no v1 (MANIFEST_UNKNOWN)" in str(error) and slept == []
    gone = refusal("127.0.0.1:1", slept)
    assert gone.trouble is Trouble.UNREACHABLE and "Connection refused" in str(gone)


# --- logging in ---


def test_token_for_nothing_but_pulling_this_repository(store: Store, host: str) -> None:
    store.auth = "token"
    digests = store.image()
    assert ask(host, given=GIVEN).digest == digests["index"]
    tokens = [(path, given) for path, given in store.asked if path.startswith("/token")]
    assert tokens == [("/token?service=reg%2Cistry&scope=repository%3Avllm%2Fvllm-openai%3Apull", BASIC)]
    assert {given for path, given in store.asked if path.startswith("/v2")} == {"", "Bearer t-0k3n"}


def test_anonymous_token(store: Store, host: str) -> None:
    store.auth = "token-anonymous"
    digests = store.image()
    assert ask(host).digest == digests["index"]


def test_refresh_token_goes_in_a_body(store: Store, host: str) -> None:
    store.auth = "token"
    refusal(host, given=Credentials("<token>", "r3fresh", is_token=True))
    assert any(path.startswith("POST /token") and "refresh_token=r3fresh" in path for path, _ in store.asked)
    assert ("Bearer from-refresh") in {given for _, given in store.asked}


def test_basic(store: Store, host: str) -> None:
    store.auth = "basic"
    digests = store.image()
    assert ask(host, given=GIVEN).digest == digests["index"]


@pytest.mark.parametrize("auth", ["basic", "token"])
@pytest.mark.parametrize("given", [None, Credentials(USER, "wrong")])
def test_without_the_right_credentials_it_says_what_to_do(
    store: Store, host: str, auth: str, given: Credentials | None
) -> None:
    store.auth = auth
    store.image()
    error = refusal(host, given=given)
    assert error.trouble is Trouble.REFUSED and "docker login" in str(error)
    assert ("wants a login" in str(error)) == (given is None)


@pytest.mark.parametrize("answer", [b"", b"[]", b'{"token": "a\\r\\nX-Evil: 1"}', b'{"token": 7}'])
def test_a_token_that_is_none_is_refused(store: Store, host: str, answer: bytes) -> None:
    store.auth = "token"
    store.faults["/token"] = [lambda handler: handler.answer(200, answer)]
    assert "sent no token" in str(refusal(host, given=GIVEN))


def test_a_password_never_goes_to_a_token_service_without_tls(store: Store, tmp_path: Path) -> None:
    context, ca = certificates(tmp_path)
    store.auth, store.realm = "token", "http://127.0.0.1:1/token"
    with serving(store, context) as address:
        assert "not reached by TLS" in str(refusal(address, given=GIVEN, ca_file=ca))
    store.realm = "file:///etc/passwd"
    with serving(store, context) as address:
        assert "not reached by TLS" in str(refusal(address, given=GIVEN, ca_file=ca))


# --- redirects ---


def moved(to: str) -> list[object]:
    return [later(307, Location=to)] * 99


def test_a_redirect_to_another_place_gets_no_credentials(store: Store, host: str) -> None:
    other = Store()
    digests = store.image()
    store.auth = "basic"
    blob = next(iter(store.blobs))
    other.blobs = dict(store.blobs)
    with serving(other) as elsewhere:
        store.faults[f"/v2/vllm/vllm-openai/blobs/{blob}"] = moved(
            f"http://{elsewhere}/v2/vllm/vllm-openai/blobs/{blob}"
        )
        assert ask(host, given=GIVEN).digest == digests["index"]
    assert other.asked == [(f"/v2/vllm/vllm-openai/blobs/{blob}", "")]


def test_a_redirect_inside_the_registry_keeps_them(store: Store, host: str) -> None:
    digests = store.image()
    store.auth = "basic"
    store.faults[manifest("old")] = moved(manifest())
    assert ask(host, given=GIVEN, wanted="old").digest == digests["index"]


def test_a_redirect_never_leaves_tls_and_never_goes_round(store: Store, host: str, tmp_path: Path) -> None:
    store.faults[manifest()] = moved(manifest())
    assert "redirects more than" in str(refusal(host))
    context, ca = certificates(tmp_path)
    store.faults[manifest()] = moved("http://127.0.0.1:1/x")
    with serving(store, context) as address:
        assert "without TLS" in str(refusal(address, ca_file=ca))
    store.faults[manifest()] = moved("file:///etc/passwd")
    assert "without TLS" in str(refusal(host))


# --- TLS ---


def test_private_ca(store: Store, tmp_path: Path, slept: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    context, ca = certificates(tmp_path)
    digests = store.image()
    with serving(store, context) as address:
        assert ask(address, ca_file=ca).digest == digests["index"]
        (tmp_path / "other").mkdir()
        _, wrong = certificates(tmp_path / "other")
        error = refusal(address, slept, ca_file=wrong)
    assert error.trouble is Trouble.UNTRUSTED and slept == [] and "--ca-file" in str(error)


def test_a_registry_without_tls_is_not_spoken_to_in_clear(store: Store, host: str, tmp_path: Path) -> None:
    _, ca = certificates(tmp_path)
    assert "--plain-http" in str(refusal(host, ca_file=ca))
    assert Transport().base("registry.example:5000") == "https://registry.example:5000"
    assert Transport(plain_http=True).base("registry.example:5000") == "http://registry.example:5000"
    assert Transport().base("localhost:5000") == "http://localhost:5000"
    assert Transport().base("127.0.0.1.evil.example:5000").startswith("https:")


@pytest.mark.parametrize("content", [None, b"", b"not a certificate"])
def test_a_ca_file_of_no_use(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "ca.crt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"ca\.crt: (No such file|holds no certificate)"):
        Transport(path)


# --- names ---


@pytest.mark.parametrize(
    "text, expected",
    [
        ("ubuntu", "docker.io/library/ubuntu:latest"),
        ("vllm/vllm-openai:v0.28.0", "docker.io/vllm/vllm-openai:v0.28.0"),
        ("index.docker.io/vllm/vllm-openai", "docker.io/vllm/vllm-openai:latest"),
        ("localhost/a", "localhost/a:latest"),
        ("registry.example:5000/a/b:c", "registry.example:5000/a/b:c"),
        ("[::1]:5000/a", "[::1]:5000/a:latest"),
        (f"a/b:c@{sha(b'')}", f"docker.io/a/b:c@{sha(b'')}"),
        (f"r.example/a@{sha(b'')}", f"r.example/a@{sha(b'')}"),
    ],
)
def test_names(text: str, expected: str) -> None:
    assert str(parse(text)) == expected


@pytest.mark.parametrize(
    "text", ["", ":", "A/b", "a//b", "a/b:", "a/b:c d", "a/b@sha256:1", "a/b@", "https://r.example/a", "a/../b", "r.example/a?x",
             "-r.example/a", "a/b\n", "r.example:port/a", "a/" + "b" * 256],
)  # fmt: skip
def test_what_is_no_name(text: str) -> None:
    with pytest.raises(InputError):
        parse(text)
