"""`ibv_devinfo [-v]`, `ibstat`, `rdma link [-j]`, `ibdev2netdev`, `show_gids`: RDMA devices as the tools print them.

Blanks or tabs, values one or several columns away. Sources: captures of ibstat 47 to rdma-core 50, iproute2 5 and 6.
A device whose block is cut off keeps what was printed; what was not is missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rackproof.evidence.sections import Command
from rackproof.evidence.tools import ib_words
from rackproof.evidence.tools.values import as_text, load_json, one_line, plain
from rackproof.facts import Fact, Missing
from rackproof.facts_rdma import Gid, Hca, Port

COMMANDS: tuple[Command, ...] = ()  # the probe reads sysfs; see rdma.py

_NAME = r"[A-Za-z0-9_.-]{1,64}"
_PAIR = re.compile(r"\s*([A-Za-z][A-Za-z_ ]{0,40}?):\s*(.*?)\s*")
_GID = re.compile(r"\s*GID\[\s*([0-9]{1,4})\]:\s*([0-9A-Fa-f:.]{2,45})(?:,\s*(.*?))?\s*")
_LINK = re.compile(
    rf"\s*(?:link )?({_NAME})/([0-9]{{1,3}}) state (\S+) physical_state (\S+)(?: .*?)??(?:\s+netdev (\S+))?(?:\s.*)?"
)
_NETDEV = re.compile(rf"({_NAME}) port ([0-9]{{1,3}}) ==> (\S+) \((Up|Down)\)")
_ROW = re.compile(
    rf"({_NAME})\s+([0-9]{{1,3}})\s+([0-9]{{1,4}})\s+([0-9a-f:]{{2,45}})\s+(?:[0-9.]{{7,15}}\s+)?"
    r"(v[12])(?:\s+(\S+))?\s*"
)


class _Block:
    """A device while it is read: pairs of its own, and pairs and GIDs of each port."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pairs: dict[str, str] = {}
        self.ports: dict[int, dict[str, str]] = {}
        self.gids: dict[int, list[Gid]] = {}
        self.open: int | None = None

    def line(self, line: str, port_key: str) -> None:
        gid = _GID.fullmatch(line)
        pair = _PAIR.fullmatch(line)
        port = re.fullmatch(rf"\s*{port_key}\s*([0-9]{{1,3}}):?\s*", line, re.IGNORECASE)
        if gid and self.open is not None:
            entry = ib_words.gid(int(gid[1]), gid[2], gid[3], None)
            self.gids.setdefault(self.open, []).extend([entry] if entry else [])
        elif port:
            self.open = int(port[1])
            self.ports[self.open] = {}
        elif pair:
            here = self.pairs if self.open is None else self.ports[self.open]
            here.setdefault(pair[1].lower(), pair[2])


def _blocks(text: str, head: str, port_key: str) -> list[_Block]:
    found: list[_Block] = []
    for line in plain(text).splitlines():
        match = re.fullmatch(head, line)
        if match:
            found.append(_Block(match[1]))
        elif found:
            found[-1].line(line, port_key)
    return found


def parse_ibv_devinfo(text: str) -> Fact[tuple[Hca, ...]]:
    """Devices of `ibv_devinfo` with or without -v, or of `ibv_devices`; () for "No IB devices found"."""
    blocks = _blocks(text, rf"hca_id:\s*({_NAME})\s*", "port:")
    if not blocks:
        if "No IB devices found" in text:
            return ()
        if re.match(r"\s*device\s+node GUID\s*\n", text):
            rows = re.findall(rf"^\s+({_NAME})\s+([0-9a-f]{{16}})\s*$", text, re.MULTILINE)
            return tuple(Hca(name, (), node_guid=guid) for name, guid in rows)
        return Missing(f"ibv_devinfo shows no device: {one_line(text) or 'empty'}")
    return tuple(_ibv_hca(block) for block in blocks)


def _ibv_hca(block: _Block) -> Hca:
    vendor = re.fullmatch("0x0*([0-9a-f]{1,4})", block.pairs.get("vendor_id", ""))
    part = re.fullmatch("[0-9]{1,5}", block.pairs.get("vendor_part_id", ""))
    # Mellanox reports its IEEE number here, not its PCI vendor id.
    pci_vendor = {"2c9": "15b3"}.get(vendor[1], vendor[1].zfill(4)) if vendor else None
    known = pci_vendor and part and int(part[0]) < 0x10000
    return Hca(
        name=block.name,
        ports=tuple(_ibv_port(block, number) for number in block.ports),
        fw_version=as_text(block.pairs.get("fw_ver"), "fw_ver"),
        board_id=as_text(block.pairs.get("board_id"), "board_id"),
        node_guid=ib_words.guid(block.pairs.get("node_guid")),
        pci_id=f"{pci_vendor}:{int(part[0]):04x}" if known and part else Missing("vendor_id: not printed"),
    )


def _ibv_port(block: _Block, number: int) -> Port:
    pairs = block.ports[number]
    return Port(
        number=number,
        state=ib_words.state(pairs.get("state")),
        phys_state=ib_words.phys_state(_numbered(pairs.get("phys_state"))),
        link_layer=ib_words.link_layer(pairs.get("link_layer")),
        lid=ib_words.number(pairs.get("port_lid"), "port_lid"),
        sm_lid=ib_words.number(pairs.get("sm_lid"), "sm_lid"),
        active_mtu_bytes=ib_words.mtu(pairs.get("active_mtu")),
        gids=tuple(block.gids[number]) if number in block.gids else Missing("ibv_devinfo printed no GID table"),
    )


