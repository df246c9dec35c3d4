"""What checks of an advertised offer share: what a node has of what sellers count."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.baseline_offer import Nics
from rackproof.facts import Fact, Missing, NodeFacts
from rackproof.facts_amd import AmdGpu
from rackproof.facts_rdma import Hca, Port
from rackproof.facts_system import CpuFacts, NumaNode
from rackproof.layers.readings import Reading, of, seen

GIB = 1024**3
GBIT = 1_000_000_000


def as_advertised(what: object) -> str:
    return f"as advertised: {what}"


# --- GPUs of either vendor ---


def amd_gpus(facts: NodeFacts) -> Fact[tuple[AmdGpu, ...]]:
    return of(facts.amd, lambda amd: amd.gpus)


def gpu_count(facts: NodeFacts, baseline: Baseline) -> Fact[int]:
    """GPUs on the PCI bus: one that fell off it is not there."""
    return of(amd_gpus(facts), len) if baseline.vendor == "amd" else of(facts.driver.pci_gpus, len)


def gpu_products(facts: NodeFacts, baseline: Baseline) -> dict[str, Fact[str]]:
    """Product of each GPU, by its name."""
    return {name: product for name, (product, _) in _gpus(facts, baseline).items()}


def gpu_memory(facts: NodeFacts, baseline: Baseline) -> dict[str, Fact[int]]:
    """Bytes of each GPU as its driver counts them."""
    return {name: size for name, (_, size) in _gpus(facts, baseline).items()}


def _gpus(facts: NodeFacts, baseline: Baseline) -> dict[str, tuple[Fact[str], Fact[int]]]:
    listed = amd_gpus(facts) if baseline.vendor == "amd" else of(facts.smi, lambda smi: smi.gpus)
    if isinstance(listed, Missing) or not listed:
        reason = listed if isinstance(listed, Missing) else Missing("no GPU was listed")
        return {"GPUs": (reason, reason)}
    return {f"GPU {gpu.index}": (gpu.product, gpu.memory_bytes) for gpu in listed}


def is_product(found: str, sold: str) -> bool:
    """Whether a driver's name of a product has all the words that a seller uses: "B300" is in "NVIDIA B300 SXM6 AC"."""
    words = found.upper().split()
    return all(word in words for word in sold.upper().split())


# --- memory, CPUs ---


def ram(facts: NodeFacts) -> Fact[int]:
    """Bytes of main memory: of NUMA nodes with CPUs, since on Grace a GPU's own memory can be a node without any."""
    kernel = of(facts.system, lambda system: system.kernel)
    return of(kernel, lambda found: of(found.numa, _with_cpus))


def _with_cpus(nodes: tuple[NumaNode, ...]) -> Fact[int]:
    sizes = [node.memory_bytes for node in nodes if node.cpus]
    unread = next((size for size in sizes if isinstance(size, Missing)), None)
    if unread is not None:
        return unread
    return sum(size for size in sizes if isinstance(size, int)) or Missing("no NUMA node with CPUs was listed")


def cpu(facts: NodeFacts) -> Fact[CpuFacts]:
    return of(facts.system, lambda system: system.cpu)


def cores(facts: NodeFacts) -> Fact[int]:
    """Physical cores of the whole node."""
    found = cpu(facts)
    return of(found, lambda one: of(one.sockets, lambda n: of(one.cores_per_socket, lambda each: n * each)))


def enough(found: Fact[int], sold: int) -> Fact[Reading]:
    return seen(found, lambda count: count >= sold)


# --- network ports ---


def ports(facts: NodeFacts) -> Fact[tuple[tuple[Hca, Port], ...]]:
    """Every port of every RDMA device."""
    hcas = of(facts.rdma, lambda rdma: rdma.hcas)
    return of(hcas, lambda found: tuple((hca, port) for hca in found for port in hca.ports))


def nics_reading(facts: NodeFacts, sold: Nics) -> Fact[Reading]:
    """Whether there are as many ports of this rate and kind. A port whose rate nobody read could be one of them."""

    def count(found: tuple[tuple[Hca, Port], ...]) -> Fact[Reading]:
        answers = [_is_sold(port, sold) for _, port in found]
        good, unread = answers.count(True), [one for one in answers if isinstance(one, Missing)]
        if good < sold.count <= good + len(unread):
            return unread[0]
        return Reading(good >= sold.count, f"{good} of {len(found)} ports")

    return of(ports(facts), count)


def _is_sold(port: Port, sold: Nics) -> Fact[bool]:
    """A port that is down tells the rate of no link, so that it does not count."""
    if isinstance(port.state, str) and port.state != "ACTIVE":
        return False
    layer: Fact[bool] = of(port.link_layer, lambda found: found == sold.link_layer) if sold.link_layer else True
    rate = of(port.rate_bits_per_s, lambda found: found >= sold.rate_bits_per_s)
    return False if False in (layer, rate) else next((one for one in (layer, rate) if isinstance(one, Missing)), True)


def nics_words(sold: Nics) -> str:
    return f"{sold.count} {sold.link_layer or 'RDMA'} ports of {sold.rate_bits_per_s / GBIT:g} Gbit/s"
