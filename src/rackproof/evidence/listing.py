"""What a probe runs, as the comment at its top: whoever is asked to run a stranger's program reads this first.

It is generated from the same `Command`s that the probe runs, so it cannot say less than is done.
"""

from __future__ import annotations

from collections.abc import Sequence

from rackproof.evidence.sections import Command, Root
from rackproof.evidence.tools.group import SHELL

_HEAD = """\
#
# What it runs, section by section. A section ends at its deadline, whatever it waits for. `needs X`: only where the
# program X is installed; `root`: only as root; `root helps`: also as another user, who then sees less.
# show FILE prints a small file (passwords in URLs blanked), mark PATH says whether PATH exists, say NAME TEXT prints
# TEXT; their definitions stand once, before the first script.
"""
_ROOT = {Root.NO: "", Root.HELPS: "root helps", Root.NEEDED: "root"}


def listing(commands: Sequence[Command]) -> str:
    """A comment block with every command; each line starts with `#`."""
    return _HEAD + "".join(_entry(command) for command in commands) + "#\n"


def _entry(command: Command) -> str:
    terms = (f"at most {command.deadline_s} s", command.requires and f"needs {command.requires}", _ROOT[command.root])
    body = command.script.replace(SHELL, "").strip()
    lines = "".join(f"#       {line}".rstrip() + "\n" for line in body.split("\n"))
    return f"#\n#   {command.name}: {', '.join(term for term in terms if term)}\n{lines}"
