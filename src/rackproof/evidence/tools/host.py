"""Identity of the node: kernel, operating system, marks left by rackproof, addresses, and the files a deploy manages.

Formats: os-release(5), /proc/cmdline, `ip -o addr show`, `sha256sum`; small files as in group.py.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command, Root
from rackproof.evidence.tools.group import SHELL, Group, read_group, script
from rackproof.evidence.tools.values import as_int, load_object, one_line, output
from rackproof.facts import Fact, ManagedFile, Missing

HOSTNAME = "/proc/sys/kernel/hostname"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
DMI = "/sys/class/dmi/id"
PRODUCT = f"{DMI}/product_name"
UPTIME = "/proc/uptime"
DMI_FILES = (
    "sys_vendor", "product_serial", "product_sku", "board_vendor", "board_name", "board_version", "board_serial",
    "bios_vendor", "bios_version", "bios_date", "chassis_serial",
)  # fmt: skip
LAB_MARK = "/etc/rackproof-lab"
SELFBUILD_MARK = "/etc/rackproof/selfbuild"
STAMP = "/etc/rackproof/baseline.json"
REBOOT = "/run/reboot-required"

_IDENTITY_SCRIPT = f"""
show {HOSTNAME} {BOOT_ID} {PRODUCT} {UPTIME} {" ".join(f"{DMI}/{name}" for name in DMI_FILES)}
say uname "$(uname -r -m)"
say uid "$(id -u)"
say pagesize "$(getconf PAGESIZE)"
say date "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
"""

COMMANDS = (
    Command("identity", script(_IDENTITY_SCRIPT), root=Root.HELPS),
    Command("os_release", "if [ -e /etc/os-release ]; then cat /etc/os-release; else cat /usr/lib/os-release; fi"),
    Command("cmdline", "cat /proc/cmdline"),
    Command("marks", script(f"show {LAB_MARK} {SELFBUILD_MARK} {STAMP}\nmark {REBOOT}"), root=Root.HELPS),
    Command("addresses", "ip -o addr show", requires="ip"),
)


def managed_files_command(paths: Sequence[str]) -> Command:
    """Reads the sha256 of each of these absolute paths; `absent PATH` and `unread PATH` for what has none."""
    body = """
for f do
  shift
  if [ -f "$f" ] && [ -r "$f" ]; then set -- "$@" "$f"
  elif [ -e "$f" ] || [ -h "$f" ] || hidden "$f"; then printf '%s\\n' "unread $f"
  else printf '%s\\n' "absent $f"; fi
