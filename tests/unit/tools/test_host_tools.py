"""Identity, marks, managed files, units, packages, the kernel log."""

from __future__ import annotations

import pytest
from tool_evidence import UNIT_BLOCK, evidence, healthy, reason, section

from rackproof.evidence.tools import host, kernel_log, packages, systemd
from rackproof.facts import KernelLogFacts, ManagedFile, Unit, Xid


def test_identity() -> None:
    node = healthy()
    assert (host.hostname(node), host.boot_id(node), host.product_name(node)) == ("tray01", "fc13cc59", "GB300 NVL72")
    assert (host.kernel(node), host.architecture(node)) == ("6.8.0-1039-nvidia-64k", "aarch64")
    assert (host.page_size_bytes(node), host.is_root(node)) == (65536, True)
    assert (host.os_id(node), host.os_version(node)) == ("ubuntu", "24.04")
    assert host.addresses(node) == ("10.0.0.1",)


def test_not_root() -> None:
    assert host.is_root(evidence(identity="= uid\n|1000\n.\n")) is False
    assert reason(host.is_root(evidence(identity="= uid\n|\n.\n"))) == "uid is empty"


def test_cmdline_keeps_quoted_blanks_together() -> None:
    assert host.parse_cmdline('a=1 dyndbg="file a.c +p" b ') == ("a=1", 'dyndbg="file a.c +p"', "b")


def test_marks() -> None:
    node = healthy()
    assert (host.simulated(node), host.selfbuild(node), host.reboot_required(node)) == (None, None, False)
    assert host.stamp(node) == {"hash": "a"}
    marked = (
        "= /etc/rackproof-lab\n|gb300\n|more\n= /etc/rackproof/selfbuild\n! /etc/rackproof/baseline.json\n"
        "+ /run/reboot-required\n.\n"
    )
    node = evidence(marks=marked)
    assert (host.simulated(node), host.selfbuild(node)) == ("gb300", "(an empty mark)")
    assert host.reboot_required(node) is True


@pytest.mark.parametrize(
    ("release", "says"),
    [('ID=ubuntu\nID_LIKE=debian\n', ""), ("ID=debian\n", ""), ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "needs-restarting"),
     ("NAME=x\n", "only Debian and Ubuntu"), ("", "cannot be told"), (None, "cannot be told")],
)  # fmt: skip
def test_no_mark_for_a_reboot_says_something_only_where_marks_are_left(release: str | None, says: str) -> None:
    marks = "- /etc/rackproof-lab\n- /etc/rackproof/selfbuild\n- /etc/rackproof/baseline.json\n- /run/reboot-required\n.\n"
    node = evidence(marks=marks, **({} if release is None else {"os_release": release}))
    found = host.reboot_required(node)
    assert says in reason(found) if says else found is False


def test_a_stamp_that_cannot_be_read() -> None:
    marked = "= /etc/rackproof-lab\n|gb300\n= /etc/rackproof/selfbuild\n! /etc/rackproof/baseline.json\n- /run/reboot-required\n.\n"
    node = evidence(marks=marked)
    assert "could not be read" in reason(host.stamp(node))
    broken = evidence(marks="= /etc/rackproof/baseline.json\n|{cut\n.\n")
    assert "not JSON" in reason(host.stamp(broken))


def test_files() -> None:
    assert host.files(healthy()) == {
        "/etc/a": ManagedFile("/etc/a", "0" * 64), "/etc/b": ManagedFile("/etc/b", None),
    }  # fmt: skip
    assert "cut off" in reason(host.parse_files("absent /etc/b\n"))


def test_units() -> None:
    units = systemd.units(healthy())
    assert isinstance(units, dict)
    assert units["podman.socket"].running
    text = UNIT_BLOCK.format(name="a.service") + (
        "\n\nId=b.timer\nLoadState=not-found\nActiveState=inactive\nSubState=dead\nUnitFileState=\nResult=success\n"
    )
    units = systemd.parse_units(text.replace("LimitMEMLOCK=infinity", "LimitMEMLOCK=18446744073709551615"), ("a", "b"))
    assert isinstance(units, dict)
    assert (units["a"].memlock, units["a"].restarts, units["a"].enabled) == ("infinity", 0, "enabled")
    assert isinstance(units["b"], Unit)
    assert (units["b"].installed, units["b"].running) == (False, False)
    assert "NRestarts" in reason(units["b"].restarts)


