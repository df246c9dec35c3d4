"""RDMA: sysfs as the probe prints it, and the tools that show the same."""

from __future__ import annotations

import pytest
from tool_evidence import evidence, reason
from tool_fabric import IB, hca, rdma, shown

from rackproof.evidence.tools import ib_tools, ib_words, mlxlink
from rackproof.evidence.tools.rdma import natural
from rackproof.evidence.tools.rdma import rdma as read_rdma
from rackproof.facts import Missing
from rackproof.facts_rdma import Gid, Hca, MlxLink, Port, RdmaFacts


def facts(text: str) -> RdmaFacts:
    found = read_rdma(evidence(rdma=text))
    assert isinstance(found, RdmaFacts), found
    return found


def hcas(text: str) -> tuple[Hca, ...]:
    listed = facts(text).hcas
    assert isinstance(listed, tuple), listed
    return listed


def port(**changes: str) -> Port:
    return hcas(rdma(hca("mlx5_0", **changes)))[0].ports[0]


def test_a_healthy_tray() -> None:
    node = facts(rdma(hca("mlx5_10"), hca("mlx5_2")))
    assert (node.source, node.ofed_version, node.mlx5_version) == ("sysfs", "OFED-internal-25.10-1.0.0", "25.10-1.0.0")
    assert node.devices == ("rdma_cm", "uverbs0")
    assert node.modules == {"ib_core", "ib_uverbs", "rdma_cm", "mlx5_core", "mlx5_ib"}
    assert isinstance(node.hcas, tuple)
    assert [item.name for item in node.hcas] == ["mlx5_2", "mlx5_10"]
    item = node.hcas[0]
    assert (item.fw_version, item.product, item.board_id) == ("40.46.3008", "MT4131", "NVD0000000001")
    assert (item.pci_id, item.pci_address, item.driver) == ("15b3:1023", "00000000:03:00.0", "mlx5_core")
    assert (item.node_guid, item.numa_node) == ("7425540300f1a4cd", 0)
    (one,) = item.ports
    assert (one.number, one.state, one.phys_state, one.link_layer) == (1, "ACTIVE", "LinkUp", "Ethernet")
    assert one.rate_bits_per_s == 800_000_000_000
    assert (one.lid, one.sm_lid, one.pkeys, one.netdevs) == (0, 0, (0xFFFF,), ("rdma0",))
    assert one.errors == {"symbol_error": 0, "link_downed": 2, "out_of_sequence": 0}
    assert isinstance(one.gids, tuple)
    assert [(gid.index, gid.scope, gid.version) for gid in one.gids] == [
        (0, "link-local", "IB/RoCE v1"), (3, "ipv4", "RoCE v2"),
    ]  # fmt: skip
    assert one.gids[1].address == "::ffff:192.168.190.109"
    assert "active MTU" in reason(one.active_mtu_bytes)


def test_no_rdma_is_an_answer_and_no_sysfs_is_none() -> None:
    none = shown("rdma link", "Failed to open NETLINK_RDMA socket")
    assert (facts(rdma()).hcas, facts(rdma(rest=none)).hcas) == ((), ())
    assert "not mounted" in reason(read_rdma(evidence(rdma=rdma().replace("+ /sys/class/net", "- /sys/class/net"))))
    hidden = facts(rdma().replace(f"- {IB}/*", f"! {IB}/*"))
    assert "could not be read" in reason(hidden.hcas)


def test_netlink_shows_what_sysfs_hides() -> None:
    node = facts(rdma(rest=shown("rdma link", "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev rdma0")))
    assert node.source == "rdma link"
    assert isinstance(node.hcas, tuple)
    assert node.hcas[0].ports[0].netdevs == ("rdma0",)


def test_no_ofed() -> None:
    text = rdma(hca("mlx5_0"))
    text = text.replace(shown("ofed_info", "OFED-internal-25.10-1.0.0:"), "- ofed_info\n")
    version = "/sys/module/mlx5_core/version"
    text = text.replace(shown(version, "25.10-1.0.0"), f"- {version}\n")
    assert (facts(text).ofed_version, facts(text).mlx5_version) == (None, None)


def test_sick_ports() -> None:
    assert port(state="1: DOWN", phys_state="2: Polling").phys_state == "Polling"
    assert port(state="2: INIT").state == "INIT"
    assert port(rate="200 Gb/sec (4X HDR)").rate_bits_per_s == 200_000_000_000
    assert port(pkeys="128 0x7fff").pkeys == (0x7FFF,)
    assert port(pkeys="32 0x0000").pkeys == ()
    strange = port(state="9: RESTING", phys_state="", rate="fast", link_layer="", lid="x", gids="0", pkeys="0",
                   counters="")  # fmt: skip
    for field in ("state", "phys_state", "rate_bits_per_s", "link_layer", "lid", "gids", "pkeys", "errors"):
        assert isinstance(getattr(strange, field), Missing), field
    damaged = port(**{"gids/3": "a b"})
    assert "GID 3" in reason(damaged.gids)
    only_local = port(**{"gids/3": "fe80:0000:0000:0000:0ac0:ebff:fe49:282a rdma0 RoCE v2"})
    assert isinstance(only_local.gids, tuple)
    assert {gid.scope for gid in only_local.gids} == {"link-local"}


