"""What the kernel of a node is started with, where the site wants that set (`kernel.tune`)."""

from __future__ import annotations

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
    return KernelBaseline(
        arguments=tuple(r.rule("kernel.arguments", "deploy", "kernel_arguments")[kind]),
        sysctl=tuple(sorted(r.rule("kernel.sysctl", "deploy", "sysctl")[kind].items())),
    )