def test_units_not_answered() -> None:
    assert "1 of 2 units" in reason(systemd.parse_units(UNIT_BLOCK.format(name="a"), ("a", "b")))
    assert "no state of a" in reason(systemd.parse_units("Id=a\nLoadState=\n", ("a",)))
    none = section("systemd_units", "", "System has not been booted with systemd as init system (PID 1).\n", rc=1)
    assert "not been booted with systemd" in reason(systemd.units(evidence(systemd_units=none)))


ROWS = (
    "|ii \ta\t1\tarm64\n|hi \theld\t1:2\tarm64\n|rc \tremoved\t3\tall\n|iF \thalf\t4\tall\n|iHR\treinst\t5\tall\n"
    "|ii \tlibnvidia-compute-580\t580.1\tamd64\n|ii \tlibnvidia-compute-580\t570.1\ti386\n|iU \tunpacked\t6\tall\n"
)


def test_packages() -> None:
    rows = packages.parse_packages(f"source=dpkg\n{ROWS}total=900 rc=0\n")
    assert isinstance(rows, list)
    assert packages.installed(rows) == {"a": "1", "held": "1:2", "libnvidia-compute-580": "580.1"}
    assert packages.broken(rows) == ("half", "reinst", "unpacked")


@pytest.mark.parametrize(
    "text",
    [f"source=dpkg\n{ROWS}", f"source=dpkg\n{ROWS}total=900 rc=1", "source=dpkg\ntotal=0 rc=0", "source=none",
     "source=dpkg\nii a 1\ntotal=900 rc=0", "dpkg-query: error"],
)  # fmt: skip
def test_a_package_list_that_cannot_be_trusted(text: str) -> None:
    assert reason(packages.parse_packages(text))


def test_apt() -> None:
    assert packages.apt_preferences(healthy()) == {"/etc/apt/preferences.d/pin": "Package: *nvidia*"}
    sources = packages.apt_sources(healthy())
    assert sources == {"/etc/apt/sources.list.d/cuda.sources": "Types: deb\nURIs: https://***@mirror/cuda"}
    assert "does not use apt" in reason(packages.apt_sources(evidence(apt_config="- /etc/apt\n.\n")))
    locked = "! /etc/apt/preferences.d/*\n- /etc/apt/preferences\n+ /etc/apt\n.\n"
    assert "could not be read" in reason(packages.apt_preferences(evidence(apt_config=locked)))


XID = "[103859.4] NVRM: Xid (PCI:0008:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x02)"


def log(*lines: str, read: int = 900, kept: int | None = None) -> str:
    count = len(lines) if kept is None else kept
    body = "".join(f"|{line}\n" for line in lines)
    return f"source=journalctl lines={read} matched={len(lines)} kept={count}\n{body}.\n"


def test_kernel_log() -> None:
    facts = kernel_log.parse_kernel_log(log(XID, "kernel: nvidia 0008:06:00.0: enabling device"))
    text = "NETIR_LINK_EVT Fatal XC0 i0 Link 01 (0x02)"
    assert facts == KernelLogFacts(900, "journalctl -k", (Xid(149, "00000008:01:00.0", text),))


@pytest.mark.parametrize(
    ("line", "code", "address"),
    [
        ("NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained", 94, "00000000:01:00.0"),
        ("NVRM: Xid (PCI:0000:3F:00.0): 46", 46, "00000000:3f:00.0"),
        ("NVRM: Xid (0000:34:00): 79, GPU has fallen off the bus.", 79, "00000000:34:00.0"),
        ("2026-08-01T00:00:00+0000 n kernel: NVRM: Xid (PCI:0018:01:00): 154, GPU recovery", 154, "00000018:01:00.0"),
    ],
)
def test_xid_forms(line: str, code: int, address: str) -> None:
    assert [(xid.code, xid.pci_address) for xid in kernel_log.parse_xids(line)] == [(code, address)]


def test_sxid_is_no_xid() -> None:
    assert kernel_log.parse_xids("nvidia-nvswitch3: SXid (PCI:0000:08:00.0): 22013, Non-fatal, Link 60") == ()


def test_a_log_that_could_not_be_read_is_not_a_quiet_log() -> None:
    refused = "dmesg: read kernel buffer failed: Operation not permitted\n"
    assert "Operation not permitted" in reason(kernel_log.parse_kernel_log(log(read=0), refused))
    assert "cut off" in reason(kernel_log.parse_kernel_log(log(XID, kept=2)))
    assert "cut off" in reason(kernel_log.parse_kernel_log(log(XID).removesuffix(".\n")))