@pytest.mark.parametrize(
    ("address", "scope"),
    [("::ffff:10.0.0.1", "ipv4"), ("::ffff:169.254.0.1", "link-local"), ("fe80::1", "link-local"),
     ("fd02::1", "global"), ("2001:db8::1", "global"), ("ff02::1", "other"), ("::1", "other"), ("nonsense", "other")],
)  # fmt: skip
def test_scopes(address: str, scope: str) -> None:
    assert Gid(0, address, "RoCE v2").scope == scope


def test_soft_devices_have_no_pci() -> None:
    text = hca("rxe0", rate="2.5 Gb/sec (1X SDR)").replace(f"- {IB}/rxe0/parent\n", shown(f"{IB}/rxe0/parent", "eth0"))
    text = text.replace("PCI_ID=15B3:1023", "X=1").replace("PCI_SLOT_NAME=", "Y=").replace(" rdma0 ", " - ")
    (item,) = hcas(rdma(text))
    assert "not a PCI device" in reason(item.pci_id)
    assert (item.ports[0].netdevs, item.ports[0].rate_bits_per_s) == (("eth0",), 2_500_000_000)


def test_natural_order() -> None:
    names = ["mlx5_10", "ionic_1", "mlx5_2", "rdmap0s6", "mlx5_1"]
    assert sorted(names, key=natural) == ["ionic_1", "mlx5_1", "mlx5_2", "mlx5_10", "rdmap0s6"]


def test_one_spelling() -> None:
    assert {ib_words.state(word) for word in ("4: ACTIVE", "Active", "PORT_ACTIVE (4)", "ACTIVE")} == {"ACTIVE"}
    assert {ib_words.phys_state(word) for word in ("5: LinkUp", "LinkUp", "LINK_UP")} == {"LinkUp"}
    assert {ib_words.phys_state(word) for word in ("3: Disabled", "DISABLED")} == {"Disabled"}
    assert (ib_words.rate("400"), ib_words.rate("100 Gb/sec (2X HDR)")) == (400_000_000_000, 100_000_000_000)
    assert "rate: N/A" in reason(ib_words.rate("N/A"))
    assert reason(ib_words.number("-1", "numa_node")) == "numa_node: -1"


def test_ibv_devinfo_v() -> None:
    text = (
        "hca_id:\trdmap0s6\n\tfw_ver:\t0.0.0.0\n\tvendor_id:\t0x1d0f\n\tvendor_part_id:\t61344\n\t\tport:\t1\n"
        "\t\t\tstate:\tPORT_ACTIVE (4)\n\t\t\tphys_state:\tLINK_UP (5)\n\t\t\tlink_layer:\tUnspecified\n"
        "\t\t\tGID[  0]:\t\tfe80:0000:0000:0000:0088:2dff:fe3c:2a25\n"
    )
    found = ib_tools.parse_ibv_devinfo(text)
    assert isinstance(found, tuple)
    (efa,) = found
    assert (efa.pci_id, efa.ports[0].phys_state) == ("1d0f:efa0", "LinkUp")
    assert "Unspecified" in reason(efa.ports[0].link_layer)
    assert isinstance(efa.ports[0].gids, tuple) and len(efa.ports[0].gids) == 1
    assert ib_tools.parse_ibv_devinfo("No IB devices found\n") == ()


def test_tools_that_say_nothing() -> None:
    assert "printed no device" in reason(ib_tools.parse_rdma_link("\n"))
    assert "NETLINK" in reason(ib_tools.parse_rdma_link("Failed to open NETLINK_RDMA socket"))
    assert "printed no device" in reason(ib_tools.parse_rdma_link("[]"))
    assert "without device" in reason(ib_tools.parse_rdma_link('[{"ifname": "mlx5_0", "port": true}]'))
    assert "not found" in reason(ib_tools.parse_ibstat("ibstat: command not found"))
    assert "cut off" in reason(ib_tools.parse_show_gids("DEV\tPORT\nmlx5_0\t1\t0\tfe80::1\t\tv1\teth0\n"))
    assert "ibdev2netdev" in reason(ib_tools.parse_ibdev2netdev("mlx5_0 port 1 ==> "))


def test_mlxlink() -> None:
    sick = mlxlink.parse_mlxlink(
        "State                   : Polling\nPhysical state          : ETH_AN_FSM_ENABLE\nSpeed  : N/A\n"
        "Recommendation          : Cable is unplugged\nRaw Physical BER : 3E-7\nEffective Physical BER : 15E-255\n"
    )
    assert isinstance(sick, MlxLink)
    assert (sick.state, sick.recommendation, sick.raw_ber) == ("Polling", "Cable is unplugged", 3e-7)
    assert reason(sick.speed) == "Speed: N/A"
    assert "no port" in reason(mlxlink.parse_mlxlink("-E- Failed to open device"))
    assert "no port" in reason(mlxlink.parse_mlxlink("{}"))
    assert "cut off" in reason(mlxlink.parse_mlxlink('{"result": '))
