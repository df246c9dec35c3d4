"""What was sold: each key of `offer:` makes one requirement apply, on whatever layer it sits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rackproof import site
from rackproof.errors import InputError
from rackproof.facts import NodeFacts, SmiFacts
from rackproof.facts_amd import AmdFacts, AmdGpu
from rackproof.facts_rdma import Hca, Port, RdmaFacts
from rackproof.facts_system import CpuFacts, NumaNode
from rackproof.verdict.catalogue import requirements
from rackproof.verdict.evaluate import applies, evaluate_node
from rackproof.verdict.model import Severity, Status, Verdict, verdict_of

from .cases import Cases, Red, outcome, verify
from .fixtures import GONE, baseline, driver, every_gpu, gpu, node, smi, strangers
from .fixtures_storage import DISKS, GIB, NICS, kernel, offers, system

GB300 = node()
B300 = node("b300", "b300-01")
NOTHING = strangers("gb300")
FOUR_NICS = [{"count": 4, "rate_gbit_per_s": 400, "link_layer": "InfiniBand"}]
CPU = CpuFacts("aarch64", "Neoverse-V2", 144, 2, 72, 1, ())


def cpu(**changes: Any) -> NodeFacts:
    return system(GB300, cpu=replace(CPU, **changes))


def numa(*nodes: tuple[str, Any]) -> NodeFacts:
    return kernel(GB300, numa=tuple(NumaNode(number, cpus, size) for number, (cpus, size) in enumerate(nodes)))


def nics(*hcas: Hca) -> NodeFacts:
    return replace(GB300, rdma=RdmaFacts(hcas, "sysfs", (), frozenset(), None, None))


def port(**changes: Any) -> NodeFacts:
    """The last of four network ports changed."""
    last = replace(NICS[3], ports=(replace(NICS[3].ports[0], **changes),))
    return nics(*NICS[:3], last)


def case(
    key: str, sold: Any, green: list[NodeFacts], red: list[tuple[NodeFacts, str]], garbage: list[NodeFacts]
) -> Cases:
    wanted = offers("gb300", **{key: sold})
    return Cases(
        green=[(facts, wanted) for facts in green],
        red=[Red(facts, says, wanted) for facts, says in red],
        garbage=garbage,
        not_applicable=NOTHING,
        garbage_baseline=wanted,
    )


NO_SMI = [replace(GB300, smi=GONE), smi(GB300, gpus=())]
NO_CPU = [system(GB300, cpu=GONE), replace(GB300, system=GONE)]
NO_DISKS = [system(GB300, disks=GONE), replace(GB300, system=GONE)]

TABLE = {
    "gpus.offered_count": case(
        "gpus",
        4,
        [GB300, driver(GB300, pci_gpus=("a", "b", "c", "d", "e"))],
        [
            (driver(GB300, pci_gpus=("00000008:06:00.0",)), "GPUs: 1"),
            (driver(GB300, pci_gpus=()), "as advertised: 4 GPUs"),
        ],
        [driver(GB300, pci_gpus=GONE)],
    ),
    "gpus.offered_product": case(
        "gpu_product",
        "GB300",
        [GB300],
        [
            (every_gpu(GB300, product="NVIDIA GB200"), "NVIDIA GB200"),
            (gpu(GB300, 2, product="NVIDIA B300 SXM6 AC"), "GPU 2: NVIDIA B300 SXM6 AC"),
        ],
        [*NO_SMI, every_gpu(GB300, product=GONE), gpu(GB300, 3, product=GONE), every_gpu(GB300, product="")],
    ),
    "gpus.offered_memory": case(
        "gpu_memory_gib",
        277.5,
        [GB300],
        [(gpu(GB300, 1, memory_bytes=185 * GIB), "GPU 1: 185.0 GiB"), (every_gpu(GB300, memory_bytes=0), "0.0 GiB")],
        [
            *NO_SMI,
            every_gpu(GB300, memory_bytes=GONE),
            gpu(GB300, 0, memory_bytes=GONE),
            every_gpu(GB300, memory_bytes=-1),
        ],
    ),
    "rdma.offered_nics": case(
        "nics",
        FOUR_NICS,
        [GB300, nics(*NICS, replace(NICS[0], name="mlx5_9", ports=(Port(1, "DOWN"),)))],
        [
            (port(state="DOWN"), "3 of 4 ports"),
            (port(rate_bits_per_s=200_000_000_000), "3 of 4 ports"),
            (port(link_layer="Ethernet", rate_bits_per_s=GONE), "3 of 4 ports"),
            (nics(*NICS[:3]), "3 of 3 ports"),
            (nics(), "4 InfiniBand ports of 400 Gbit/s: 0 of 0 ports"),
        ],
        [
            replace(GB300, rdma=GONE),
            replace(GB300, rdma=RdmaFacts(GONE, "sysfs", (), frozenset(), None, None)),
            port(rate_bits_per_s=GONE),
            port(link_layer=GONE),
            port(rate_bits_per_s=-1),
        ],
    ),
    "weights.offered_disks": case(
        "nvme_count",
        2,
        [GB300],
        [(system(GB300, disks=DISKS[1:]), "NVMe disks: 1"), (system(GB300, disks=()), "NVMe disks: 0")],
        NO_DISKS,
    ),
    "weights.offered_bytes": case(
        "nvme_bytes",
        7_680_000_000_000,
        [GB300],
        [(system(GB300, disks=DISKS[1:]), "3840755982336 bytes")],
        [*NO_DISKS, system(GB300, disks=(replace(DISKS[0], size_bytes=GONE), *DISKS[1:])), system(GB300, disks=())],
    ),
    "host.offered_ram": case(
        "ram_gib",
        960,
        [GB300, numa(("0-143", 932 * GIB))],
        [(numa(("0-71", 480 * GIB)), "480.0 GiB"), (numa(("0-71", 480 * GIB), ("", 500 * GIB)), "480.0 GiB")],
        [
            kernel(GB300, numa=GONE),
            system(GB300, kernel=GONE),
            numa(),
            numa(("", 960 * GIB)),
            numa(("0-71", GONE), ("72-143", 960 * GIB)),
            numa(("0-71", -1)),
        ],
    ),
    "host.offered_sockets": case("sockets", 2, [GB300], [(cpu(sockets=1), "sockets: 1")], [*NO_CPU, cpu(sockets=GONE)]),
    "host.offered_cores": case(
        "cores",
        144,
        [GB300],
        [(cpu(cores_per_socket=36), "cores: 72")],
        [*NO_CPU, cpu(sockets=GONE), cpu(cores_per_socket=GONE), cpu(sockets=0)],
    ),
    "host.offered_cpu": case(
        "cpu_model",
        "Neoverse-V2",
        [GB300],
        [(cpu(model="Neoverse-N1"), "Neoverse-N1")],
        [*NO_CPU, cpu(model=GONE), cpu(model="")],
    ),
    "host.offered_machine": case(
        "bare_metal",
        True,
        [GB300],
        [(replace(GB300, virtual_machine="kvm"), "a virtual machine (kvm)")],
        [replace(GB300, virtual_machine=GONE), replace(GB300, virtual_machine="")],
    ),
}


@pytest.mark.parametrize("requirement", TABLE)
def test_requirement(requirement: str) -> None:
    verify(TABLE, requirement)


def test_each_is_a_gate_of_its_own_class_and_says_what_was_advertised() -> None:
    advertised = [found for found in requirements().values() if found.advertised]
    assert {found.id for found in advertised} == set(TABLE)
    assert all(found.severity is Severity.GATE and int(found.code[4:]) >= 60 for found in advertised)
    for name, cases in TABLE.items():
        found = outcome(name, cases.red[0].facts, cases.red[0].baseline)
        assert found.expected.startswith("as advertised: "), found


def test_nothing_was_sold_where_nobody_says_so() -> None:
    for wanted in (NOTHING, baseline("gb300"), strangers("b300")):
        assert not [name for name in TABLE if applies(requirements()[name], wanted)]


def test_a_virtual_machine_that_was_sold_as_one_is_as_advertised() -> None:
    sold = offers("gb300", bare_metal=False)
    for kind in ("none", "kvm"):
        assert outcome("host.offered_machine", replace(GB300, virtual_machine=kind), sold).status is Status.PASS
    assert outcome("host.offered_machine", replace(GB300, virtual_machine=GONE), sold).status is Status.UNKNOWN


def test_a_whole_offer_is_accepted_or_refused() -> None:
    sold = offers(
        "b300",
        gpus=8,
        gpu_product="B300",
        gpu_memory_gib=268,
        nics=FOUR_NICS,
        nvme_count=2,
        ram_gib=950,
        bare_metal=True,
    )
    assert verdict_of(evaluate_node(B300, sold)) is Verdict.ACCEPT
    assert verdict_of(evaluate_node(replace(B300, virtual_machine="amazon"), sold)) is Verdict.REJECT
    assert verdict_of(evaluate_node(replace(B300, rdma=GONE), sold)) is Verdict.UNDETERMINED


def test_gpus_of_amd_are_counted_by_their_own_tools() -> None:
    sold = replace(offers("b300", gpus=8, gpu_product="MI355X", gpu_memory_gib=288), vendor="amd")
    gpus = tuple(AmdGpu(index, product="AMD Instinct MI355X", memory_bytes=288 * GIB) for index in range(8))
    facts = replace(B300, amd=AmdFacts(GONE, gpus, GONE), smi=GONE)
    names = ("gpus.offered_count", "gpus.offered_product", "gpus.offered_memory")
    assert {outcome(name, facts, sold).status for name in names} == {Status.PASS}
    lost = replace(B300, amd=AmdFacts(GONE, gpus[:7], GONE))
    assert outcome("gpus.offered_count", lost, sold).status is Status.FAIL
    assert outcome("gpus.offered_count", B300, sold).status is Status.UNKNOWN


def test_two_kinds_of_ports_are_asked_for_separately() -> None:
    sold = offers(
        "gb300",
        nics=[{"count": 4, "rate_gbit_per_s": 400}, {"count": 2, "rate_gbit_per_s": 200, "link_layer": "Ethernet"}],
    )
    found = outcome("rdma.offered_nics", GB300, sold)
    assert found.status is Status.FAIL and "2 Ethernet ports of 200 Gbit/s: 0 of 4 ports" in found.observed


@pytest.mark.parametrize(
    "offer",
    [
        {"gpus": 0}, {"gpus": "8"}, {"gpu_memory_gib": -1}, {"nics": []}, {"nics": [{"count": 8}]},
        {"nics": [{"count": 8, "rate_gbit_per_s": 400, "link_layer": "IB"}]}, {"bare_metal": "yes"}, {"gpu": 8},
        {"gpu_product": "GB300\n"}, {"ram_gib": 0},
    ],
)  # fmt: skip
def test_a_wrong_offer_is_refused(offer: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="offer"):
        site.shipped().overlaid({"offer": offer}, "offer.yaml")


def test_products_are_compared_by_whole_words() -> None:
    assert isinstance(GB300.smi, SmiFacts)
    for sold, status in (
        ("gb300", Status.PASS),
        ("NVIDIA GB300", Status.PASS),
        ("B300", Status.FAIL),
        ("GB30", Status.FAIL),
    ):
        assert outcome("gpus.offered_product", GB300, offers("gb300", gpu_product=sold)).status is status, sold
