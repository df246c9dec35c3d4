"""Interfaces, routes and PCI functions: sysfs as the probe prints it, `ip -json`, `lspci`, `lsmod`, `uname`."""

from __future__ import annotations

import json

import pytest
from tool_evidence import evidence, healthy, reason, section
from tool_fabric import ADDRESSES, BRIDGES, NET, function, network, pci

from rackproof.evidence.sections import Status
from rackproof.evidence.tools import kernel_modules, lspci
from rackproof.evidence.tools.network import network as read_network
from rackproof.evidence.tools.network import parse_ip_addr, parse_ip_route
from rackproof.evidence.tools.pci import devices
from rackproof.facts import Missing
from rackproof.facts_network import Interface, NetworkFacts, default_interface
from rackproof.facts_pci import PciDevice


def facts(text: str) -> NetworkFacts:
    found = read_network(evidence(network=text))
    assert isinstance(found, NetworkFacts), found
    return found


def eth0(text: str) -> Interface:
    interfaces = facts(text).interfaces
    assert isinstance(interfaces, tuple)
    return next(item for item in interfaces if item.name == "eth0")


def test_a_healthy_interface() -> None:
    node = facts(network())
    assert isinstance(node.interfaces, tuple)
    assert [item.name for item in node.interfaces] == ["eth0", "lo"]
    assert default_interface(node) == "eth0"  # the better metric, though printed second
    item = eth0(network())
    assert (item.mtu_bytes, item.up, item.carrier, item.state, item.duplex) == (9000, True, True, "UP", "full")
    assert (item.speed_bits_per_s, item.driver, item.pci_address) == (2 * 10**11, "mlx5_core", "00000000:03:00.0")
    assert (item.ipv4, item.ipv6, item.carrier_changes, item.master) == (("10.0.0.1",), ("fd00::1",), 2, None)


def test_sick_interfaces() -> None:
    down = eth0(network(carrier="", operstate="down", speed="-1", duplex="unknown"))
    assert down.state == "DOWN"
    assert "not up" in reason(down.carrier)
    assert reason(down.speed_bits_per_s).startswith("speed: -1")
    assert isinstance(down.duplex, Missing)
    assert eth0(network(carrier="0")).carrier is False


def test_without_ip() -> None:
    text = network()
    for name in ("ip addr", "ip route", "ip -6 route"):
        text = text.replace(f"= {name}\n", f"= not {name}\n")
    item = eth0(text)
    assert (reason(item.ipv4), item.mtu_bytes) == ("ip is not installed", 9000)
    assert reason(default_interface(facts(text))) == "ip is not installed"


def test_routes() -> None:
    assert reason(default_interface(facts(network(routes="[]")))) == "the node has no default route"
    assert reason(default_interface(facts(network(routes="Error: argument")))).startswith("ip route: not JSON")
    multipath = [{"dst": "default", "nexthops": [{"gateway": "10.0.0.1", "dev": "a"}, {"via": {"host": "fe80::1"}}]}]
    found = parse_ip_route(json.dumps(multipath))
    assert isinstance(found, tuple)
    assert [(route.interface, route.gateway) for route in found] == [
        ("a", "10.0.0.1"), (Missing("route default: no interface"), "fe80::1"),
    ]  # fmt: skip
    assert "without destination" in reason(parse_ip_route('[{"dev": "eth0"}]'))
    assert "not a list" in reason(parse_ip_route('{"dst": "default"}'))


def test_ip_link_shows_no_addresses() -> None:
    rows = [{key: value for key, value in row.items() if key != "addr_info"} for row in ADDRESSES]
    found = parse_ip_addr(json.dumps([*rows, {}]))
    assert isinstance(found, tuple)
    assert (found[1].mtu_bytes, found[1].carrier) == (9000, True)
    assert reason(found[1].ipv4) == "addr_info: not printed"
    assert "without a name" in reason(parse_ip_addr('[{"ifname": 3}]'))


def test_no_interface_at_all() -> None:
    assert "no network interface" in reason(facts(f"- {NET}/*\n.\n").interfaces)


def listed(text: str) -> tuple[PciDevice, ...]:
    found = devices(evidence(pci=text))
    assert isinstance(found, tuple), found
    return found


def test_pci_functions() -> None:
    first, second = listed(pci())
    assert (first.address, second.address) == ("00000008:06:00.0", "00000018:06:00.0")
    assert (first.id, first.class_code, first.numa_node) == ("10de:31c2", "0302", 0)
    assert (first.link_speed, first.link_width, first.link_width_max) == (64e9, 16, 16)
    assert first.bridges == ("00000008:00:00.0", "00000008:01:00.0")
    assert (first.aer_fatal, first.aer_nonfatal, first.aer_correctable) == (0, 0, 7)


