"""Keys and tokens in what a log repeats of its command line."""

from __future__ import annotations

import re

_SECRET = re.compile(
    r"(?i)(\b(?:api[_-]?key|hf[_-]?token|token|password|secret)['\"]? ?[:=] ?)"
    r"(\[[^\]]{0,300}\]?|'[^']{0,300}'?|\"[^\"]{0,300}\"?|[^\s,}]{1,300})"
)
_FLAG = re.compile(r"(?i)(--(?:api-key|hf-token|token|password|secret)[ =])(\S{1,300})")


def masked(text: str) -> str:
    """The text, with the value of everything that is named like a secret hidden."""
    return _FLAG.sub(r"\1[hidden]", _SECRET.sub(r"\1[hidden]", text))
