"""Interfaces and routes: `ip -json`, and what ethtool would say of speed, duplex and driver, from sysfs.

`ip -json addr` includes all that `ip -json link` says. Source: iproute2 5.x and 6.x.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command
from rackproof.evidence.tools.group import Group, read_group, script
from rackproof.evidence.tools.values import as_int, as_text, load_json, one_line, pci_address
from rackproof.facts import Fact, Missing
from rackproof.facts_network import Interface, NetworkFacts, Route

CLASS = "/sys/class/net"
FILES = ("mtu", "operstate", "carrier", "carrier_changes", "speed", "duplex", "device/uevent")

_SCRIPT = f"""
for i in {CLASS}/*; do
  [ -d "$i" ] || {{ gone "$i"; continue; }}
  mark "$i"
  for f in {" ".join(FILES)}; do [ ! -f "$i/$f" ] || show "$i/$f"; done
done 2>/dev/null
if command -v ip >/dev/null; then
  say 'ip addr' "$(ip -json addr || echo "ip ended with exit code $?")"
  say 'ip route' "$(ip -json -4 route show default || echo "ip ended with exit code $?")"
  say 'ip -6 route' "$(ip -json -6 route show default || echo "ip ended with exit code $?")"
fi
"""

COMMANDS = (Command("network", script(_SCRIPT)),)

_NAME = re.compile(r"[^\s/:\x00-\x1f]{1,15}")
_NO_IP = Missing("ip is not installed")


def network(evidence: Evidence) -> Fact[NetworkFacts]:
    group = read_group(evidence, "network", CLASS)
    if isinstance(group, Missing):
        return group
    listed = _said(group, "ip addr")
    addresses = parse_ip_addr(listed) if isinstance(listed, str) else listed
    by_name = {} if isinstance(addresses, Missing) else {item.name: item for item in addresses}
    own = sorted(path[len(CLASS) + 1 :] for path in group.marked if path.startswith(f"{CLASS}/"))
    routes = [_said(group, "ip route"), _said(group, "ip -6 route")]
    return NetworkFacts(
        interfaces=tuple(_interface(group, name, by_name.get(name), addresses) for name in own if _NAME.fullmatch(name))
        or Missing("the kernel shows no network interface"),
        default_routes=_routes(routes),
    )


def _said(group: Group, command: str) -> Fact[str]:
    """What `ip` printed; Missing where it is not installed."""
    text = group.entries.get(command, _NO_IP)
    return text if isinstance(text, (str, Missing)) else _NO_IP


def _interface(group: Group, name: str, by_ip: Interface | None, addresses: Fact[object]) -> Interface:
    """An interface by sysfs, with what `ip` adds: addresses, kind, master."""

    def text(file: str) -> str | None:
        value = group.text(f"{CLASS}/{name}/{file}")
        return value.strip() if isinstance(value, str) else None

    uevent = dict(re.findall(r"^([A-Z_]+)=(.+)$", text("device/uevent") or "", re.MULTILINE))
    reason = addresses if isinstance(addresses, Missing) else Missing(f"ip addr does not show {name}")
    base = by_ip or Interface(name, up=reason, kind=reason, master=reason, ipv4=reason, ipv6=reason)
    state = as_text(text("operstate"), "operstate")
    return replace(
        base,
        mtu_bytes=as_int(text("mtu"), "mtu"),
        carrier=_carrier(text("carrier")),
        state=Missing("operstate: unknown") if isinstance(state, Missing) else state.upper(),
        speed_bits_per_s=_speed(text("speed")),
        duplex=as_text(text("duplex"), "duplex"),
        driver=as_text(uevent.get("DRIVER"), f"driver of {name}"),
        pci_address=pci_address(uevent.get("PCI_SLOT_NAME", "")) or Missing(f"{name} is not a PCI function"),
        carrier_changes=as_int(text("carrier_changes"), "carrier_changes"),
    )


def _carrier(raw: str | None) -> Fact[bool]:
    """An interface that is not up refuses to say, and the file then reads empty."""
    return {"1": True, "0": False}.get(raw or "", Missing("carrier: the interface is not up"))


def _speed(raw: str | None) -> Fact[int]:
    """Mbit/s in sysfs; -1 where the link is down or the driver does not know."""
    speed = as_int(raw, "speed")
    if isinstance(speed, Missing):
        return speed
    return speed * 10**6 if 0 < speed < 10**7 else Missing(f"speed: {speed}")


def parse_ip_addr(text: str) -> Fact[tuple[Interface, ...]]:
    """Interfaces of `ip -json addr` or `ip -json link`; the latter shows no addresses."""
    rows = _rows(text, "ip addr")
    if isinstance(rows, Missing):
        return rows
    found = []
    for row in rows:
        name = row.get("ifname")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            return Missing("ip addr: an interface without a name")
        found.append(_ip_interface(name, row))
    return tuple(found) or Missing("ip addr shows no interface")


def _ip_interface(name: str, row: Mapping[str, object]) -> Interface:
    flags = row.get("flags")
    listed = flags if isinstance(flags, list) else None
    mtu, state, kind, master = row.get("mtu"), row.get("operstate"), row.get("link_type"), row.get("master")
    not_printed = Missing("flags: not printed")
    return Interface(
        name=name,
        mtu_bytes=mtu if type(mtu) is int and mtu > 0 else Missing("mtu: not printed"),
        up="UP" in listed if listed is not None else not_printed,
        carrier="LOWER_UP" in listed if listed is not None else not_printed,
        state=as_text(state if isinstance(state, str) else None, "operstate"),
        kind=as_text(kind if isinstance(kind, str) else None, "link_type"),
        master=master if isinstance(master, str) else None,
        ipv4=_addresses(row, "inet"),
        ipv6=_addresses(row, "inet6"),
    )


def _addresses(row: Mapping[str, object], family: str) -> Fact[tuple[str, ...]]:
    listed = row.get("addr_info")
    if not isinstance(listed, list):
        return Missing("addr_info: not printed")
    entries = [entry for entry in listed if isinstance(entry, dict) and entry.get("family") == family]
    wanted = [entry.get("local") for entry in entries if family == "inet" or entry.get("scope") != "link"]
    return tuple(address for address in wanted if isinstance(address, str))


def parse_ip_route(text: str) -> Fact[tuple[Route, ...]]:
    """Routes of `ip -json route`; () for a table that was read and holds none."""
    rows = _rows(text, "ip route")
    if isinstance(rows, Missing):
        return rows
    found: list[Route] = []
    for row in rows:
        destination, metric = row.get("dst"), row.get("metric", 0)
        if not isinstance(destination, str) or type(metric) is not int:
            return Missing(f"ip route: a route without destination: {one_line(str(row)[:200])}")
        found += (_route(destination, metric, hop) for hop in _hops(row))
    return tuple(found)


def _hops(row: Mapping[str, object]) -> Iterable[Mapping[str, object]]:
    """The next hops of a route; a multipath route lists them in one entry."""
    hops = row.get("nexthops")
    return [hop for hop in hops if isinstance(hop, dict)] if isinstance(hops, list) and hops else [row]


def _route(destination: str, metric: int, hop: Mapping[str, object]) -> Route:
    device, gateway = hop.get("dev"), hop.get("gateway")
    via = hop.get("via")
    if gateway is None and isinstance(via, dict):
        gateway = via.get("host")
    return Route(
        destination=destination,
        interface=device if isinstance(device, str) else Missing(f"route {destination[:60]}: no interface"),
        gateway=gateway if isinstance(gateway, str) else None,
        metric=metric,
    )


def _routes(texts: Iterable[Fact[str]]) -> Fact[tuple[Route, ...]]:
    """IPv4 before IPv6. A family that prints nothing at all has no route: older `ip -json` leaves out the []."""
    found: list[Route] = []
    for text in texts:
        routes = text if isinstance(text, Missing) else parse_ip_route(text) if text.strip() else ()
        if isinstance(routes, Missing):
            return routes
        found += sorted(routes, key=lambda route: route.metric)
    return tuple(found)


def _rows(text: str, what: str) -> Fact[list[Mapping[str, object]]]:
    """The objects of a JSON list; `ip` prints {} for what its filter left out."""
    rows = load_json(text, what)
    if isinstance(rows, Missing):
        return rows
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return Missing(f"{what}: not a list of objects: {one_line(text)}")
    return [row for row in rows if row]
