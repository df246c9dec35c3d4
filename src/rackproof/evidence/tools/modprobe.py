"""modprobe.d(5): whether nouveau, or amdgpu, is kept from loading.

A file in an earlier directory (/etc, /run, /usr/local/lib, /usr/lib, /lib) masks files of the same name in later ones,
so every file's name travels, and of its lines only those about NVIDIA and all blacklists.
"""

from __future__ import annotations

import re

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command
from rackproof.evidence.tools.group import Group, read_group, script
from rackproof.facts import Fact, Missing

DIRECTORIES = ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")

_SCRIPT = f"""
show /proc/cmdline
for f in {" ".join(f"{directory}/modprobe.d/*.conf" for directory in DIRECTORIES)}; do
  if [ -f "$f" ]; then
    {{ printf '%s\\n' "= $f"
      while read -r word name rest || [ -n "$word" ]; do
        case $word:$name in blacklist:*|*:nvidia*|*:nouveau*) printf '%s\\n' "|$word $name $rest" ;; esac
      done; }} <"$f" || printf '%s\\n' "! $f"
  elif [ -e "$f" ]; then printf '%s\\n' "+ $f"
  else gone "$f"; fi
done
"""

COMMANDS = (Command("modprobe", script(_SCRIPT)),)



def nouveau_blacklisted(evidence: Evidence) -> Fact[bool]:
    return _blacklisted(evidence, "nouveau")


def amdgpu_blacklisted(evidence: Evidence) -> Fact[bool]:
    """Of AMD's module and of the kernel's own alike: both have one name. A unit may load it later all the same."""
    return _blacklisted(evidence, "amdgpu")


def _blacklisted(evidence: Evidence, module: str) -> Fact[bool]:
    group = read_group(evidence, "modprobe", "modprobe.d")
    return group if isinstance(group, Missing) else parse_blacklist(group, module)


def parse_blacklist(group: Group, module: str = "nouveau") -> Fact[bool]:
    """True when a file in force or the kernel command line keeps a module out; a file nobody could read hides a no."""
    line = re.compile(rf"^(?:blacklist {module}|install {module} (?:/usr)?/s?bin/(?:true|false))\s*$", re.MULTILINE)
    words = re.compile(rf"(?:^|\s)(?:module_blacklist|modprobe\.blacklist)=(?:\S*,)?{module}(?:,|\s|$)")
    cmdline = group.text("/proc/cmdline")
    if isinstance(cmdline, str) and words.search(cmdline):
        return True
    in_force: dict[str, Fact[str | None]] = {}
    paths = [path for path in (*group.entries, *group.marked) if "/modprobe.d/" in path and "*" not in path]
    for path in sorted(paths, key=_rank):
        in_force.setdefault(path.rsplit("/", 1)[1], None if path in group.marked else group.entries[path])
    if any(isinstance(text, str) and line.search(text) for text in in_force.values()):
        return True
    unread = [entry for path, entry in group.entries.items() if isinstance(entry, Missing)]
    return unread[0] if unread else False


def _rank(path: str) -> int:
    directory = path.rsplit("/modprobe.d/", 1)[0]
    return DIRECTORIES.index(directory) if directory in DIRECTORIES else len(DIRECTORIES)
