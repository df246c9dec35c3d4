"""Small files in one section: how the probe prints them with shell builtins, and how they are read back.

Format, one line each:

    = PATH      the file's content follows, every line of it behind a `|`
    + PATH      it exists (a directory, a device); nothing is printed of it
    - PATH      it does not exist, and the directory above could be looked into
    ! PATH      it exists, or may exist, and could not be read
    .           the end; without it the section is cut off and proves nothing

So content cannot pass for a header, an empty file differs from a missing one, and a file that only root may see differs
from one that is not there. Passwords in URLs (`://user:secret@`) are replaced on the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.tools.values import one_line, output
from rackproof.facts import Fact, Missing

END = "."

# hidden PATH: a directory on the way to it cannot be entered, or, for DIR/*, not listed
# show PATH..., mark PATH..., say NAME VALUE: print entries as above
SHELL = r"""hidden() {
  d=${1%/*}
  while [ -n "$d" ] && [ ! -d "$d" ]; do d=${d%/*}; done
  [ -n "$d" ] || return 1
  [ -x "$d" ] || return 0
  [ "$d" = "${1%/*}" ] || return 1
  case $1 in *'*'*) [ ! -r "$d" ] ;; *) return 1 ;; esac
}
content() {
  while IFS= read -r l || [ -n "$l" ]; do
    case $l in *://*@*)
      r=${l#*://} r=${r%%/*}
      case $r in *@*) l="${l%%://*}://***@${l#*@}" ;; esac ;;
    esac
    printf '%s\n' "|$l"
  done
}
gone() { if hidden "$1"; then printf '%s\n' "! $1"; else printf '%s\n' "- $1"; fi; }
show() {
  for f do
    if [ -f "$f" ]; then { printf '%s\n' "= $f"; content; } <"$f" || printf '%s\n' "! $f"
    elif [ -e "$f" ]; then printf '%s\n' "! $f"
    else gone "$f"; fi
  done
}
mark() { for f do if [ -e "$f" ]; then printf '%s\n' "+ $f"; else gone "$f"; fi; done; }
say() { printf '%s\n|%s\n' "= $1" "$2"; }
"""


def script(body: str) -> str:
    """A script that prints a group."""
    return f"{SHELL}{body.strip()}\nprintf '.\\n'\n"


@dataclass(frozen=True)
class Group:
    """What the probe found under each path: text, None where there is nothing, or Missing where it could not look."""

    entries: Mapping[str, Fact[str | None]]
    marked: frozenset[str]

    def text(self, path: str) -> Fact[str | None]:
        """Content of a file; None where it does not exist."""
        if path in self.marked:
            return Missing(f"{path} is not a regular file")
        return self.entries[path] if path in self.entries else Missing(f"the probe did not look for {path}")

    def needed(self, path: str) -> Fact[str]:
        """Content of a file that has to say something, without blanks around it."""
        text = self.text(path)
        if isinstance(text, Missing):
            return text
        if text is None:
            return Missing(f"{path} does not exist")
        return text.strip() or Missing(f"{path} is empty")

    def exists(self, path: str) -> Fact[bool]:
        if path in self.marked:
            return True
        if path not in self.entries:
            return Missing(f"the probe did not look for {path}")
        entry = self.entries[path]
        return entry if isinstance(entry, Missing) else entry is not None

    def names(self, directory: str) -> Fact[tuple[str, ...]]:
        """Names of what exists right below a directory; () where it was listed and holds nothing of the kind."""
        start = directory.rstrip("/") + "/"
        found = []
        for path in [*self.entries, *self.marked]:
            if not path.startswith(start):
                continue
            entry = None if path in self.marked else self.entries[path]
            if isinstance(entry, Missing):
                return entry
            if entry is not None or path in self.marked:
                found.append(path[len(start) :].rstrip("/"))
        if not found and not any(path.startswith(start) for path in self.entries):
            return Missing(f"the probe did not look into {directory}")
        return tuple(sorted(found))


def parse_group(text: str) -> Group | Missing:
    """A section in the format above; Missing when it is cut off or holds anything else."""
    entries: dict[str, Fact[str | None]] = {}
    marked: set[str] = set()
    contents: dict[str, list[str]] = {}
    current: list[str] | None = None
    lines = text.rstrip("\n").split("\n")
    if lines[-1] != END:
        return Missing(f"the section is cut off or not the probe's: {one_line(lines[-1]) or 'empty'}")
    for line in lines[:-1]:
        kind, path = line[:1], line[2:]
        if kind == "|" and current is not None:
            current.append(line[1:])
            continue
        current = None
        if not line:
            continue
        if line[1:2] != " " or kind not in "=+-!" or not path:
            return Missing(f"the section holds a line that is not the probe's: {one_line(line)}")
        if kind == "=":
            current = contents[path] = []
        elif kind == "+":
            marked.add(path)
        else:
            entries[path] = None if kind == "-" else Missing(f"{path} could not be read")
    entries.update({path: "\n".join(content) for path, content in contents.items()})
    if not entries and not marked:
        return Missing("the section is empty: the probe looked nowhere")
    return Group(entries, frozenset(marked))


def read_group(evidence: Evidence, section: str, what: str) -> Group | Missing:
    text = output(evidence, section, what)
    return text if isinstance(text, Missing) else parse_group(text)
