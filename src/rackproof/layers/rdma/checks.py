"""Checks of layer rdma."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import NodeFacts, known
from rackproof.layers.readings import Reading, all_of, either, of, same, seen
from rackproof.layers.words import asked, gib, some, yes_no
from rackproof.layers.words_rdma import (
    ETHERNET,
    INFINIBAND,
    absent_names,
    acs_of,
    at_address,
    excess,
    fabric,
    firmware_words,
    full_member,
    gid_words,
    gigabits,
    gpu_functions,
    has_device_files,
    interfaces_of,
    keys_of,
    keys_words,
    link_words,
    matches,
    model,
    mtu_of,
    numa_of_hcas,
    on_each_hca,
    on_each_port,
    only_on,
    pci_of,
    ports,
    ports_words,
    published_words,
    readings,
    routable_gids,
    shared_bridges,
    state_words,
)
from rackproof.layers.words_system import below, engine_limits, interface_of, limit_words, reaches, routable, sysctl, system
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement, judge


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
    symbol = system(facts, "gpudirect", "dmabuf_symbol")
    words = seen(symbol, bool, lambda found: f"dma-buf in the RDMA core: {yes_no(found)}")
    return all_of("dma-buf in the RDMA core", {"path to GPU memory": words})


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


@check("rdma.published_ports")
def published_ports(facts: NodeFacts, baseline: Baseline) -> Judgement:
    found, published = ports(facts, baseline), baseline.rdma.published
    return judge(matches(published, found), ports_words(found), published_words(published))


@check("rdma.errors")
def errors(facts: NodeFacts, baseline: Baseline) -> Judgement:
    limits = baseline.rdma.error_limits
    counted = on_each_port(facts, baseline, lambda port: of(port.errors, lambda found: (excess(found, limits),)))
    expected = ", ".join(f"{name} <= {most}" for name, most in limits)
    return all_of(expected, readings(counted, lambda found: not found[0], lambda found: found[0] or "none beyond the limits"))


@check("rdma.flaps")
def flaps(facts: NodeFacts, baseline: Baseline) -> Judgement:
    changes = {
        f"{one.name}": seen(one.carrier_changes, lambda count: count >= 0, "{} changes of carrier since boot".format)
        for _, port in ports(facts, baseline) for one in known(interfaces_of(facts, port))
    }  # fmt: skip
    return all_of("recorded", changes)


@check("rdma.mtu")
def mtu(facts: NodeFacts, baseline: Baseline) -> Judgement:
    least = baseline.rdma.roce_mtu_bytes_min
    sizes = on_each_port(
        facts, baseline,
        lambda port: only_on(ETHERNET, port, lambda: seen(mtu_of(facts, port), lambda size: size >= least, "{} bytes".format)),
    )  # fmt: skip
    return all_of(f"on RoCE, at least {least} bytes", sizes)


@check("rdma.firmware_uniform")
def firmware_uniform(facts: NodeFacts, baseline: Baseline) -> Judgement:
    kinds = {model(hca) for hca in fabric(facts, baseline)}
    versions = on_each_hca(facts, baseline, lambda hca: of(hca.fw_version, lambda found: f"{model(hca)} with {found}"))
    found = {known(version) for version in versions.values()}
    return judge(len(found) == len(kinds), ", ".join(sorted(found)), "one firmware for each model")


@check("rdma.firmware_floor")
def firmware_floor(facts: NodeFacts, baseline: Baseline) -> Judgement:
    floor = baseline.rdma.firmware_floor
    versions = on_each_hca(facts, baseline, lambda hca: hca.fw_version)
    found = {name: of(version, lambda text: firmware_words(text, floor)) for name, version in versions.items()}
    return all_of(", ".join(f"x.{train}.{build}" for train, build in floor), found)


@check("rdma.engine_memlock")
def engine_memlock(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return all_of("unlimited", engine_limits(facts, "memlock", None))


@check("rdma.shell_memlock")
def shell_memlock(facts: NodeFacts, baseline: Baseline) -> Judgement:
    least = baseline.rdma.shell_memlock_bytes_min
    limit = system(facts, "kernel", "memlock")
    return all_of(
        f"unlimited, or >= {gib(least)}", {"memlock": seen(limit, lambda found: reaches(found, least), limit_words)}
    )


@check("rdma.affinity")
def affinity(facts: NodeFacts, baseline: Baseline) -> Judgement:
    nodes = numa_of_hcas(facts, baseline)
    gpus = {f"GPU {gpu.address}": gpu.numa_node for gpu in gpu_functions(facts)}
    return all_of(
        f"a NIC of the fabric on the GPU's NUMA node (they are on {', '.join(map(str, sorted(nodes)))})",
        readings(gpus, lambda node: node in nodes, "NUMA node {}".format),
    )


@check("rdma.pcie_link")
def pcie_link(facts: NodeFacts, baseline: Baseline) -> Judgement:
    links = on_each_hca(facts, baseline, lambda hca: pci_of(facts, hca))
    return all_of("the speed and width the NIC can do", {name: of(link, link_words) for name, link in links.items()})


@check("rdma.pcie_errors")
def pcie_errors(facts: NodeFacts, baseline: Baseline) -> Judgement:
    counts = on_each_hca(facts, baseline, lambda hca: below(pci_of(facts, hca), "aer_fatal"))
    return all_of("no fatal error since boot", readings(counts, lambda count: count == 0))


@check("rdma.max_read_request")
def max_read_request(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted, sizes = asked(baseline.rdma.max_read_request_bytes), below(facts.pci, "max_read_request_bytes")
    found = on_each_hca(facts, baseline, lambda hca: at_address(sizes, hca))
    return all_of(f"{wanted} bytes", readings(found, lambda size: size == wanted))


@check("rdma.acs")
def acs(facts: NodeFacts, baseline: Baseline) -> Judgement:
    redirects = asked(baseline.rdma.acs_redirects)
    on = {bridge: acs_of(facts, bridge, redirects) for bridge in shared_bridges(facts, baseline)}
    return all_of(
        f"none of {', '.join(redirects)} on bridges above a GPU and its NIC",
        readings(on, lambda found: found == (), lambda found: ", ".join(found) or "off"),
    )


@check("rdma.arp")
def arp(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.rdma.arp
    found = {name: seen(sysctl(facts, name), lambda value, good=good: value in good) for name, good in wanted}
    return all_of(", ".join(f"{name} = {' or '.join(good)}" for name, good in wanted), found)


@check("rdma.software")
def software(facts: NodeFacts, baseline: Baseline) -> Judgement:
    versions = {"OFED": below(facts.rdma, "ofed_version"), "mlx5_core": below(facts.rdma, "mlx5_version")}
    shown = {name: of(version, lambda found: (found,)) for name, version in versions.items()}
    return all_of("recorded", readings(shown, lambda found: found != ("",), lambda found: found[0] or "the kernel's own"))


@check("rdma.gdrdrv")
def gdrdrv(facts: NodeFacts, baseline: Baseline) -> Judgement:
    there = system(facts, "gpudirect", "gdrdrv_device")
    return all_of("recorded", {"/dev/gdrdrv": seen(there, lambda found: found in (True, False), yes_no)})
