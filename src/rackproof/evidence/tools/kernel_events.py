"""Kernel messages besides Xids: NVSwitch SXids, machine checks, programs killed for memory, disks and tasks that hang, fatal
PCIe errors, what the driver complains of.

The section is kernel_log's. SXids exist on NVSwitch 1 to 3 (HGX A100 to H200); NVLink 5 has none and says Xid 144 to 150.
Forms: captures of R510 to R590; Linux 5.4 to 6.17 (mm/oom_kill.c, arch/x86/kernel/cpu/mce, drivers/firmware/efi/cper).
"""

from __future__ import annotations

import re

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command
from rackproof.evidence.tools.kernel_log import body, parse_kernel_log, reach
from rackproof.evidence.tools.values import one_line, pci_address
from rackproof.facts import Fact, Missing
from rackproof.facts_system import KernelEvents, SXid

COMMANDS: tuple[Command, ...] = ()
MAX_LINES = 100

_SXID = re.compile(r"\bSXid \((?:PCI:)?([0-9A-Fa-f:.]{5,20})\): *([0-9]{1,6}), *(.*)")
_DETAIL = re.compile(r"Severity [0-9]+ Engine|Data \{")  # second and third line of the same event
_SEVERITY = re.compile(r"(Non-fatal|Fatal), ")
_KILLED = re.compile(r"[Oo]ut of memory: Kill(?:ed)? process [0-9]+ \(([^)]{0,64})\)")
_CONSTRAINT = re.compile(r"oom-kill:.*?\btask=([^,]{0,64}),pid=([0-9]+)")
_MACHINE_CHECK = re.compile(r"\[Hardware Error\]|\bmce: |Machine check|Hardware error from APEI")
_QUIET = re.compile(r"mce: (?:CPU[0-9]+: Thermal|Using [0-9]+ MCE banks|CPU supports)|\bLMCE\b.*enabled", re.IGNORECASE)
_COMPLAINT = re.compile(r"NVRM: (?!Xid|loading |.*Xid \()(.*)|(nvidia-peermem .*(?:ERROR|error|fail).*)")
_NOISE = re.compile(r"GPU at PCI:|GPU Board Serial|nvidia-modeset:|^\s*$|Module .* loaded")
_NVME = re.compile(
    r"\bnvme\S*:? .*(?:timeout|controller is down|[Dd]evice not ready|[Rr]emoving after|reset controller)"
    r"|I/O error, dev nvme|\bnvme\S*: .*\berror"
)
_HUNG = re.compile(r"\btask (.{1,64}?):([0-9]+) blocked for more than [0-9]+ seconds")
_PCIE_FATAL = re.compile(r"\bUncorrect(?:ed|able) \(Fatal\)")
_PREFIX = re.compile(r"^.*?(?:kernel: |\] ?)(?=\S)")


def events(evidence: Evidence) -> Fact[KernelEvents]:
    section = evidence.usable("kernel_log", "reading the kernel log")
    if isinstance(section, Missing):
        return section
    log = parse_kernel_log(section.text, section.error_text)
    if isinstance(log, Missing):
        return log
    first, boots = reach(section.text)
    return parse_events(body(section.text), first, boots)


def parse_events(
    text: str, first: Fact[str] = Missing("not told"), boots: Fact[int] = Missing("not told")  # noqa: B008 - frozen
) -> KernelEvents:
    """Events of a log in any of its line forms, oldest first; of machine checks and complaints the first 100 lines."""
    lines = text.replace("\r\n", "\n").splitlines()
    checks = [_message(line) for line in lines if _MACHINE_CHECK.search(line) and not _QUIET.search(line)]
    driver = _with(lines, "NVRM: ", "nvidia-peermem ")
    complaints = [_said(match) for line in driver if (match := _COMPLAINT.search(line)) and not _NOISE.search(line)]
    return KernelEvents(
        sxids=parse_sxids(text),
        machine_checks=tuple(checks[:MAX_LINES]),
        oom_kills=_killed(lines),
        nvidia=tuple(complaints[:MAX_LINES]),
        first=first,
        boots=boots,
        nvme_errors=tuple([_message(line) for line in _with(lines, "nvme") if _NVME.search(line)][:MAX_LINES]),
        hung_tasks=tuple([one_line(m[1]) for line in _with(lines, "blocked for") if (m := _HUNG.search(line))][:MAX_LINES]),
        pcie_fatal=tuple([_message(line) for line in _with(lines, "(Fatal)") if _PCIE_FATAL.search(line)][:MAX_LINES]),
    )


def _with(lines: list[str], *words: str) -> list[str]:
    """Lines that hold one of these words, without which a pattern cannot match: much cheaper than the pattern."""
    return [line for line in lines if any(word in line for word in words)]


def parse_sxids(text: str) -> tuple[SXid, ...]:
    """One a event: the lines that repeat its number with engine and data are left out, unless they stand alone."""
    found: list[SXid] = []
    for line in _with(text.splitlines(), "SXid ("):
        match = _SXID.search(line)
        if not match:
            continue
        address, code = pci_address(match[1]) or match[1].lower(), int(match[2])
        known = any((other.code, other.pci_address) == (code, address) for other in found)
        if _DETAIL.match(match[3]) and known:
            continue
        severity = _SEVERITY.match(match[3])
        fatal: Fact[bool] = severity[1] == "Fatal" if severity else Missing(f"SXid {code} does not say its severity")
        found.append(SXid(code, address, fatal, one_line(match[3], 400)))
    return tuple(found)


def _killed(lines: list[str]) -> tuple[str, ...]:
    """The kernel prints two lines a kill, and after a flood maybe one of them."""
    killed = [match[1] or "?" for line in _with(lines, "emory: ") if (match := _KILLED.search(line))]
    chosen = [match[1] or "?" for line in _with(lines, "oom-kill:") if (match := _CONSTRAINT.search(line))]
    return tuple((killed if len(killed) >= len(chosen) else chosen)[:MAX_LINES])


def _said(match: re.Match[str]) -> str:
    return one_line(match[1] or match[2] or "", 400)


def _message(line: str) -> str:
    """The line without time and host."""
    return one_line(_PREFIX.sub("", line, count=1) if "kernel: " in line else re.sub(r"^\[[ 0-9.]+\] ", "", line), 400)
