"""From a probe's text stream back to sections.

The stream may come from a stranger: it can be cut off, doubled, edited or hostile. Whatever cannot be read becomes a
problem of the evidence and its sections go missing; nothing here raises on content.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator

from rackproof.evidence.cksum import cksum
from rackproof.evidence.evidence import Evidence
from rackproof.evidence.probe import FORMAT
from rackproof.evidence.sections import Section, Status

MAX_BYTES = 16 * 1024 * 1024  # far above any node seen; a larger stream is not a probe's

_FRAME = re.compile(rb"^#@([A-Za-z0-9-]{8,64}) (probe|begin|end|done)(?: (.*))?$")
_NAME = re.compile(r"[a-z0-9_]{1,64}")  # of a section: it becomes a file name in a bundle
_ESCAPE = re.compile(rb"\\([0-7]{3}|[\\abfnrtv])")
_SHORT = {b"\\": b"\\", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def parse_stream(data: bytes, node: str = "", nonce: str | None = None) -> Evidence:
    """Evidence from what a probe printed.

    `node` names the node as the asker knows it (the probe's own host name otherwise). With `nonce`, a stream that
    carries another one is refused: it answers somebody else's question.
    """
    digest = hashlib.sha256(data).hexdigest()
    if len(data) > MAX_BYTES:
        return Evidence(node, problem=f"the probe output is larger than {MAX_BYTES} bytes", sha256=digest)
    reader = _Reader()
    for line in data.split(b"\n"):
        reader.line(line)
    name = node or reader.header.get("node", "")
    problem = reader.problem(nonce)
    trusted = problem is None or problem.startswith("the probe output is cut off")
    return Evidence(
        node=name,
        sections=reader.sections if trusted else {},
        probe_version=reader.header.get("version", ""),
        nonce=reader.nonce,
        started=reader.header.get("started", ""),
        seconds=reader.seconds,
        problem=problem,
        sha256=digest,
    )


class _Reader:
    """Cuts the stream at its frames. A frame with another nonce than the first is content that lost its mark: junk."""

    def __init__(self) -> None:
        self.nonce = ""
        self.header: dict[str, str] = {}
        self.sections: dict[str, Section] = {}
        self.seconds = 0.0
        self._open: str | None = None
        self._lines: dict[bytes, list[bytes]] = {}
        self._done: dict[str, str] | None = None
        self._faults: list[str] = []

    def line(self, line: bytes) -> None:
        line = line.rstrip(b"\r")  # a transport's or editor's; content never carries a bare CR unescaped
        frame = _FRAME.match(line)
        if frame is None:
            if self._open is not None and line[:1] in (b"|", b"!", b"~", b"^"):
                self._lines.setdefault(line[:1], []).append(line[1:])
            return
        nonce, kind, rest = (part.decode("ascii", "replace") if part else "" for part in frame.groups())
        if kind == "probe" and not self.nonce:
            self.nonce, self.header = nonce, _fields(rest)
        elif nonce != self.nonce:
            self._faults.append("the probe output holds frames of another probe run")
        elif kind == "probe":
            self._faults.append("the probe output holds two probe runs")
        elif kind == "begin" and not _NAME.fullmatch(rest):
            self._faults.append("the probe output holds a section whose name no probe gives")
        elif kind == "begin" and self._open is not None:
            self._faults.append(f"section {rest!r} is out of place in the probe output")
        elif kind == "begin":
            self._open, self._lines = rest, {}
        elif kind == "end":
            self._end(rest)
        else:
            self._done = _fields(rest)
            self.seconds = _number(self._done.get("finish")) - _number(self._done.get("begin"))

    def _end(self, rest: str) -> None:
        name, _, tail = rest.partition(" ")
        fields = _fields(tail)
        if name != self._open or name in self.sections:
            self._faults.append(f"section {name!r} is out of place in the probe output")
            return
        stdout = _content(self._lines, b"|", b"~", _count(fields.get("stdout")), _count(fields.get("stdout_cksum")))
        stderr = _content(self._lines, b"!", b"^", _count(fields.get("stderr")), _count(fields.get("stderr_cksum")))
        status = {s.value: s for s in Status}.get(fields.get("status", ""))
        if stdout is None or stderr is None or status is None:
            self._faults.append(f"section {name!r} does not match its checksum: the probe output was changed")
            return
        rc = fields.get("rc", "")
        self.sections[name] = Section(
            name=name,
            status=status,
            rc=int(rc) if re.fullmatch(r"[0-9]{1,3}", rc) else None,
            seconds=max(0.0, _number(fields.get("finish")) - _number(fields.get("begin"))),
            stdout=stdout,
            stderr=stderr,
            deadline_s=max(0, _count(fields.get("deadline"))),
        )
        self._open = None

    def problem(self, nonce: str | None) -> str | None:
        if not self.nonce:
            return "this is not the output of a rackproof probe: it has no header line"
        if self.header.get("format") != str(FORMAT):
            return _other_format(self.header.get("format"))
        if nonce is not None and nonce != self.nonce:
            return f"the probe output carries nonce {self.nonce}, asked was {nonce}: it answers another request"
        if self._faults:
            return self._faults[0]
        if self._done is None:
            return f"the probe output is cut off after {len(self.sections)} sections"
        if self._done.get("sections") != str(len(self.sections)):
            return f"the probe output says {self._done.get('sections')} sections and holds {len(self.sections)}"
        return None


def _other_format(found: str | None) -> str:
    if found == "1":  # its sections carry no checksum, so nothing would vouch for what it says
        return (
            f"the probe output has format 1, of an older rackproof; this version reads {FORMAT}: "
            "make a new probe with `rackproof probe` and run that"
        )
    return f"the probe output has format {found!r}; this version reads {FORMAT}"


def _fields(text: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in text.split(" ") if "=" in word)


def _number(text: str | None) -> float:
    try:
        number = float(text or 0)
    except ValueError:
        return 0.0
    return number if math.isfinite(number) else 0.0


def _count(text: str | None) -> int:
    """A size or a checksum; -1, which no content has, for what is not one."""
    return int(text) if text and re.fullmatch(r"[0-9]{1,10}", text) else -1


def _content(lines: dict[bytes, list[bytes]], plain: bytes, escaped: bytes, size: int, checksum: int) -> bytes | None:
    """The bytes a command wrote; None when they are not what the probe counted and summed up on the node."""
    if escaped in lines:
        data = b"".join(_unescape(lines[escaped]))
    else:
        data = b"".join(line + b"\n" for line in lines.get(plain, []))
    if len(data) == size + 1:
        data = data[:-1]  # the last line had no newline of its own
    return data if len(data) == size and cksum(data) == checksum else None


def _unescape(lines: list[bytes]) -> Iterator[bytes]:
    r"""Undo `sed -n l`: octal escapes, a `$` at the end of each line, a lone `\` where a long line was folded."""
    for line in lines:
        folded = line.endswith(b"\\") and (len(line) - len(line.rstrip(b"\\"))) % 2 == 1
        body = line[:-1] if folded or line.endswith(b"$") else line
        yield _ESCAPE.sub(_escaped_byte, body)
        if not folded:
            yield b"\n"


def _escaped_byte(match: re.Match[bytes]) -> bytes:
    code = match.group(1)
    return _SHORT[code] if code in _SHORT else bytes([int(code, 8) & 0xFF])
