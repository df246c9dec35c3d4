"""RDMA devices from sysfs: /sys/class/infiniband, /dev/infiniband, and modules.

Readable without root and without any package. `rdma link` is asked only where sysfs shows no RDMA class: a kernel
without RDMA answers with an error, a container whose sysfs is hidden with the devices. Of a GID or P_Key table
reading ends after 32 empty entries in a row; a table has up to 256. Source: Documentation/ABI/*/sysfs-class-infiniband.
"""

from __future__ import annotations

import re

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command
from rackproof.evidence.tools import ib_words
from rackproof.evidence.tools.group import Group, read_group, script
from rackproof.evidence.tools.ib_tools import parse_rdma_link
from rackproof.evidence.tools.values import as_text, one_line, pci_address
from rackproof.facts import Fact, Missing
from rackproof.facts_rdma import Gid, Hca, Port, RdmaFacts

CLASS = "/sys/class/infiniband"
DEV = "/dev/infiniband"
MLX5_VERSION = "/sys/module/mlx5_core/version"
PROOF = "/sys/class/net"  # is there wherever sysfs is
MODULES = (
    "ib_core", "ib_uverbs", "ib_umad", "rdma_cm", "rdma_ucm", "mlx5_core", "mlx5_ib", "efa", "ionic", "ionic_rdma",
    "bnxt_en", "bnxt_re", "irdma", "rdma_rxe", "siw",
)  # fmt: skip
COUNTERS = (
    "counters/symbol_error", "counters/link_error_recovery", "counters/link_downed", "counters/port_rcv_errors",
    "counters/port_rcv_remote_physical_errors", "counters/port_xmit_discards", "counters/port_xmit_constraint_errors",
    "counters/port_rcv_constraint_errors", "counters/local_link_integrity_errors",
    "counters/excessive_buffer_overrun_errors", "hw_counters/out_of_sequence", "hw_counters/packet_seq_err",
    "hw_counters/rnr_nak_retry_err", "hw_counters/implied_nak_seq_err", "hw_counters/local_ack_timeout_err",
)  # fmt: skip

_SCRIPT = f"""
empty_gid=0000:0000:0000:0000:0000:0000:0000:0000
for h in {CLASS}/*; do
  if [ ! -d "$h" ]; then gone "$h"; continue; fi
  mark "$h"
  show "$h/fw_ver" "$h/hca_type" "$h/board_id" "$h/node_guid" "$h/device/uevent" "$h/device/numa_node" "$h/parent"
  mark "$h"/device/net/*
  for p in "$h"/ports/*; do
    if [ ! -d "$p" ]; then gone "$p"; continue; fi
    mark "$p"
    show "$p/state" "$p/phys_state" "$p/rate" "$p/link_layer" "$p/lid" "$p/sm_lid"
    i=0 empty=0
    while [ $empty -lt 32 ] && [ -e "$p/gids/$i" ]; do
      gid= type= ndev=
      read -r gid <"$p/gids/$i"
      case $gid in
        ''|$empty_gid|fe80${{empty_gid#0000}}) empty=$((empty + 1)) ;;
        *)
          empty=0
          read -r type <"$p/gid_attrs/types/$i"
          read -r ndev <"$p/gid_attrs/ndevs/$i"
          say "$p/gids/$i" "$gid ${{ndev:--}} $type" ;;
      esac
      i=$((i + 1))
    done 2>/dev/null
    say "$p/gids" "$i"
    i=0 empty=0 keys=
    while [ $empty -lt 32 ] && [ -e "$p/pkeys/$i" ]; do
      key=
      read -r key <"$p/pkeys/$i"
      case " $keys " in *" $key "*) ;; *) keys="$keys $key" ;; esac
      case $key in ''|0x0000) empty=$((empty + 1)) ;; *) empty=0 ;; esac
      i=$((i + 1))
    done 2>/dev/null
    say "$p/pkeys" "$i$keys"
    found=
    for f in {" ".join(COUNTERS)}; do
      [ -f "$p/$f" ] || continue
      count=
      read -r count <"$p/$f"
      found="$found ${{f##*/}}=$count"
    done 2>/dev/null
    say "$p/counters" "${{found# }}"
  done
done
mark {PROOF} {DEV}/*
for m in {" ".join(MODULES)}; do mark /sys/module/$m; done
show {MLX5_VERSION}
if command -v ofed_info >/dev/null; then say ofed_info "$(ofed_info -s)"; else echo '- ofed_info'; fi
if [ ! -d {CLASS} ] && command -v rdma >/dev/null; then
  echo '= rdma link'
  rdma link 2>&1 | content
fi
"""

COMMANDS = (Command("rdma", script(_SCRIPT)),)

_GID = re.compile(r"([0-9a-f:]{2,45}) (\S{1,15})(?: (.*))?")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def rdma(evidence: Evidence) -> Fact[RdmaFacts]:
    group = read_group(evidence, "rdma", CLASS)
    if isinstance(group, Missing):
        return group
    if group.exists(PROOF) is not True:
        return Missing("sysfs is not mounted: /sys/class/net is not there")
    hcas, source = _hcas(group)
    ofed = group.text("ofed_info")
    version = group.text(MLX5_VERSION)
    return RdmaFacts(
        hcas=hcas,
        source=source,
        devices=group.names(DEV),
        modules=_modules(group),
        ofed_version=as_text(ofed.strip().rstrip(":"), "ofed_info -s") if isinstance(ofed, str) else ofed,
        mlx5_version=as_text(version, MLX5_VERSION) if isinstance(version, str) else version,
    )


