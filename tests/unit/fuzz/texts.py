"""Texts to parse: anything at all, pieces of the formats in a wrong order, and good outputs with damage."""

from __future__ import annotations

import random

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
