"""Texts to parse: anything at all, pieces of the formats in a wrong order, and good outputs with damage."""

from __future__ import annotations

import random
from collections.abc import Callable

from hypothesis import strategies as st
from tool_evidence import healthy

# What formats are built of, and what tools print in place of a value.
PIECES = (
    "\n", "\r\n", "\t", " ", ":", "=", "|", "+", "-", "!", ".", ",", "{", "}", "[", "]", '"', "'", "<", ">", "</", "/>", "0", "1",
    "-1", "4294967295", "9" * 400, "1e999", "NaN", "N/A", "[N/A]", "[Not Supported]", "ERR!", "Unknown Error", "null", "true",
    "GPU0", "NV18", "NODE", "Link 0:", "53.125 GB/s", "<inactive>", "UUID: GPU-", "source=dpkg", "source=journalctl lines=1",
    "total=1 rc=0", "Id=", "LoadState=loaded", "NVRM: Xid (PCI:0000:01:00): 79, ", "inet 10.0.0.1/24 ", "\x1b[4m", "\x00",
    "<?xml version='1.0'?>", "<nvidia_smi_log>", "</nvidia_smi_log>", "<gpu id='00000008:06:00.0'>", "</gpu>", "&lol;",
    "<!DOCTYPE x [<!ENTITY lol 'x'>]>", "version: 580.1", "Node #0 ", "Domain State: UP", "\u0660", "\u2028", "\ud7ff", "%",
)  # fmt: skip

anything = st.one_of(st.text(max_size=300), st.lists(st.sampled_from(PIECES), max_size=40).map("".join))

BATCH = 20  # texts in one example of the parsers' tests: to draw a text choice by choice takes ten times its parsing
Making = Callable[[random.Random], str]


def batches(making: Making) -> st.SearchStrategy[list[str]]:
    """BATCH texts at a time, from a random source whose seed hypothesis draws."""
    return st.integers(0, 2**64 - 1).map(random.Random).map(lambda source: [making(source) for _ in range(BATCH)])


def any_text(source: random.Random) -> str:
    """Characters of every plane, printable ones, pieces of the formats, or pieces with characters between them."""
    kind, size = source.randrange(4), source.choice((0, 1, 3, 12, 40, 300))
    if kind == 0:
        return "".join(_character(source) for _ in range(size))
    if kind == 1:
        return "".join(map(chr, source.choices(range(0x20, 0x7F), k=size)))
    if kind == 2:
        return "".join(source.choices(PIECES, k=min(size, 40)))
    return "".join(source.choice(PIECES) + _character(source) for _ in range(min(size, 40)))


def _character(source: random.Random) -> str:
    """Of any plane, the first two as likely as all others; no surrogates, which no decoder hands on."""
    code = source.randrange(source.choice((0x80, 0x100, 0x10000, 0x110000)))
    return chr(code) if not 0xD800 <= code < 0xE000 else " "


def damaged_by(seeds: list[str]) -> Making:
    """As `damaged`, from a random source."""
    return lambda source: _damage(source.choice(seeds), source, source.randint(1, 6))


def damaged(seeds: list[str]) -> st.SearchStrategy[str]:
    """A good text in which a few spans are dropped, doubled, moved or replaced."""
    return st.builds(_damage, st.sampled_from(seeds), st.randoms(use_true_random=False), st.integers(1, 6))


def _damage(text: str, source: random.Random, times: int) -> str:
    for _ in range(times):
        start = source.randrange(len(text) + 1)
        end = min(len(text), start + source.choice((0, 1, 2, 8, 60, 1000)))
        middle = source.choice(("", source.choice(PIECES), text[start:end] * 2, chr(source.randrange(1, 0xD800))))
        text = text[:start] + middle + text[end:]
    return text


def section_texts() -> dict[str, str]:
    """What every command of the probe prints on a healthy node."""
    return {name: section.text for name, section in healthy().sections.items()}
