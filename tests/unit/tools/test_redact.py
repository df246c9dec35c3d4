"""Redaction: nothing that names a machine is left, everything still parses, and judging gives the same outcomes."""

from __future__ import annotations

import ipaddress
import json
import re
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tool_evidence import evidence, gpu_xml, healthy, smi_xml

from rackproof.cli import main
from rackproof.commands.parse import plain_data
from rackproof.errors import InputError
from rackproof.evidence.bundle import read_bundle, write_bundle
from rackproof.evidence.evidence import Evidence
from rackproof.evidence.read import read_facts
from rackproof.evidence.redact import Redaction, read_key, redact
from rackproof.evidence.tokens import Tokens
from rackproof.judging import judge_all, plan_for_evidence

KEY = b"a key that stays with the asker"
CLUSTER = "b2daed23-0000-4000-8000-000000000001"


def _gpu(number: int, tray: int) -> str:
    uuid = f"GPU-{number:08x}-{tray:04x}-4000-8000-0123456789ab"
    return gpu_xml(number, uuid=uuid, serial=f"16500{tray}000123{number}", clusterUuid=CLUSTER)


def _tray(number: int) -> Evidence:
    """A healthy tray with identities of real shape; the rack's IMEX lists both trays."""
    other = healthy()
    xml = smi_xml(_gpu(8, number), _gpu(9, number))
    identity = other.sections["identity"].text.replace("|tray01", f"|tray0{number}")
    identity = identity.replace("|fc13cc59", f"|fc13cc59-1111-4222-8333-00000000000{number}")
    addresses = (
        "1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever\n"
        f"4: eth0    inet 10.0.0.{number}/24 brd 10.0.0.255 scope global eth0\\       valid_lft forever\n"
        f"4: eth0    inet6 fe80::5054:ff:fe12:345{number}/64 scope link \\       valid_lft forever\n"
    )
    log = (
        "source=journalctl lines=5000 matched=2 kept=2 boots=3 first=2026-07-01T00:00:00+0000\n"
        f"|2026-08-01T00:00:00+0000 tray0{number} kernel: mlx5_core 0000:03:00.0: MAC 02:50:f2:00:00:0{number}, "
        f"guid 9803:9b03:0088:a1b{number}\n"
        f"|2026-08-01T00:00:00+0000 tray0{number} kernel: NVRM: Xid (PCI:0008:06:00): 43, pid=7, name=x\n.\n"
    )
    found = healthy(nvidia_smi_xml=xml, identity=identity, addresses=addresses, kernel_log=log)
    return Evidence(f"tray0{number}", found.sections, "0.1", "nonce-0123456789", "", 1.0, None, "ab" * 32)


RACK = [_tray(1), _tray(2)]
REDACTED = redact(KEY, RACK)
SECRETS = (
    "tray01", "tray02", "10.0.0.1", "10.0.0.2", "fe80::5054", "165001000", "165002000", CLUSTER, "fc13cc59", "GPU-00000008-",
    "02:50:f2:00:00:01", "9803:9b03:0088:a1b1", KEY.decode(),
)  # fmt: skip


def _all_text(items: list[Evidence]) -> str:
    return "".join(
        item.node + (item.problem or "") + section.text + section.error_text
        for item in items for section in item.sections.values()
    )  # fmt: skip


def _outcomes(items: list[Evidence]) -> list[tuple[str, str]]:
    result = judge_all(plan_for_evidence(items), {item.node: item for item in items})
    listed = [outcome for node in result.nodes for outcome in node.outcomes] + list(result.fleet)
    return [(outcome.requirement.id, outcome.status.value) for outcome in listed]


@pytest.mark.parametrize("secret", SECRETS)
def test_nothing_that_names_a_machine_is_left(secret: str) -> None:
    if secret != KEY.decode():
        assert secret in _all_text(RACK)
    assert secret not in _all_text(REDACTED)


def test_judging_gives_the_same_outcomes() -> None:
    assert _outcomes(REDACTED) == _outcomes(RACK)
    assert ("fleet.members", "unknown") not in _outcomes(RACK)  # the two are judged as one unit
    assert len({status for _, status in _outcomes(RACK)}) > 2


@pytest.mark.parametrize("section", sorted(healthy().sections))
def test_a_node_that_lacks_a_section_has_the_same_outcomes(section: str) -> None:
    """So that no outcome is the same only because both are unknown for the same reason."""
    given = [Evidence(i.node, {n: s for n, s in i.sections.items() if n != section}, sha256="ab" * 32) for i in RACK]
    assert _outcomes(redact(KEY, given)) == _outcomes(given)


