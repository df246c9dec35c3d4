"""Checks of layer rdma: devices, ports, addresses, and the path to GPU memory."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import NodeFacts, known
from rackproof.layers.readings import Reading, all_of, either, of, same, seen
from rackproof.layers.words import asked, some, yes_no
from rackproof.layers.words_rdma import (
    ETHERNET,
    INFINIBAND,
    absent_names,
    full_member,
    gid_words,
    gigabits,
    has_device_files,
    keys_of,
    keys_words,
    on_each_hca,
    on_each_port,
    only_on,
    routable_gids,
    state_words,
)
from rackproof.layers.words_system import below, interface_of, readings, routable, system
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement


@check("rdma.devices")
def devices(facts: NodeFacts, baseline: Baseline) -> Judgement:
    listed = below(facts.rdma, "hcas")
    words = seen(listed, bool, lambda found: ", ".join(hca.name for hca in found) or "no device")
    return all_of("RDMA devices", {"/sys/class/infiniband": words})


@check("rdma.named_devices")
def named_devices(facts: NodeFacts, baseline: Baseline) -> Judgement:
    absent = absent_names(facts, baseline)
    words = seen(absent, lambda found: not found, lambda found: f"not there: {', '.join(found)}" if found else "all there")
    return all_of(", ".join(asked(baseline.rdma.hcas)), {"devices the site names": words})


@check("rdma.device_files")
def device_files(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = len(known(some(below(facts.rdma, "hcas"), "RDMA device was listed")))
    files = below(facts.rdma, "devices")
    words = seen(files, lambda found: has_device_files(found, wanted), lambda found: ", ".join(found) or "nothing")
    return all_of(f"rdma_cm and {wanted} uverbs devices", {"/dev/infiniband": words})


@check("rdma.ports_active")
def ports_active(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return all_of("ACTIVE LinkUp", on_each_port(facts, baseline, state_words))


@check("rdma.link_layer")
def link_layer(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return same("one link layer", on_each_port(facts, baseline, lambda port: port.link_layer))


@check("rdma.rates_alike")
def rates_alike(facts: NodeFacts, baseline: Baseline) -> Judgement:
    rates = on_each_port(facts, baseline, lambda port: port.rate_bits_per_s)
    return same("one rate", rates, lambda rate: rate > 0, gigabits)


@check("rdma.reliable_connections")
def reliable_connections(facts: NodeFacts, baseline: Baseline) -> Judgement:
    without = baseline.rdma.drivers_without_rc
    drivers = on_each_hca(facts, baseline, lambda hca: hca.driver)
    return all_of(f"a driver that is none of: {', '.join(without)}", readings(drivers, lambda found: found not in without))


@check("rdma.gids")
def gids(facts: NodeFacts, baseline: Baseline) -> Judgement:
    found = on_each_port(
        facts, baseline, lambda port: only_on(ETHERNET, port, lambda: seen(routable_gids(port), bool, gid_words))
    )
    return all_of("on RoCE, a RoCE v2 GID with an IPv4 or a global IPv6 address", found)


@check("rdma.gid_index")
def gid_index(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = asked(baseline.rdma.gid_index)
    found = on_each_port(
        facts, baseline,
        lambda port: seen(routable_gids(port), lambda all_: any(gid.index == wanted for gid in all_), gid_words),
    )  # fmt: skip
    return all_of(f"a routable RoCE v2 GID at index {wanted}", found)


@check("rdma.subnet_manager")
def subnet_manager(facts: NodeFacts, baseline: Baseline) -> Judgement:
    found = on_each_port(
        facts, baseline,
        lambda port: only_on(INFINIBAND, port, lambda: seen(port.sm_lid, lambda lid: lid > 0, "subnet manager at {}".format)),
    )  # fmt: skip
    return all_of("on InfiniBand, a subnet manager (sm_lid is not 0)", found)


@check("rdma.partition_keys")
def partition_keys(facts: NodeFacts, baseline: Baseline) -> Judgement:
    keys = on_each_port(facts, baseline, keys_of)
    return same("on InfiniBand, one set of P_Keys with a full membership on every port", keys, full_member, keys_words)


@check("rdma.gpudirect")
def gpudirect(facts: NodeFacts, baseline: Baseline) -> Judgement:
    module = baseline.rdma.gdr_module
    peermem = seen(
        facts.driver.loaded_modules, lambda found: module in found,
        lambda found: f"{module}, with NCCL_DMABUF_ENABLE=0 where dma-buf fails" if module in found else f"no {module}",
    )  # fmt: skip
    symbol = system(facts, "gpudirect", "dmabuf_symbol")
    dmabuf = seen(symbol, bool, lambda found: f"dma-buf in the RDMA core: {yes_no(found)}")
    opened = seen(facts.driver.flavour, lambda found: found == "open", "{} kernel module of the GPU".format)
    both = of(dmabuf, lambda first: of(opened, lambda second: first if first.ok and second.ok else _failed(first, second)))
    return all_of(f"{module} loaded, or dma-buf and the open kernel module", {"path to GPU memory": either(peermem, both)})


def _failed(*found: Reading) -> Reading:
    return Reading(False, ", ".join(one.text for one in found))


@check("rdma.gpudirect_amd")
def gpudirect_amd(facts: NodeFacts, baseline: Baseline) -> Judgement:
    dmabuf, peers = (system(facts, "gpudirect", name) for name in ("dmabuf_symbol", "peer_memory_symbol"))
    first = seen(dmabuf, bool, lambda found: f"dma-buf in the RDMA core: {yes_no(found)}")
    second = seen(peers, bool, lambda found: f"peer memory in the RDMA core: {yes_no(found)}")
    return all_of("dma-buf or peer memory in the RDMA core", {"path to GPU memory": either(first, second)})


@check("rdma.peermem")
def peermem(facts: NodeFacts, baseline: Baseline) -> Judgement:
    module = baseline.rdma.gdr_module
    loaded = seen(facts.driver.loaded_modules, lambda found: module in found, lambda found: yes_no(module in found))
    return all_of(f"{module} loaded, since the site says that dma-buf does not work", {"loaded": loaded})


@check("rdma.peermem_registered")
def peermem_registered(facts: NodeFacts, baseline: Baseline) -> Judgement:
    module = baseline.rdma.gdr_module
    away = seen(
        facts.driver.loaded_modules, lambda found: module not in found, lambda found: f"loaded: {yes_no(module in found)}"
    )
    client = seen(
        system(facts, "gpudirect", "peer_memory_client"), bool, lambda found: f"registered with the RDMA core: {yes_no(found)}"
    )
    return all_of("registered with the RDMA core, where it is loaded", {module: either(away, client)})


@check("rdma.socket_interface")
def socket_interface(facts: NodeFacts, baseline: Baseline) -> Judgement:
    interface = interface_of(facts, baseline)
    addresses = seen(of(interface, routable), bool, lambda found: ", ".join(found) or "no address beyond the link")
    name = known(below(interface, "name"))
    carrier = seen(below(interface, "carrier"), bool, lambda found: f"carrier {yes_no(found)}")
    return all_of("a link, and an address that other nodes reach", {f"{name}": carrier, f"addresses of {name}": addresses})
