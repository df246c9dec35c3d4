"""What the kernel of a node is started with, where the site wants that set (`kernel.tune`).

It is what requirements of the host ask of the platform (rules/system.yaml), so that a deploy sets what a check reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rackproof.resolving import Resolving


@dataclass(frozen=True)
class KernelBaseline:
    arguments: tuple[str, ...]  # words of the command line; () where it is left alone
    sysctl: tuple[tuple[str, str], ...]


def kernel_baseline(r: Resolving) -> KernelBaseline:
    if not r.choose("kernel", "kernel", "tune", default=False):
        return KernelBaseline((), ())
    kind = "amd" if r.hardware.vendor == "amd" else "grace" if r.hardware.cpu_architecture.value == "aarch64" else "hgx"
    required = r.rule("kernel.arguments", "system", "cmdline_required").get(kind, ())
    iommu = r.rule("kernel.arguments", "system", "iommu_word")[kind]
    numa_balancing = r.rule("kernel.sysctl", "system", "numa_balancing").get(kind)
    return KernelBaseline(
        arguments=(*one_word_each(required), iommu),
        sysctl=(("kernel.numa_balancing", numa_balancing),) if numa_balancing is not None else (),
    )


def pci_options(words: Sequence[str]) -> tuple[str, ...]:
    """The options of pci=, which may stand in several words and several in one."""
    return tuple(option for word in words if word.startswith("pci=") for option in word[4:].split(","))


def one_word_each(words: Sequence[str]) -> tuple[str, ...]:
    """Options of pci= in one word: grubby knows each name once."""
    options = pci_options(words)
    rest = tuple(word for word in words if not word.startswith("pci="))
    return (f"pci={','.join(options)}", *rest) if options else rest