def test_sick_pci_functions() -> None:
    path = "/sys/devices/pci0000:00/0000:00:01.0/0000:03:00.0"
    sick = listed(pci(function("0000:03:00.0", "0x15b3 ? 0x020700", path, current_link_speed="Unknown",
                               current_link_width="63", max_link_width="0", aer_dev_fatal="", numa_node="-1")))[2]
    assert (sick.class_code, sick.link_speed_max) == ("0207", 64e9)
    for field in ("id", "link_speed", "link_width", "link_width_max", "aer_fatal", "numa_node"):
        assert isinstance(getattr(sick, field), Missing), field
    damaged = devices(evidence(pci=pci("= /sys/bus/pci/devices/0000:03:00.0\n|0x15b3\n")))
    assert "0000:03:00.0" in reason(damaged)
    assert listed("= devices\n|3\n.\n") == ()
    assert "no device at all" in reason(devices(evidence(pci="= devices\n|0\n.\n")))


def test_bridges() -> None:
    node = healthy()
    assert lspci.bridge_acs(node) == {"00000000:82:00.0": ("SrcValid", "ReqRedir")}  # the other bridge has no ACS
    assert lspci.max_read_requests(node) == {"00000000:82:00.0": 128, "00000000:03:00.0": 4096}
    denied = BRIDGES.replace("\t\tACSCtl", "\tCapabilities: <access denied>\n\t\tXSCtl")
    assert "needs root" in reason(lspci.bridge_acs(evidence(pci_bridges=denied)))
    assert "its end" in reason(lspci.bridge_acs(evidence(pci_bridges=BRIDGES.removesuffix(".\n"))))
    assert "hidden" in reason(lspci.bridge_acs(evidence(pci_bridges=".\n")))
    refused = section("pci_bridges", rc=None, status=Status.NEEDS_ROOT)
    assert "needs root" in reason(lspci.bridge_acs(evidence(pci_bridges=refused)))


@pytest.mark.parametrize(
    ("line", "downgraded"),
    [("LnkSta:\tSpeed 16GT/s (ok), Width x16 (ok)", False),
     ("LnkSta:\tSpeed 16GT/s (downgraded), Width x16 (ok)", True),
     ("LnkSta:\tSpeed 32GT/s (ok), Width x8 (downgraded)", True),
     ("LnkSta:\tSpeed 32GT/s, Width x16", False),
     ("LnkSta:\tSpeed 16GT/s, Width x16", True),
     ("LnkSta:\tSpeed 32GT/s, Width x8", True)],
)  # fmt: skip
def test_links(line: str, downgraded: bool) -> None:
    found = lspci.parse_lspci(f"19:00.0 3D controller: X\n\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n\t\t{line}\n")
    assert isinstance(found, tuple)
    assert found[0].link_downgraded is downgraded


def test_what_lspci_cannot_say() -> None:
    found = lspci.parse_lspci("19:00.0 3D controller: X\n\t\tLnkSta:\tSpeed 32GT/s, Width x16\n\t\tUESta: DLP- ...\n")
    assert isinstance(found, tuple)
    assert "does not say" in reason(found[0].link_downgraded)
    assert "UESta" in reason(found[0].uncorrectable_status)
    hidden = lspci.parse_lspci("19:00.0 3D controller: X\n\tCapabilities: <access denied>\n")
    assert isinstance(hidden, tuple)
    assert "needs root" in reason(hidden[0].acs)
    assert "shows no device" in reason(lspci.parse_lspci("lspci: command not found"))
    assert "no LnkSta" in reason(lspci.parse_links(""))


def test_modules_and_uname() -> None:
    text = "Module                  Size  Used by\nnvidia              39059456  2 nvidia_uvm,nvidia_modeset\n"
    found = kernel_modules.parse_lsmod(text)
    assert isinstance(found, dict)
    assert (found["nvidia"].size_bytes, found["nvidia"].used_by) == (39059456, ("nvidia_uvm", "nvidia_modeset"))
    assert "not a list" in reason(kernel_modules.parse_lsmod("lsmod: not found"))
    assert "empty" in reason(kernel_modules.parse_lsmod(""))
    assert reason(kernel_modules.parse_uname("uname: not found")) == "uname: uname: not found"