def _numbered(raw: str | None) -> str | None:
    """-v prints "LINK_UP (5)"."""
    return re.sub(r"\s*\([0-9]{1,2}\)$", "", raw) if raw is not None else None


def parse_ibstat(text: str) -> Fact[tuple[Hca, ...]]:
    """Devices of `ibstat`, in the order printed (textual: mlx5_10 before mlx5_2)."""
    blocks = _blocks(text, rf"CA '({_NAME})'\s*", "Port")
    if not blocks:
        return Missing(f"ibstat shows no device: {one_line(text) or 'empty'}")
    return tuple(
        Hca(
            name=block.name,
            ports=tuple(_ibstat_port(number, pairs) for number, pairs in block.ports.items()),
            fw_version=as_text(block.pairs.get("firmware version"), "Firmware version"),
            product=as_text(block.pairs.get("ca type"), "CA type"),
            node_guid=ib_words.guid(block.pairs.get("node guid")),
        )
        for block in blocks
    )


def _ibstat_port(number: int, pairs: Mapping[str, str]) -> Port:
    return Port(
        number=number,
        state=ib_words.state(pairs.get("state")),
        phys_state=ib_words.phys_state(pairs.get("physical state")),
        rate_bits_per_s=ib_words.rate(pairs.get("rate")),
        link_layer=ib_words.link_layer(pairs.get("link layer")),
        lid=ib_words.number(pairs.get("base lid"), "Base lid"),
        sm_lid=ib_words.number(pairs.get("sm lid"), "SM lid"),
    )


def parse_rdma_link(text: str) -> Fact[tuple[Hca, ...]]:
    """Devices of `rdma link` as text or with -j. Silence, which is also what a broken netlink prints, is missing."""
    if text.lstrip()[:1] in ("[", "{"):
        return _rdma_json(text)
    ports: dict[str, list[Port]] = {}
    for line in plain(text).splitlines():
        match = _LINK.fullmatch(line)
        if match:
            ports.setdefault(match[1], []).append(_link_port(int(match[2]), match[3], match[4], match[5]))
        elif line.strip():
            return Missing(f"rdma link: {one_line(line)}")
    return _of_ports(ports) or Missing("rdma link printed no device")


def _rdma_json(text: str) -> Fact[tuple[Hca, ...]]:
    rows = load_json(text, "rdma link")
    if isinstance(rows, Missing):
        return rows
    ports: dict[str, list[Port]] = {}
    for row in rows if isinstance(rows, list) else [rows]:
        fields = row if isinstance(row, dict) else {}
        name, number = fields.get("ifname"), fields.get("port")
        if not isinstance(name, str) or not re.fullmatch(_NAME, name) or type(number) is not int:
            return Missing(f"rdma link: an entry without device and port: {one_line(str(row)[:200])}")
        words = [value if isinstance(value := fields.get(key), str) else None for key in _LINK_KEYS]
        ports.setdefault(name, []).append(_link_port(number, *words))
    return _of_ports(ports) or Missing("rdma link printed no device")


_LINK_KEYS = ("state", "physical_state", "netdev")


def _link_port(number: int, state: str | None, phys_state: str | None, netdev: str | None) -> Port:
    return Port(
        number, ib_words.state(state), ib_words.phys_state(phys_state), netdevs=(netdev,) if netdev else ()
    )


def _of_ports(ports: Mapping[str, list[Port]]) -> tuple[Hca, ...]:
    return tuple(Hca(name, tuple(listed)) for name, listed in ports.items())


def parse_ibdev2netdev(text: str) -> Fact[tuple[Hca, ...]]:
    """Device, interface and the interface's state of each port; the port's own state is not printed."""
    ports: dict[str, list[Port]] = {}
    for line in plain(text).splitlines():
        match = _NETDEV.fullmatch(line.strip())
        if match:
            ports.setdefault(match[1], []).append(Port(int(match[2]), netdevs=(match[3],), netdev_up=match[4] == "Up"))
        elif line.strip():
            return Missing(f"ibdev2netdev: {one_line(line)}")
    return _of_ports(ports) or Missing("ibdev2netdev printed no device")


def parse_show_gids(text: str) -> Fact[tuple[Hca, ...]]:
    """GIDs of each port; a table whose last line does not count as many is cut off."""
    gids: dict[str, dict[int, list[Gid]]] = {}
    count = 0
    for line in plain(text).splitlines():
        match = _ROW.fullmatch(line)
        gid = ib_words.gid(int(match[3]), match[4], match[5], match[6]) if match else None
        if match and gid:
            gids.setdefault(match[1], {}).setdefault(int(match[2]), []).append(gid)
            count += 1
    total = re.search(r"^n_gids_found=([0-9]{1,6})\s*$", text, re.MULTILINE)
    if not total or int(total[1]) != count:
        return Missing(f"show_gids is cut off or damaged: {one_line(text) or 'empty'}")
    return tuple(
        Hca(name, tuple(_gid_port(number, entries) for number, entries in ports.items()))
        for name, ports in gids.items()
    )


def _gid_port(number: int, gids: list[Gid]) -> Port:
    netdevs = dict.fromkeys(gid.netdev for gid in gids if isinstance(gid.netdev, str))
    return Port(number, netdevs=tuple(netdevs), gids=tuple(gids))
