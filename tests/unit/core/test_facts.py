"""Facts and evidence at their edges: missing is never a value, and an empty list proves nothing."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest
from core_builders import evidence, section

from rackproof.errors import InputError, MissingFact, RackproofError
from rackproof.evidence.evidence import Evidence
from rackproof.evidence.read import read_facts
from rackproof.evidence.sections import Section, Status
from rackproof.facts import Missing, SmiFacts, gpus, known, known_each


@pytest.mark.parametrize("value", [0, "", False, (), None])
def test_known_gives_any_value(value: object) -> None:
    assert known(value) is value


def test_known_raises_with_the_reason() -> None:
    with pytest.raises(MissingFact) as caught:
        known(Missing("it printed ERR!"))
    assert caught.value.reason == str(caught.value) == "it printed ERR!"


def test_known_each() -> None:
    assert known_each([1, 2], "GPU") == [1, 2]
    with pytest.raises(MissingFact, match="no GPU was read"):
        known_each([], "GPU")
    with pytest.raises(MissingFact, match="second"):
        known_each([1, Missing("second"), Missing("third")], "GPU")


def test_no_gpu_is_no_list() -> None:
    facts = read_facts(evidence())
    with pytest.raises(MissingFact, match="the evidence holds no section 'nvidia_smi_xml'"):
        gpus(facts)
    with pytest.raises(MissingFact, match="nvidia-smi listed no GPU"):
        gpus(replace(facts, smi=SmiFacts("580.126.20", "13.0", 0, ())))


def test_sections_by_name() -> None:
    found = evidence(uname=b"Linux\n")
    assert found.section("uname") == section("uname", b"Linux\n")
    assert found.section("nothing") == Missing("the evidence holds no section 'nothing'")
    assert Evidence("a", problem="unreachable").section("uname") == Missing("unreachable")


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (Status.RAN, None),
        (Status.ABSENT, "nvidia-smi is not installed"),
        (Status.NEEDS_ROOT, "nvidia-smi needs root, and the probe had none (run it with --sudo)"),
        (Status.DEADLINE, "nvidia-smi did not end within 20 s"),
    ],
)
def test_why_a_section_proves_nothing(status: Status, reason: str | None) -> None:
    item = Section("x", status, None, 0.0, b"healthy as far as it got", b"", 20)
    found = Evidence("a", {"x": item}).usable("x", "nvidia-smi")
    assert found == (item if reason is None else Missing(reason))


def test_a_bad_exit_code_is_the_parser_s_to_judge() -> None:
    item = section("x", b"half a table", rc=9)
    assert Evidence("a", {"x": item}).usable("x", "x") is item


def test_text_of_a_section_never_raises() -> None:
    assert section("x", b"a\r\nb\xff\n", b"\xfe").text == "a\nb\ufffd\n"
    assert section("x", b"", b"\xfe\r\n").error_text == "\ufffd\n"


def test_facts_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        read_facts(evidence()).node = "other"  # type: ignore[misc]


def test_evidence_with_a_problem_is_no_evidence() -> None:
    assert read_facts(evidence()).evidence == "ab" * 32
    assert read_facts(evidence(problem="cut off")).evidence == Missing("cut off")
    assert read_facts(Evidence("a")).evidence == Missing("the evidence carries no sha256")


def test_errors_say_where_what_and_what_would_be_right() -> None:
    error = InputError("site.yaml:3", "x is 5", ["1", "2"])
    assert str(error) == "site.yaml:3: x is 5\n  accepted: 1, 2"
    assert (error.where, error.problem, error.accepted) == ("site.yaml:3", "x is 5", "1, 2")
    assert str(InputError("a", "b")) == "a: b"
    assert isinstance(error, RackproofError) and not isinstance(MissingFact("x"), RackproofError)
