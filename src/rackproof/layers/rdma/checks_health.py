"""Checks of layer rdma: what slows it down or announces a fault, and what is recorded."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import NodeFacts, known
from rackproof.layers.readings import all_of, of, seen
from rackproof.layers.words import asked, gib, yes_no
from rackproof.layers.words_rdma import (
    ETHERNET,
    acs_of,
    at_address,
    carrier_changes,
    excess,
    fabric,
    firmware_words,
    gpu_functions,
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
    shared_bridges,
)
from rackproof.layers.words_system import below, limit_words, reaches, readings, sysctl_is, system
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement, judge


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
    changes = on_each_port(
        facts, baseline,
        lambda port: only_on(
            ETHERNET, port,
            lambda: seen(carrier_changes(facts, port), lambda count: count >= 0, "{} changes of carrier since boot".format),
        ),
    )  # fmt: skip
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
    found = {name: sysctl_is(facts, name, good) for name, good in wanted}
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