def test_facts_differ_only_where_there_is_a_token() -> None:
    redaction = Redaction(KEY, RACK)
    for before, after in zip(RACK, REDACTED, strict=True):
        _same(plain_data(read_facts(before)), plain_data(read_facts(after)), redaction, "")


def _same(before: Any, after: Any, redaction: Redaction, where: str) -> None:
    if isinstance(before, dict):
        assert [redaction.text(key) for key in before] == list(after), where
        for (key, value), other in zip(before.items(), after.values(), strict=True):
            _same(value, other, redaction, f"{where}.{key}")
    elif isinstance(before, list):
        assert len(before) == len(after), where
        for one, other in zip(before, after, strict=True):
            _same(one, other, redaction, where)
    elif isinstance(before, str) and where != ".evidence":
        tokens = (redaction.text(before), redaction.tokens.digits(before), redaction._serial(before))
        assert after in (before, *tokens), where
    elif where != ".evidence":
        assert before == after, where


def test_equality_across_nodes_survives_and_inequality_too() -> None:
    first, second = (read_facts(item) for item in REDACTED)
    gpus = [*first.smi.gpus, *second.smi.gpus]  # type: ignore[union-attr]
    assert len({gpu.cluster_uuid for gpu in gpus}) == 1
    assert len({gpu.uuid for gpu in gpus}) == len({gpu.serial for gpu in gpus}) == 4
    assert first.nvlink.imex_nodes == second.nvlink.imex_nodes
    assert first.host.addresses[0] in first.nvlink.imex_nodes  # type: ignore[index, operator]
    assert first.host.hostname == REDACTED[0].node != REDACTED[1].node


def test_the_same_key_gives_the_same_tokens_in_another_run_and_another_key_gives_others() -> None:
    assert redact(KEY, RACK) == REDACTED
    assert [item.node for item in redact(KEY, [RACK[0]])] == [REDACTED[0].node]
    assert redact(b"another key of the same asker", RACK)[0].node != REDACTED[0].node


KEPT = (
    "00000000-0000-0000-0000-000000000000", "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "127.0.0.1", "::1", "0.0.0.0",
    "255.255.255.0", "0000:34:00.0", "00000008:06:00.0", "12:34:56", "580.126.20", "97.10.4A.00.01", "sha256:" + "ab" * 32,
    "ab" * 32, "https://10.0.0.9/repo", "https://***@10.0.0.9/repo", "10.0.0.9:5000/vllm:k3", "Version: 1.2.3.4",
    "std::string", "5:28.2.2-1~ubuntu.24.04", "GB300 NVL72", "6.8.0-1039-nvidia-64k", "2026-11-30T15:43:40Z",
)  # fmt: skip


@pytest.mark.parametrize("text", KEPT)
def test_what_stays(text: str) -> None:
    for form in (text, f"<a>{text}</a>", f" {text}\n", f'"{text}"'):
        assert Redaction(KEY, RACK).text(form) == form


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("GPU-3f2a9c01-1111-4222-8333-0123456789ab", r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        ("root=UUID=3F2A9C01-1111-4222-8333-0123456789AB", r"root=UUID=[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}"),
        ("link/ether b8:ce:f6:12:34:56 brd", r"link/ether 02(:[0-9a-f]{2}){5} brd"),
        ("9803:9b03:0088:a1b2", r"([0-9a-f]{4}:){3}[0-9a-f]{4}"),
        ("b8-ce-f6-ff-ff-12-34-56", r"([0-9a-f]{2}-){7}[0-9a-f]{2}"),
        ("b08dfa6083e7567a1921a715000001fb", r"[0-9a-f]{32}"),
        ("10.20.30.40/24", r"10\.\d+\.\d+\.\d+/24"),
        ("192.168.7.9.", r"192\.168\.\d+\.\d+\."),
        ("from 8.8.8.8:53", r"from 2[45]\d\.\d+\.\d+\.\d+:53"),
        ("fe80::b8ce:f6ff:fe12:3456%eth0", r"fe80::[0-9a-f:]+%eth0"),
        ("2001:db8::17", r"fd[0-9a-f]{0,2}:[0-9a-f:]+"),
        ("fe80:0000:0000:0000:bace:f6ff:fe12:3456", r"fe80:0000:0000:0000(:[0-9a-f]{4}){4}"),
        ("::ffff:10.1.2.3", r"::ffff:(a[0-9a-f]{2}:[0-9a-f]+|10\.\d+\.\d+\.\d+)"),
        ("tray01", r"host-[b-t]{10}"),
        ("tray01.customer.com", r"host-[b-t]{10}\.net-[b-t]{10}\.invalid"),
        ("/var/log/tray02-eth0.log", r"/var/log/host-[b-t]{10}-eth0\.log"),
        ("tray011 xtray01", r"tray011 xtray01"),
    ],
)
def test_tokens_have_the_shape_of_what_they_stand_for(text: str, shape: str) -> None:
    found = Redaction(KEY, RACK).text(text)
    assert re.fullmatch(shape, found), found
    assert (found != text) == (shape != text)


