"""Errors a user can act on: each says where, what was found, and what is accepted."""

from __future__ import annotations

from collections.abc import Iterable


class RackproofError(Exception):
    """The tool or its input failed. Every command turns it into one message and exit code 3."""


class InputError(RackproofError):
    """Input that cannot be used.

    `where` is a file, file:line or node; `accepted` says what would have been right. Nothing has been contacted or
    changed when it is raised.
    """

    def __init__(self, where: str, problem: str, accepted: str | Iterable[str] = "") -> None:
        choices = accepted if isinstance(accepted, str) else ", ".join(accepted)
        text = f"{where}: {problem}"
        super().__init__(f"{text}\n  accepted: {choices}" if choices else text)
        self.where = where
        self.problem = problem
        self.accepted = choices


class MissingFact(Exception):
    """A check asked for a fact that could not be read. The evaluator turns it into `unknown`, never into a pass."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
