"""One small change of the raw text of a healthy node's evidence. Each fails where the text to change is not there."""

from __future__ import annotations

import re
from collections.abc import Callable, MutableMapping

from rackproof.evidence.sections import Section, Status

Texts = MutableMapping[str, str | Section]
Edit = Callable[[Texts], None]


def text_of(texts: Texts, name: str) -> str:
    text = texts[name]
    assert isinstance(text, str), f"{name} is no longer text"
    return text


def put(name: str, old: str, new: str, times: int = 1) -> Edit:
    """`old` replaced by `new` in a section, as often as it is expected there; 0: everywhere, at least once."""

    def edit(texts: Texts) -> None:
        text = text_of(texts, name)
        assert text.count(old) == times or (times == 0 and old in text), f"{name}: {text.count(old)} times {old!r}"
        texts[name] = text.replace(old, new)

    return edit


def first(name: str, old: str, new: str) -> Edit:
    """The first of several replaced."""

    def edit(texts: Texts) -> None:
        text = text_of(texts, name)
        assert old in text, f"{name}: no {old!r}"
        texts[name] = text.replace(old, new, 1)

    return edit


def without(name: str, pattern: str) -> Edit:
    """Every line that matches taken out."""

    def edit(texts: Texts) -> None:
        lines = text_of(texts, name).split("\n")
        kept = [line for line in lines if not re.search(pattern, line)]
        assert len(kept) < len(lines), f"{name}: no line like {pattern!r}"
        texts[name] = "\n".join(kept)

    return edit


def whole(name: str, text: str, rc: int = 0) -> Edit:
    """The section's text, in place of whatever was there."""

    def edit(texts: Texts) -> None:
        texts[name] = Section(name, Status.RAN, rc, 0.1, text.encode(), b"", deadline_s=20)

    return edit


def hangs(name: str) -> Edit:
    def edit(texts: Texts) -> None:
        texts[name] = Section(name, Status.DEADLINE, None, 20.0, b"", b"", deadline_s=20)

    return edit


def gpus(old: str, new: str, *indexes: int) -> Edit:
    """In the blocks of these GPUs, or of all, in nvidia-smi's XML."""

    def edit(texts: Texts) -> None:
        blocks = re.split(r"(?=\t<gpu id=)", text_of(texts, "nvidia_smi_xml"))
        for index in indexes or range(len(blocks) - 1):
            assert old in blocks[index + 1], f"GPU {index}: no {old!r}"
            blocks[index + 1] = blocks[index + 1].replace(old, new)
        texts["nvidia_smi_xml"] = "".join(blocks)

    return edit


def gpu_lost(index: int) -> Edit:
    """nvidia-smi no longer lists this GPU, as after "Unable to determine the device handle"."""

    def edit(texts: Texts) -> None:
        blocks = re.split(r"(?=\t<gpu id=)|(?=</nvidia_smi_log>)", text_of(texts, "nvidia_smi_xml"))
        size = len(blocks) - 2
        del blocks[index + 1]
        old, new = f"<attached_gpus>{size}</attached_gpus>", f"<attached_gpus>{size - 1}</attached_gpus>"
        assert old in blocks[0]
        texts["nvidia_smi_xml"] = "".join(blocks).replace(old, new)

    return edit


def process(name: str, mib: int, *indexes: int) -> Edit:
    """A program on these GPUs with this much of their memory."""
    info = f"<process_info><pid>4242</pid><type>C</type><process_name>{name}</process_name><used_memory>{mib} MiB</used_memory></process_info>"

    def edit(texts: Texts) -> None:
        gpus("<processes></processes>", f"<processes>{info}</processes>", *indexes)(texts)
        gpus("<used>0 MiB</used>", f"<used>{mib} MiB</used>", *indexes)(texts)

    return edit


def unit(name: str, **fields: str) -> Edit:
    """Fields of a systemd unit changed."""

    def edit(texts: Texts) -> None:
        blocks = text_of(texts, "systemd_units").split("\n\n")
        places = [n for n, block in enumerate(blocks) if re.match(rf"Id={re.escape(name)}(\.service)?\n", block)]
        assert len(places) == 1, f"no unit {name}"
        for key, value in fields.items():
            changed = re.sub(rf"(?m)^{key}=.*$", f"{key}={value}", blocks[places[0]])
            assert changed != blocks[places[0]], f"{name}: {key} is {value} already"
            blocks[places[0]] = changed
        texts["systemd_units"] = "\n\n".join(blocks)

    return edit


def logged(*messages: str) -> Edit:
    """The kernel said this as well."""

    def edit(texts: Texts) -> None:
        head, *lines = text_of(texts, "kernel_log").split("\n")
        end = lines.index(".")
        lines[end:end] = [f"|2026-11-30T02:00:{n:02d}+0000 node kernel: {text}" for n, text in enumerate(messages)]
        count = sum(line.startswith("|") for line in lines)
        head = re.sub(r"matched=\d+ kept=\d+", f"matched={count} kept={count}", head)
        texts["kernel_log"] = "\n".join([head, *lines])

    return edit


def everywhere(old: str, new: str) -> Edit:
    """In every section, as where another version of something is installed."""

    def edit(texts: Texts) -> None:
        assert any(old in text for text in texts.values() if isinstance(text, str))
        for name, text in texts.items():
            if isinstance(text, str):
                texts[name] = text.replace(old, new)

    return edit


def module(name: str, loaded: bool) -> Edit:
    """A kernel module, in every section that names it."""
    old, new = f"{'-' if loaded else '+'} /sys/module/{name}\n", f"{'+' if loaded else '-'} /sys/module/{name}\n"
    return everywhere(old, new)


def several(*edits: Edit) -> Edit:
    def edit(texts: Texts) -> None:
        for one in edits:
            one(texts)

    return edit
