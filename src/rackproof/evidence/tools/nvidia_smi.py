"""`nvidia-smi -q -x`: everything the driver says about every GPU. DTD v11 to v13, R515 to R620.

The document is only believed whole: nvidia-smi that dies half way prints a shorter list of healthy GPUs.
Source of names and values: captures of R515 to R595; docs.nvidia.com/deploy/nvidia-smi.
"""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command
from rackproof.evidence.tools.nvidia_smi_gpu import parse_gpu, value_of
from rackproof.evidence.tools.nvidia_smi_text import parse_text, whole
from rackproof.evidence.tools.values import as_int, as_text, one_line
from rackproof.facts import Fact, Missing, SmiFacts

MAX_CHARS = 8 * 1024 * 1024  # 8 GPUs print 0.4 MB with their clock tables, 0.1 MB without

FALLBACK = "#rackproof: nvidia-smi -q"  # the line before the second answer; behind it comes its exit code

# The clock tables are two thirds of the document and nobody reads them. Descriptor 4 carries exit codes past awk, which
# ends with 1 when it saw no closing tag. Only then, and in what is left of the same deadline, is `-q` asked too: a
# driver that hangs still hangs, and one that refuses (6: no device, 9: not loaded, 18: mismatch) is not asked again.
_SCRIPT = rf"""
exec 3>&1
set -- $({{ {{ nvidia-smi -q -x 3>&- 4>&-; echo $? >&4; }} | {{
  awk '
    /<supported_clocks>/ {{ clocks = 1 }}
    !clocks
    /<\/supported_clocks>/ {{ clocks = 0 }}
    /<\/nvidia_smi_log>/ {{ whole = 1 }}
    END {{ exit !whole }}' >&3; echo $? >&4; }}; }} 4>&1)
exec 3>&-
case $1:$2 in *:0|6:*|9:*|18:*|12?:*) exit "$1" ;; esac
text=$(nvidia-smi -q)
printf '\n%s: %s\n%s\n' '{FALLBACK}' $? "$text"
exit "$1"
"""

COMMANDS = (Command("nvidia_smi_xml", _SCRIPT, requires="nvidia-smi", deadline_s=20),)

_ROOT = "<nvidia_smi_log"
_CLOSE = "</nvidia_smi_log>"


def smi(evidence: Evidence) -> Fact[SmiFacts]:
    section = evidence.usable("nvidia_smi_xml", "nvidia-smi")
    if isinstance(section, Missing):
        return section
    first, mark, second = section.text.partition(f"\n{FALLBACK}: ")
    found = parse_xml(first, section.rc, section.error_text)
    if not mark or not isinstance(found, Missing):
        return found
    return _from_text(second, found)


def _from_text(answer: str, problem: Missing) -> Fact[SmiFacts]:
    """Facts of `-q`, only where it ended well and describes every GPU; that the XML failed stays a warning."""
    rc, _, text = answer.partition("\n")
    facts = parse_text(text)
    if rc.strip() != "0" or isinstance(facts, Missing) or not whole(facts):
        return problem
    return replace(facts, warnings=(f"facts are from nvidia-smi -q, because of its XML: {problem.reason}",))


def parse_xml(text: str, rc: int | None = 0, errors: str = "") -> Fact[SmiFacts]:
    """The facts of a complete document; Missing with nvidia-smi's own words when there is none.

    Lines around the document (infoROM warnings, lost device handles) and an exit code that is not 0 become `warnings`.
    """
    text = text.replace("\r\n", "\n")
    start = text.find(_ROOT)
    if start < 0:
        return Missing(_no_document(text, rc, errors))
    end = text.find(_CLOSE, start)
    if end < 0:
        return Missing(f"the XML is cut off after {text.count('</gpu>')} GPUs")
    document = text[start : end + len(_CLOSE)]
    root = _tree(document, text)
    if isinstance(root, Missing):
        return root
    around = text[:start] + "\n" + text[end + len(_CLOSE) :] + "\n" + errors
    return SmiFacts(
        driver_version=as_text(value_of(root, "driver_version") or value_of(root, "kmd_version"), "driver_version"),
        cuda_version=as_text(value_of(root, "cuda_version") or value_of(root, "cuda_umd_version"), "cuda_version"),
        attached=as_int(value_of(root, "attached_gpus"), "attached_gpus"),
        gpus=tuple(parse_gpu(element, index) for index, element in enumerate(root.findall("gpu"))),
        warnings=_warnings(around, rc),
    )


def _no_document(text: str, rc: int | None, errors: str) -> str:
    """What nvidia-smi said instead: "Failed to initialize NVML: ...", "No devices were found"."""
    lines = [line for line in (text + "\n" + errors).splitlines() if line.strip()]
    said = one_line(" ".join(lines[:2]))
    return f"nvidia-smi: {said}" if said else f"nvidia-smi printed nothing (exit code {rc})"


def _tree(document: str, whole: str) -> ElementTree.Element | Missing:
    """The document as a tree. Entities, which can make a small document huge, are refused before any parser sees it."""
    if len(whole) > MAX_CHARS:
        return Missing(f"the XML is larger than {MAX_CHARS} characters")
    if "<!ENTITY" in whole or re.search(r"<!DOCTYPE[^>]*\[", whole) or "<!DOCTYPE" in document:
        return Missing("the XML declares entities, which nvidia-smi never does")
    try:
        root = ElementTree.fromstring(document)
    except (ElementTree.ParseError, ValueError) as error:
        return Missing(f"the XML is damaged: {one_line(str(error))}")
    return root


def _warnings(around: str, rc: int | None) -> tuple[str, ...]:
    lines = (one_line(line) for line in around.splitlines())
    said = [line for line in lines if line and not line.startswith(("<?xml", "<!DOCTYPE"))]
    if rc:
        said.append(f"nvidia-smi ended with exit code {rc}")
    return tuple(said)
