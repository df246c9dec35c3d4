"""The forms in which amd-smi prints one thing: JSON (a bare list, or {"gpu_data": [...]}), indented text, CSV.

All become records: (GPU index, nested objects with the names of the JSON form). Versions differ by subcommand: static
of 26.2 is a bare list where metric of the same version has gpu_data. `partition --json` prints several documents.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator

from rackproof.evidence.tools.values import MAX_JSON_CHARS, one_line, plain
from rackproof.facts import Missing

Record = tuple[int, dict[str, object]]

_HEAD = re.compile(r"(GPU|CPU): ([0-9]{1,3})\s*")
_LINE = re.compile(r"( +)([A-Za-z][A-Za-z0-9_ ]{0,60}):(?: (.*))?")
_MAX_DEPTH = 12


def records(text: str) -> list[Record] | Missing:
    """Records in the order printed; Missing where the output is none of the forms, is cut off, or lists no GPU."""
    text = plain(text)
    if re.search(r"^[ \t]{0,80}[\[{]", text, re.MULTILINE):
        found = _json(text)
    elif re.match(r"gpu(?:_id)?,", text.lstrip()):
        found = _csv(text.strip())
    else:
        found = _text(text)
    if isinstance(found, Missing) or found:
        return found
    return Missing(f"amd-smi shows no GPU: {one_line(' '.join(text[:2048].split())) or 'empty'}")


def _json(text: str) -> list[Record] | Missing:
    if len(text) > MAX_JSON_CHARS:
        return Missing(f"amd-smi: larger than {MAX_JSON_CHARS} characters")
    decoder = json.JSONDecoder()
    found: list[Record] = []
    at = min(place for place in (text.find("["), text.find("{")) if place >= 0)
    warning = text[:at]
    while at >= 0:
        try:
            document, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return Missing(f"amd-smi: cut off or not JSON: {one_line(warning) or one_line(text)}")
        found += _entries(document)
        follow = re.compile(r"\s*(?=[\[{])").match(text, end)
        at = follow.end() if follow else -1
    return found


def _entries(document: object) -> Iterator[Record]:
    """GPU entries of one document; CPU entries and those without an index are no GPUs."""
    if isinstance(document, dict):
        listed = document.get("gpu_data", document.get("current_partition", [document]))
    else:
        listed = document
    for entry in listed if isinstance(listed, list) else []:
        index = entry.get("gpu", entry.get("gpu_id")) if isinstance(entry, dict) else None
        if type(index) is int and 0 <= index < 1000:
            yield index, entry


def _csv(text: str) -> list[Record] | Missing:
    """Rows under a header whose first column is the GPU; a row that has another number of columns spoils the table."""
    try:
        header, *rows = list(csv.reader(text.splitlines(), strict=True))
    except csv.Error:
        return Missing(f"amd-smi: damaged CSV: {one_line(text)}")
    found: list[Record] = []
    for row in rows:
        if len(row) != len(header) or not re.fullmatch("[0-9]{1,3}", row[0]):
            return Missing(f"amd-smi: damaged CSV: {one_line(','.join(row))}")
        fields: dict[str, object] = dict(zip(header, row, strict=True))
        if "pid" in fields:
            usage = {"vram_mem": f"{fields.get('vram_mem', 'N/A')} B"}
            process = {"name": fields.get("name"), "pid": fields.get("pid"), "memory_usage": usage}
            fields = {"process_list": [{"process_info": process}]}
        found.append((int(row[0]), fields))
    return found


def _text(text: str) -> list[Record] | Missing:
    """Blocks under "GPU: 0" by indentation; a name that repeats in one place becomes a list."""
    found: list[Record] = []
    stack: list[tuple[int, dict[str, object]]] = []
    for line in text.splitlines():
        head, match = _HEAD.fullmatch(line), _LINE.fullmatch(line.rstrip())
        if head:
            top: dict[str, object] = {}
            stack = [(0, top)]
            if head[1] == "GPU":
                found.append((int(head[2]), top))
        elif match and stack:
            depth = len(match[1])
            while len(stack) > 1 and stack[-1][0] >= depth:
                stack.pop()
            if len(stack) > _MAX_DEPTH:
                return Missing("amd-smi: nested deeper than it ever prints")
            value: object = match[3].strip() if match[3] else {}
            _put(stack[-1][1], match[2].lower(), value)
            if isinstance(value, dict):
                stack.append((depth, value))
        elif line.strip() and not found and not stack:
            return Missing(f"amd-smi shows no GPU: {one_line(line)}")
    return found


def _put(place: dict[str, object], name: str, value: object) -> None:
    if name not in place:
        place[name] = value
        return
    before = place[name]
    if isinstance(before, list):
        before.append(value)
    else:
        place[name] = [before, value]
