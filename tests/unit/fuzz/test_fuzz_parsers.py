"""Property tests of every parser: no exception, and no value that was not in the text."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from texts import BATCH, any_text, anything, batches, damaged, damaged_by, section_texts
from tool_evidence import all_facts, evidence, healthy

from rackproof.commands.parse import TOOLS, plain_data
from rackproof.evidence.read import read_facts
from rackproof.evidence.tools import MODULES
from rackproof.evidence.tools.values import plain
from rackproof.facts import Missing

SEEDS = sorted(set(section_texts().values()) - {""}, key=len)
SECTIONS = sorted(section_texts())
Parser = Callable[[str], Any]


def _parsers() -> dict[str, Parser]:
    """Those of `rackproof parse`, and every other public `parse_*` of the tool modules that takes one text."""
    found: dict[str, Parser] = {}
    for tool, (module, function) in TOOLS.items():
        found[tool] = getattr(importlib.import_module(f"rackproof.evidence.tools.{module}"), function)
    for each in MODULES:
        for name, function in inspect.getmembers(each, inspect.isfunction):
            parameters = list(inspect.signature(function).parameters.values())
            required = [p for p in parameters if p.default is p.empty]
            own = function.__module__ == each.__name__ and name.startswith("parse_")
            if own and len(required) == 1 and parameters[0].annotation == "str" and function not in found.values():
                found[f"{each.__name__.rsplit('.', 1)[1]}.{name}"] = function
    return found


PARSERS = _parsers()


def _leaves(value: Any) -> Iterator[Any]:
    """Values in facts; reasons of what is missing are words of ours, and no values."""
    if isinstance(value, dict):
        if set(value) == {"missing"}:
            return
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _facts(parser: Parser, text: str) -> Any:
    """The facts as data that JSON can carry, and that are the same when asked again."""
    found = parser(text)
    data = plain_data(found)
    json.dumps(data)
    assert plain_data(parser(text)) == data
    if isinstance(found, Missing):
        assert found.reason and "\n" not in found.reason
    return data


@lru_cache(maxsize=8)  # asked again for each value of a text
def _bare(text: str) -> str:
    """Letters and digits; without zeros, since a PCI address is filled up with them."""
    return re.sub(r"[^1-9A-Za-z]", "", text).lower()


def _number_is_in(number: float, text: str) -> bool:
    """A number stands in the text as it is or in another unit of its kind; a lone one may count what the text lists."""
    if isinstance(number, int) and 0 <= number <= text.count("\n") + text.count("|") + 1:
        return True
    scales = (
        1,
        2**10,
        2**20,
        2**30,
        2**40,
        10**3,
        10**6,
        10**9,
        0.1,
        0.01,
        0.001,
        1e-6,
        1e-9,
        60,
        3600,
        512,
        0.125,
        1 / 60,
    )
    return any(abs(number - value * scale) <= 1e-6 * abs(number) for value in _written(text) for scale in scales)


@lru_cache(maxsize=8)
def _written(text: str) -> frozenset[float]:
    return frozenset(float(word) for word in re.findall(r"[0-9]+(?:\.[0-9]+)?", text))


def _header_sizes(text: str) -> set[int]:
    """Of a shard: eight bytes, its header, and its tensors."""
    return {8 + int(size) + int(tensors) for size, tensors in re.findall(r"^header ([0-9]+) ([0-9]+) ", text, re.M)}


def _totals(text: str) -> set[int]:
    """Of all files, and of the shards among them."""
    sizes = {name.rstrip("\r"): int(size) for size, name in re.findall(r"^file ([0-9]+) (?:\./)?(.+)$", text, re.M)}
    return {sum(sizes.values()), sum(size for name, size in sizes.items() if name.endswith(".safetensors"))}


# What a parser may add up, by the tool.
SUMS: dict[str, Callable[[str], set[int]]] = {
    "weights.parse_headers": _header_sizes,
    "weights.parse_weights": _totals,
}

# As many texts as the profile has examples, and at least two batches.
in_batches = settings(max_examples=max(2, settings().max_examples // BATCH))


def _check(tool: str, texts: list[str], hold: Callable[[Any, str], None]) -> None:
    for text in texts:
        try:
            for leaf in _leaves(_facts(PARSERS[tool], text)):
                if not (isinstance(leaf, int) and tool in SUMS and leaf in SUMS[tool](text)):
                    hold(leaf, text)
        except Exception as error:
            raise AssertionError(f"{tool}, given {text!r}: {error}") from error


def _stands_in(leaf: Any, text: str) -> None:
    if isinstance(leaf, str) and len(leaf) > 12:
        assert _bare(leaf)[:8] in _bare(text) or _bare(leaf)[:8] in _bare(plain(text)), leaf
    _is_a_number_of(leaf, text)


def _is_a_number_of(leaf: Any, text: str) -> None:
    if isinstance(leaf, (int, float)) and not isinstance(leaf, bool) and leaf == leaf:
        assert _number_is_in(leaf, text), leaf


@pytest.mark.parametrize("tool", PARSERS)
@in_batches
@given(texts=batches(any_text))
def test_any_text(tool: str, texts: list[str]) -> None:
    """Nothing is read into what is not the tool's output: every value stands in the text."""
    _check(tool, texts, _stands_in)


@pytest.mark.parametrize("tool", PARSERS)
@in_batches
@given(texts=batches(damaged_by(SEEDS)))
def test_damaged_output(tool: str, texts: list[str]) -> None:
    _check(tool, texts, _is_a_number_of)


@given(text=anything)
def test_a_node_that_prints_the_same_everywhere_has_no_gpu(text: str) -> None:
    """Whatever it is, a healthy node is not read out of it."""
    facts = read_facts(evidence(**dict.fromkeys(SECTIONS, text)))
    assert isinstance(facts.smi, Missing) or not facts.smi.gpus
    assert isinstance(facts.driver.loaded_version, Missing)
    assert isinstance(facts.nvlink.gpu_paths, Missing) or not facts.nvlink.gpu_paths


@given(name=st.sampled_from(SECTIONS), text=damaged(SEEDS))
def test_one_damaged_section_never_raises(name: str, text: str) -> None:
    """The functions themselves, without the guard of read_facts."""
    all_facts(healthy(**{name: text.encode("utf-8", "replace")}))