def test_one_value_in_two_spellings_is_one_token() -> None:
    tokens = Tokens(KEY)
    assert tokens.digits("9803:9b03:0088:a1b2").replace(":", "") == tokens.digits("98039b030088a1b2")
    assert tokens.digits("AB" * 8).lower() == tokens.digits("ab" * 8)
    UUID(tokens.digits(CLUSTER))


def test_addresses_stay_apart_and_keep_their_subnets() -> None:
    tokens = Tokens(KEY)
    given = [f"10.0.{a}.{b}" for a in range(4) for b in range(64)] + [f"172.16.0.{b}" for b in range(64)]
    found = [ipaddress.ip_address(tokens.address(address)) for address in given]
    assert len(set(found)) == len(given)
    assert all(address.is_private for address in found)
    assert [str(address) for address in found] != given
    subnets = {ipaddress.ip_network(f"{address}/24", strict=False) for address in found}
    assert len(subnets) == 5


def test_an_ordinary_word_as_a_host_name_spoils_nothing() -> None:
    given = healthy(identity=healthy().sections["identity"].text.replace("|tray01", "|ubuntu"))
    (found,) = redact(KEY, [Evidence("ubuntu", given.sections, sha256="ab")])
    assert (found.node, read_facts(found).host.os_id) == ("ubuntu", "ubuntu")


def test_what_ssh_said_is_redacted_too() -> None:
    (found,) = redact(KEY, [Evidence("tray07", problem="unreachable: tray07 (10.1.2.3) refused")])
    assert found.problem is not None and "tray07" not in found.problem and "10.1.2.3" not in found.problem
    assert "unreachable" in found.problem and found.sha256 == ""


def test_bytes_that_are_no_text_stay() -> None:
    data = bytes(range(256)) + b"\nserial: ABC123456\n\xff"
    (found,) = redact(KEY, [evidence(odd=data)])
    assert found.sections["odd"].stdout[:257] == data[:257]
    assert b"ABC123456" not in found.sections["odd"].stdout and len(found.sections["odd"].stdout) == len(data)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for item in RACK:
        write_bundle(tmp_path / "in" / f"{item.node}.tar.gz", item)
    key = tmp_path / "key"
    words = ["redact", str(tmp_path / "in"), "--key-file", str(key), "--to"]
    assert main([*words, str(tmp_path / "out")]) == 0
    assert key.stat().st_mode & 0o077 == 0
    secret = key.read_bytes().strip()
    found = read_bundle(tmp_path / "out")
    assert [item.redacted for item in found] == [True, True]
    assert sorted(found, key=lambda item: item.node) == sorted(redact(secret, RACK), key=lambda item: item.node)
    for path in (tmp_path / "out").iterdir():
        assert "tray" not in path.name
    for item in found:
        assert secret.decode() not in json.dumps(plain_data(item.sections), default=str)
    assert main([*words, str(tmp_path / "out")]) == 3
    assert "is already there" in capsys.readouterr().err
    assert main(["redact", str(tmp_path / "in"), "--to", str(tmp_path / "x")]) == 3


def test_keys_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"short\n")
    with pytest.raises(InputError, match="holds 5 bytes"):
        read_key(tmp_path / "short", tmp_path / "out")
    with pytest.raises(InputError, match="which is given away"):
        read_key(tmp_path / "out" / "key", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_who_deployed_and_whose_programs_run_is_redacted_too() -> None:
    change = (
        '{"time": "2026-01-01T00:00:01Z", "run": "r1", "operator": "zelda@bastion7", "layer": "host", "step": "x", '
        '"event": "end", "rc": 0, "before": {}, "after": {}}'
    )
    lock = '{"run": "r1", "operator": "yorick@ops9", "pid": 1, "process": "", "since": "2026-01-01T00:00:00Z"}'
    given = healthy(
        control=f"= /var/lib/rackproof/lock\n|{lock}\n= generation\n|1 2\n= journal\n|{change}\n+ /etc/rackproof/history\n.\n",
        gpu_holders="4711 python3\txaver\t\nend\n",
    )
    (redacted,) = redact(b"k" * 32, [given])
    left = b"".join(redacted.sections[name].stdout for name in ("control", "gpu_holders"))
    for name in (b"zelda", b"bastion7", b"yorick", b"ops9", b"xaver"):
        assert name not in left