def _modules(group: Group) -> Fact[frozenset[str]]:
    states = {name: group.exists(f"/sys/module/{name}") for name in MODULES}
    unread = next((state for state in states.values() if isinstance(state, Missing)), None)
    return unread or frozenset(name for name, state in states.items() if state is True)


def _hcas(group: Group) -> tuple[Fact[tuple[Hca, ...]], str]:
    names = _below(group, CLASS)
    if names:
        return tuple(_hca(group, name) for name in names), "sysfs"
    if isinstance(glob := group.text(f"{CLASS}/*"), Missing):
        return glob, "sysfs"
    link = group.entries.get("rdma link")
    if isinstance(link, str):
        found = parse_rdma_link(link)
        if not isinstance(found, Missing) and found:
            return found, "rdma link"
    return (), "sysfs"


def _below(group: Group, directory: str) -> list[str]:
    """Names of the marked directories right below this one; numbers in them sort as numbers."""
    start = directory + "/"
    names = {path[len(start) :] for path in group.marked if path.startswith(start)}
    return sorted((name for name in names if _NAME.fullmatch(name)), key=natural)


def natural(name: str) -> list[tuple[str, int]]:
    """mlx5_2 before mlx5_10."""
    return [(text, int(digits or 0)) for text, digits in re.findall(r"([^0-9]*)([0-9]{0,18})", name)]


def _text(group: Group, path: str) -> str | None:
    """Content of a file for the parsers of words; None where it is not there or could not be read."""
    text = group.entries.get(path)
    return text if isinstance(text, str) and path not in group.marked else None


def _hca(group: Group, name: str) -> Hca:
    path = f"{CLASS}/{name}"
    uevent = dict(re.findall(r"^([A-Z_]+)=(.+)$", _text(group, f"{path}/device/uevent") or "", re.MULTILINE))
    ids = re.fullmatch(r"([0-9A-Fa-f]{4}):([0-9A-Fa-f]{4})", uevent.get("PCI_ID", ""))
    no_pci = Missing(f"{name} is not a PCI device")
    return Hca(
        name=name,
        ports=tuple(_port(group, name, f"{path}/ports/{number}") for number in _below(group, f"{path}/ports")),
        fw_version=as_text(_text(group, f"{path}/fw_ver"), "fw_ver"),
        product=as_text(_text(group, f"{path}/hca_type"), "hca_type"),
        board_id=as_text(_text(group, f"{path}/board_id"), "board_id"),
        node_guid=ib_words.guid(_text(group, f"{path}/node_guid")),
        pci_id=ids[0].lower() if ids else no_pci,
        pci_address=pci_address(uevent.get("PCI_SLOT_NAME", "")) or no_pci,
        driver=as_text(uevent.get("DRIVER"), "driver"),
        numa_node=ib_words.number(_text(group, f"{path}/device/numa_node"), "numa_node"),
    )


def _port(group: Group, hca: str, path: str) -> Port:
    def text(name: str) -> str | None:
        return _text(group, f"{path}/{name}")

    gids = _gids(group, path)
    number = path.rsplit("/", 1)[1]
    return Port(
        number=int(number) if re.fullmatch(r"[0-9]{1,3}", number) else 0,
        state=ib_words.state(text("state")),
        phys_state=ib_words.phys_state(text("phys_state")),
        rate_bits_per_s=ib_words.rate(text("rate")),
        link_layer=ib_words.link_layer(text("link_layer")),
        lid=ib_words.number(text("lid"), "lid"),
        sm_lid=ib_words.number(text("sm_lid"), "sm_lid"),
        active_mtu_bytes=Missing("sysfs does not show the active MTU"),
        pkeys=_pkeys(text("pkeys")),
        netdevs=_netdevs(group, hca, gids),
        gids=gids,
        errors=_errors(text("counters")),
    )


def _gids(group: Group, path: str) -> Fact[tuple[Gid, ...]]:
    looked = _text(group, f"{path}/gids")
    if not looked or not re.fullmatch("[1-9][0-9]{0,4}", looked):
        return Missing("the GID table could not be read")
    found = []
    for index in range(int(looked)):
        line = _text(group, f"{path}/gids/{index}")
        if line is None:
            continue
        match = _GID.fullmatch(line)
        gid = ib_words.gid(index, match[1], match[3], None if match[2] == "-" else match[2]) if match else None
        if gid is None:
            return Missing(f"GID {index}: {one_line(line)}")
        found.append(gid)
    return tuple(found)


def _netdevs(group: Group, hca: str, gids: Fact[tuple[Gid, ...]]) -> Fact[tuple[str, ...]]:
    """Interfaces of the port: those its GIDs belong to, else those of its PCI function, else a soft device's parent."""
    named = () if isinstance(gids, Missing) else tuple(gid.netdev for gid in gids if isinstance(gid.netdev, str))
    if named:
        return tuple(dict.fromkeys(named))
    parent = _text(group, f"{CLASS}/{hca}/parent")
    if parent:
        return (parent.strip(),)
    return tuple(_below(group, f"{CLASS}/{hca}/device/net"))


def _pkeys(raw: str | None) -> Fact[tuple[int, ...]]:
    words = (raw or "").split()
    if len(words) < 2 or words[0] == "0" or not all(re.fullmatch("0x[0-9a-f]{4}", word) for word in words[1:]):
        return Missing(f"pkeys: {one_line(raw or '') or 'not printed'}")
    return tuple(key for key in (int(word, 16) for word in words[1:]) if key)


def _errors(raw: str | None) -> Fact[dict[str, int]]:
    pairs = re.findall(r"(?<![a-z_])([a-z_]{1,40})=([0-9]{1,20})(?: |$)", raw or "")
    return {name: int(count) for name, count in pairs} or Missing("the port shows no error counters")