done
[ $# = 0 ] || sha256sum "$@"
"""
    listed = f"set -- {shlex.join(paths)}\n"
    return Command("files", SHELL + listed + body + "printf '.\\n'\n", requires="sha256sum", root=Root.HELPS)


def files(evidence: Evidence) -> Fact[Mapping[str, ManagedFile]]:
    text = output(evidence, "files", "sha256sum")
    return text if isinstance(text, Missing) else parse_files(text)


def parse_files(text: str) -> Fact[Mapping[str, ManagedFile]]:
    """Path -> what is there. A path that could not be read is not in the mapping: nothing is known about it."""
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    if lines[-1] != ".":
        return Missing(f"the list of managed files is cut off: {one_line(lines[-1]) or 'empty'}")
    found = {}
    for line in lines[:-1]:
        match = re.fullmatch(r"(?:([0-9a-f]{64}) [ *]|(absent) |(unread) )(/.*)", line)
        if not match:
            return Missing(f"sha256sum printed: {one_line(line)}")
        digest, absent, _, path = match.groups()
        if digest or absent:
            found[path] = ManagedFile(path, digest)
    return found


def hostname(evidence: Evidence) -> Fact[str]:
    return _identity(evidence, HOSTNAME)


def boot_id(evidence: Evidence) -> Fact[str]:
    return _identity(evidence, BOOT_ID)


def product_name(evidence: Evidence) -> Fact[str]:
    return _identity(evidence, PRODUCT)


def dmi(evidence: Evidence) -> Fact[Mapping[str, Fact[str]]]:
    """File name -> what the firmware says; serial numbers need root. A machine without DMI (some arm64) has none."""
    group = read_group(evidence, "identity", "the identity of the node")
    if isinstance(group, Missing):
        return group
    found = {name: group.needed(f"{DMI}/{name}") for name in ("product_name", *DMI_FILES)}
    unasked = f"{DMI}/sys_vendor" not in group.entries
    return Missing(f"the probe did not look into {DMI}") if unasked else found


def uptime_s(evidence: Evidence) -> Fact[float]:
    text = _identity(evidence, UPTIME)
    if isinstance(text, Missing):
        return text
    match = re.match(r"([0-9]{1,12}\.[0-9]{1,3}) ", text)
    return float(match[1]) if match else Missing(f"{UPTIME}: {one_line(text)}")


def kernel(evidence: Evidence) -> Fact[str]:
    words = _uname(evidence)
    return words if isinstance(words, Missing) else words[0]


def architecture(evidence: Evidence) -> Fact[str]:
    words = _uname(evidence)
    return words if isinstance(words, Missing) else words[1]


def page_size_bytes(evidence: Evidence) -> Fact[int]:
    text = _identity(evidence, "pagesize")
    return text if isinstance(text, Missing) else as_int(text, "getconf PAGESIZE")


def is_root(evidence: Evidence) -> Fact[bool]:
    text = _identity(evidence, "uid")
    uid = text if isinstance(text, Missing) else as_int(text, "id -u")
    return uid if isinstance(uid, Missing) else uid == 0


def _identity(evidence: Evidence, path: str) -> Fact[str]:
    group = read_group(evidence, "identity", "the identity of the node")
    return group if isinstance(group, Missing) else group.needed(path)


def _uname(evidence: Evidence) -> Fact[tuple[str, str]]:
    text = _identity(evidence, "uname")
    if isinstance(text, Missing):
        return text
    words = text.split()
    return (words[0], words[1]) if len(words) == 2 else Missing(f"uname: {one_line(text)}")


def os_id(evidence: Evidence) -> Fact[str]:
    return _os_release(evidence, "ID")


def os_version(evidence: Evidence) -> Fact[str]:
    return _os_release(evidence, "VERSION_ID")


def _os_release(evidence: Evidence, key: str) -> Fact[str]:
    text = output(evidence, "os_release", "os-release")
    if isinstance(text, Missing):
        return text
    return parse_os_release(text).get(key) or Missing(f"os-release has no {key}")


def parse_os_release(text: str) -> Mapping[str, str]:
    """KEY -> value without quotes; of a key that repeats, the last counts, as a shell would have it."""
    pairs = re.findall(r"^([A-Z][A-Z0-9_]*)=(.*)$", text.replace("\r\n", "\n"), re.MULTILINE)
    return {key: re.sub(r"""^(["'])(.*)\1$""", r"\2", value.strip()) for key, value in pairs}


def cmdline(evidence: Evidence) -> Fact[tuple[str, ...]]:
    text = output(evidence, "cmdline", "/proc/cmdline")
    return text if isinstance(text, Missing) else parse_cmdline(text)


def parse_cmdline(text: str) -> tuple[str, ...]:
    """Kernel parameters in order, quoted blanks kept together: dyndbg="file a.c +p" is one."""
    return tuple(re.findall(r'(?:[^\s"]|"[^"]*"?)+', text))


def simulated(evidence: Evidence) -> Fact[str | None]:
    return _mark(evidence, LAB_MARK)


def selfbuild(evidence: Evidence) -> Fact[str | None]:
    return _mark(evidence, SELFBUILD_MARK)


def _mark(evidence: Evidence, path: str) -> Fact[str | None]:
    """First line of a mark; an empty file is a mark all the same."""
    group = _marks(evidence)
    text = group if isinstance(group, Missing) else group.text(path)
    return one_line(text) or "(an empty mark)" if isinstance(text, str) else text


def stamp(evidence: Evidence) -> Fact[Mapping[str, object] | None]:
    group = _marks(evidence)
    text = group if isinstance(group, Missing) else group.text(STAMP)
    return load_object(text, STAMP) if isinstance(text, str) else text


def reboot_required(evidence: Evidence) -> Fact[bool]:
    """Whether the distribution left its mark for a pending reboot. Only the Debian family writes one: that there is none
    says nothing elsewhere."""
    group = _marks(evidence)
    there = group if isinstance(group, Missing) else group.exists(REBOOT)
    if isinstance(there, Missing) or there:
        return there
    text = output(evidence, "os_release", "os-release")
    if isinstance(text, Missing):
        return Missing(f"{text.reason}, so it cannot be told whether this system would leave {REBOOT}")
    named = parse_os_release(text)
    family = {named.get("ID", ""), *named.get("ID_LIKE", "").split()}
    if family & {"debian", "ubuntu"}:
        return False
    return Missing(f"only Debian and Ubuntu leave {REBOOT}: on {named.get('ID') or 'this system'} dnf needs-restarting -r tells")


def _marks(evidence: Evidence) -> Group | Missing:
    return read_group(evidence, "marks", "rackproof's marks")


def addresses(evidence: Evidence) -> Fact[tuple[str, ...]]:
    text = output(evidence, "addresses", "ip")
    return text if isinstance(text, Missing) else parse_addresses(text)


def parse_addresses(text: str) -> Fact[tuple[str, ...]]:
    """Addresses without prefix length, loopback left out: "2: eth0    inet 10.0.0.1/24 brd ..."."""
    rows = re.findall(r"^[0-9]+: (\S+)\s+inet6? ([0-9a-fA-F.:]+)(?:/| peer )", text, re.MULTILINE)
    found = tuple(dict.fromkeys(address for device, address in rows if device != "lo"))
    return found or Missing(f"ip addr shows no address besides loopback: {one_line(text)}")
