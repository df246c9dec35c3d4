"""Layer rdma: what slows it down or announces a fault, and what is recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rackproof.facts_rdma import Port
from rackproof.facts_system import Limit
from rackproof.verdict.model import Status

from .cases import outcome, verify
from .fixtures import GONE
from .fixtures_rdma import (
    FIRMWARE,
    GBIT,
    devices,
    hcas,
    interfaces,
    nic_address,
    over_rdma,
    rail,
    rail_port,
    rail_ports,
    rails,
    rdma_of,
)
from .fixtures_system import GIB, kernel, part, system_of
from .test_rdma import HGX, IB, ONE_NODE, OVER, TRAY, TRAYS, cases, unread

B200 = over_rdma("b200", "b200-tp16")
FOUR_HUNDRED = rail_ports(HGX, rate_bits_per_s=400 * GBIT)
BRIDGES = {f"root{number}": () for number in range(8)}


def pci(**changes: Any) -> Any:
    return replace(HGX, pci=replace(HGX.pci, **changes))  # type: ignore[type-var]


TABLE = {
    "rdma.published_ports": cases(
        [HGX, IB, (TRAY, TRAYS)],
        [
            (FOUR_HUNDRED, "8 of 400 Gbit/s | 8 of 800 Gbit/s (any) or 16 of 400 Gbit/s (oci)"),
            (rail_port(HGX, 5, rate_bits_per_s=200 * GBIT), "1 of 200 Gbit/s and 7 of 800 Gbit/s"),
            (rail_port(HGX, 5, phys_state="Disabled"), "7 of 800 Gbit/s"),
        ],
        unread(lambda gone: rail_port(HGX, 5, rate_bits_per_s=gone)),
    ),
    "rdma.errors": cases(
        [HGX, IB],
        [
            (rail_port(HGX, 5, errors={"symbol_error": 7, "port_rcv_errors": 100}), "mlx5_5:1: symbol_error 7"),
            (rail_port(HGX, 5, errors={"port_rcv_errors": 101}), "port_rcv_errors 101"),
        ],
        unread(lambda gone: rail_port(HGX, 5, errors=gone)),
    ),
    "rdma.flaps": cases(
        [HGX],
        [(interfaces(HGX, "rail3", carrier_changes=-1), "mlx5_3:1: -1 changes")],
        [
            *unread(lambda gone: interfaces(HGX, "rail3", carrier_changes=gone)),
            replace(HGX, network=GONE),
            rail_port(HGX, 3, netdevs=GONE),
            rail_port(HGX, 3, netdevs=("gone0",)),
        ],
    ),
    "rdma.mtu": cases(
        [HGX, IB, interfaces(HGX, "rail", mtu_bytes=8896)],
        [(interfaces(HGX, "rail3", mtu_bytes=1500), "mlx5_3:1: 1500 bytes")],
        [
            *unread(lambda gone: interfaces(HGX, "rail3", mtu_bytes=gone)),
            replace(HGX, network=GONE),
            rail_port(HGX, 3, netdevs=()),
            rail_port(HGX, 3, link_layer=GONE),
        ],
    ),
    "rdma.firmware_uniform": cases(
        [HGX, IB, rail(HGX, 3, pci_id="15b3:a2dc", fw_version="32.1.1")],
        [(rail(HGX, 3, fw_version="40.45.1200"), f"15b3:1023 with 40.45.1200, 15b3:1023 with {FIRMWARE}")],
        unread(lambda gone: rail(HGX, 3, fw_version=gone)),
    ),
    "rdma.firmware_floor": cases(
        [HGX],
        [(rail(HGX, 3, fw_version="40.46.3007"), "mlx5_3: 40.46.3007"), (rails(HGX, fw_version="28.43.1014"), "28.43.1014")],
        [*unread(lambda gone: rail(HGX, 3, fw_version=gone)), rails(HGX, fw_version="40.99.1"), rails(HGX, fw_version="new")],
    ),
    "rdma.shell_memlock": cases(
        [HGX, kernel(HGX, memlock=Limit(32 * GIB, 32 * GIB))],
        [(kernel(HGX, memlock=Limit(8 * 1024**2, None)), "memlock: 8388608")],
        [kernel(HGX, memlock=GONE), replace(HGX, system=GONE)],
    ),
    "rdma.affinity": cases(
        [HGX],
        [(rails(HGX, numa_node=0), "NUMA node 1")],
        [
            *unread(lambda gone: rails(HGX, numa_node=gone)),
            devices(HGX, "10de", numa_node=GONE),
            pci(devices=()),
            devices(HGX, "10de", id="1af4:1000"),
        ],
    ),
    "rdma.pcie_link": cases(
        [HGX, IB],
        [
            (devices(HGX, "15b3", link_speed=32e9), "32 GT/s x16 of 64 GT/s x16"),
            (devices(HGX, "15b3", link_width=8), "64 GT/s x8 of 64 GT/s x16"),
        ],
        [
            *unread(lambda gone: devices(HGX, "15b3", link_speed=gone)),
            devices(HGX, "15b3", link_width_max=GONE),
            devices(HGX, "15b3", link_speed=0.0, link_speed_max=0.0),
            rails(HGX, pci_address="00000000:77:00.0"),
        ],
    ),
    "rdma.pcie_errors": cases(
        [HGX, IB],
        [(devices(HGX, "15b3", aer_fatal=2), ": 2")],
        [*unread(lambda gone: devices(HGX, "15b3", aer_fatal=gone)), devices(HGX, "15b3", aer_fatal=-1)],
    ),
    "rdma.max_read_request": cases(
        [HGX, IB],
        [(pci(max_read_request_bytes={nic_address(n): 4096 if n else 512 for n in range(8)}), "mlx5_0: 512")],
        [*unread(lambda gone: pci(max_read_request_bytes=gone)), pci(max_read_request_bytes={}), rails(HGX, pci_address=GONE)],
        not_applicable=TRAYS,
    ),
    "rdma.acs": cases(
        [HGX, pci(acs={"root0": ("UpstreamFwd",)})],
        [(pci(acs={**BRIDGES, "switch3": ("SrcValid", "ReqRedir")}), "switch3: SrcValid, ReqRedir")],
        [
            *unread(lambda gone: pci(acs=gone)),
            pci(acs={}),
            devices(HGX, "10de", bridges=()),
            devices(HGX, "10de", bridges=GONE),
        ],
        B200,
        OVER,
    ),
    "rdma.arp": cases(
        [HGX],
        [(kernel(HGX, sysctl={"net.ipv4.conf.all.arp_announce": "0", "net.ipv4.conf.all.arp_ignore": "1"}), "arp_announce: 0")],
        [kernel(HGX, sysctl=GONE), kernel(HGX, sysctl={}), replace(HGX, system=GONE)],
    ),
    "rdma.software": cases(
        [HGX, rdma_of(HGX, ofed_version=None, mlx5_version="25.10-1.7.1")],
        [(rdma_of(HGX, ofed_version=""), "OFED")],
        [rdma_of(HGX, ofed_version=GONE), rdma_of(HGX, mlx5_version=GONE), replace(HGX, rdma=GONE)],
    ),
    "rdma.gdrdrv": cases(
        [HGX, part(HGX, "gpudirect", gdrdrv_device=True)],
        [],
        [part(HGX, "gpudirect", gdrdrv_device=GONE), system_of(HGX, gpudirect=GONE), replace(HGX, system=GONE)],
    ),
}


@pytest.mark.parametrize("requirement", TABLE)
def test_requirement(requirement: str) -> None:
    verify(TABLE, requirement)


def test_acs_of_a_machine_without_shared_bridges_is_unknown_and_says_why() -> None:
    found = outcome("rdma.acs", devices(HGX, "10de", bridges=("elsewhere",)), B200)
    assert found.status is Status.UNKNOWN
    assert "no PCIe bridge stands above both a GPU and a NIC, as in a virtual machine" in found.reason


def test_a_fabric_without_any_port_at_all_is_unknown() -> None:
    assert outcome("rdma.published_ports", hcas(HGX, lambda one: replace(one, ports=())), OVER).status is Status.UNKNOWN
    assert outcome("rdma.published_ports", rails(HGX, ports=(Port(1),)), OVER).status is Status.UNKNOWN
    assert outcome("rdma.published_ports", HGX, ONE_NODE).status is Status.NOT_APPLICABLE
