"""The listing of a model directory, line by line: a word, then what it says. See weights.py for who prints it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rackproof.evidence.tools.values import load_object, one_line, string, strings
from rackproof.facts import Fact, Missing
from rackproof.facts_weights import ModelConfig

_SIZE = re.compile(r"([0-9]{1,18}) (.+)")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_REVISION = re.compile(r"[0-9A-Za-z][0-9A-Za-z._/-]{0,99}")


@dataclass
class Listing:
    """What was printed. `sizes` are bytes by file name."""

    asked: str
    exists: bool = True
    path: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    dangling: list[str] = field(default_factory=list)
    index: bool = False
    indexed: list[str] = field(default_factory=list)
    total: int | None = None
    incomplete: int | None = None
    df: str = ""
    mount: str = ""
    revision: str | None = None
    commits: list[str] = field(default_factory=list)
    config: Fact[str] = Missing("there is no config.json")  # noqa: RUF009 - frozen


def parse_listing(text: str) -> Fact[Listing]:
    """Missing where the listing is cut off, or holds a line that is not the probe's."""
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    if lines[-1] != "." or not lines[0].startswith("asked /"):
        return Missing(f"the list of the model directory is cut off: {one_line(lines[-1]) or 'empty'}")
    found = Listing(lines[0].removeprefix("asked "))
    if lines[1:-1] == ["absent"]:
        found.exists = False
        return found
    if lines[1:-1] == ["unread"]:
        return Missing(f"{found.asked} could not be read")
    for line in lines[1:-1]:
        word, _, rest = line.partition(" ")
        if not _take(found, word, rest):
            return Missing(f"the list of the model directory holds: {one_line(line) or 'an empty line'}")
    if not found.path or found.incomplete is None:
        return Missing("the list of the model directory is cut off")
    return found


def _take(found: Listing, word: str, rest: str) -> bool:
    """Put one line where it belongs; False for one that the probe does not print."""
    match word:
        case "file" if row := _SIZE.fullmatch(rest):
            found.sizes[row[2].removeprefix("./")] = int(row[1])
        case "total" if re.fullmatch(r"[0-9]{1,18}", rest):
            found.total = int(rest)
        case "incomplete" if re.fullmatch(r"[0-9]{1,9}", rest):
            found.incomplete = int(rest)
        case "indexed" | "dangling" | "commit" if rest:
            {"indexed": found.indexed, "dangling": found.dangling, "commit": found.commits}[word].append(rest)
        case "path" | "df" | "mount":
            setattr(found, word, rest)
        case "revision":
            found.revision = rest.strip()
        case "config":
            found.config = rest
        case "index" | "unread-index" if not rest:
            found.index = word == "index"
        case "large-config" | "unread-config" if not rest:
            found.config = Missing(f"config.json {'is too large' if word == 'large-config' else 'could not be read'}")
        case _:
            return False
    return True


def revision(found: Listing) -> tuple[Fact[str | None], Fact[str]]:
    """The commit and where it is recorded. Sources that disagree prove nothing."""
    told: dict[str, str] = {}
    if found.revision is not None:
        told[".rackproof-revision"] = found.revision
    snapshot = re.search(r"/snapshots/([0-9a-f]{40})$", found.path)
    if snapshot:
        told["snapshot directory"] = snapshot[1]
    for number, commit in enumerate(found.commits):
        told["download metadata" if not number else f"download metadata {number + 1}"] = commit
    if not told:
        nothing = Missing("nothing in the directory records a revision")
        return None, nothing
    odd = next((f"{source} says {one_line(text, 60)!r}" for source, text in told.items() if not _REVISION.fullmatch(text)), "")
    if odd or len(set(told.values())) > 1:
        reason = Missing(odd or "; ".join(f"{source} says {text}" for source, text in list(told.items())[:4]))
        return reason, reason
    source, text = next(iter(told.items()))
    return text, source


def config(found: Listing) -> Fact[ModelConfig]:
    if isinstance(found.config, Missing):
        return found.config
    return parse_config(found.config)


def parse_config(text: str) -> Fact[ModelConfig]:
    """config.json. A model of text and images may keep its quantization below text_config."""
    data = load_object(text, "config.json")
    if isinstance(data, Missing):
        return data
    inner = data.get("text_config")
    blocks = [data.get("quantization_config"), inner.get("quantization_config") if isinstance(inner, dict) else None]
    block = next((block for block in blocks if block is not None), None)
    method = block.get("quant_method") if isinstance(block, dict) else None
    names = strings(data.get("architectures"))
    quantization: Fact[str | None] = None if block is None else string(method, "quant_method in config.json")
    return ModelConfig(names or Missing("config.json names no architectures"), string(data.get("model_type"), "model_type"), quantization)
