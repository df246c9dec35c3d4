"""From evidence to facts: every fact of a node, each by the one function that knows where it stands.

Nothing here raises. A section that is missing, late or refused makes its facts missing with that reason, and so does a
parser that fails in a way nobody thought of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Section
from rackproof.evidence.tools import (
    amd,
    amd_smi,
    cdi,
    container,
    control,
    cpu,
    engines,
    fabric_manager,
    gpu_holders,
    host,
    image_chain,
    imex,
    kernel_events,
    kernel_log,
    kernels,
    lspci,
    modprobe,
    network,
    node_state,
    nvidia_driver,
    nvidia_nvlink,
    nvidia_smi,
    nvidia_topo,
    nvme,
    package_policy,
    packages,
    pci,
    podman,
    rdma,
    rocm_smi,
    running,
    serving,
    storage,
    system,
    systemd,
    time_sync,
    weights,
)
from rackproof.facts import DriverFacts, Fact, HostFacts, Missing, NodeFacts, RuntimeFacts, T
from rackproof.facts_amd import AmdFacts, join, join_by_address
from rackproof.facts_nvlink import NvlinkFacts
from rackproof.facts_pci import PciFacts
from rackproof.facts_podman import PodmanFacts
from rackproof.facts_system import SystemFacts


def read_facts(evidence: Evidence) -> NodeFacts:
    """Everything the evidence says about its node."""
    return NodeFacts(
        node=evidence.node,
        host=_host(evidence),
        driver=_driver(evidence),
        smi=_read(nvidia_smi.smi, evidence),
        nvlink=NvlinkFacts(
            ports=_read(nvidia_nvlink.ports, evidence),
            gpu_paths=_read(nvidia_topo.gpu_paths, evidence),
            imex_nodes=_read(imex.nodes, evidence),
            imex_domain=_read(imex.domain, evidence),
            imex_channels=_read(imex.channels, evidence),
            imex_config=_read(imex.config, evidence),
            p2p=_read(nvidia_topo.p2p, evidence),
            errors=_read(nvidia_nvlink.errors, evidence),
            imex_channel_modes=_read(imex.channel_modes, evidence),
            imex_major=_read(imex.major, evidence),
        ),
        kernel_log=_read(kernel_log.kernel_log, evidence),
        runtime=_runtime(evidence),
        system=_system(evidence),
        rdma=_read(rdma.rdma, evidence),
        network=_read(network.network, evidence),
        pci=_pci(evidence),
        amd=_amd(evidence),
        weights=weights.sized(_read(weights.weights, evidence), _read(weights.headers, evidence)),
        control=_read(control.control, evidence),
        podman=_podman(evidence),
        serving=_read(serving.serving, evidence),
        virtual_machine=_read(serving.virtual_machine, evidence),
        evidence=_whole(evidence),
    )


class Kept:
    """What parsers made of one evidence, and which sections each asked for.

    Evidence that differs in one section is then read again at the price of the parsers that asked for that section.
    """

    def __init__(self) -> None:
        self._known: dict[Callable[[Evidence], Any], tuple[Mapping[str, Section | None], Any]] = {}

    def read(self, parse: Callable[[Evidence], Fact[T]], evidence: Evidence) -> Fact[T]:
        """The fact, by the parser only where one of its sections is another than last time."""
        asked, fact = self._known.get(parse, ({}, None))
        if fact is not None and all(evidence.sections.get(name) is section for name, section in asked.items()):
            return fact  # type: ignore[no-any-return]
        recorded: dict[str, Section | None] = {}
        fact = _parsed(parse, replace(evidence, sections=_Recorded(evidence.sections, recorded)))
        self._known.setdefault(parse, (recorded, fact))
        return fact


class _Recorded(dict[str, Section]):
    """Sections that note which of them somebody looked for."""

    def __init__(self, sections: Mapping[str, Section], asked: dict[str, Section | None]) -> None:
        super().__init__(sections)
        self._asked = asked

    def __contains__(self, name: object) -> bool:
        self._asked[str(name)] = self.get(str(name))
        return super().__contains__(name)


_kept: ContextVar[Kept | None] = ContextVar("kept", default=None)


def read_again(evidence: Evidence, kept: Kept) -> NodeFacts:
    """`read_facts`, sharing the work with earlier calls that were given the same `kept`."""
    token = _kept.set(kept)
    try:
        return read_facts(evidence)
    finally:
        _kept.reset(token)


def _read(parse: Callable[[Evidence], Fact[T]], evidence: Evidence) -> Fact[T]:
    kept = _kept.get()
    return _parsed(parse, evidence) if kept is None else kept.read(parse, evidence)


def _parsed(parse: Callable[[Evidence], Fact[T]], evidence: Evidence) -> Fact[T]:
    """A fact, even where its parser has a defect that some hostile or strange output found."""
    try:
        return parse(evidence)
    except Exception as error:
        return Missing(f"rackproof could not understand the output ({type(error).__name__} in {parse.__module__})")


def _whole(evidence: Evidence) -> Fact[str]:
    if evidence.problem:
        return Missing(evidence.problem)
    return evidence.sha256 or Missing("the evidence carries no sha256")


def _host(evidence: Evidence) -> HostFacts:
    return HostFacts(
        hostname=_read(host.hostname, evidence),
        boot_id=_read(host.boot_id, evidence),
        kernel=_read(host.kernel, evidence),
        architecture=_read(host.architecture, evidence),
        os_id=_read(host.os_id, evidence),
        os_version=_read(host.os_version, evidence),
        product_name=_read(host.product_name, evidence),
        cmdline=_read(host.cmdline, evidence),
        page_size_bytes=_read(host.page_size_bytes, evidence),
        is_root=_read(host.is_root, evidence),
        simulated=_read(host.simulated, evidence),
        selfbuild=_read(host.selfbuild, evidence),
        reboot_required=_read(host.reboot_required, evidence),
        units=_read(systemd.units, evidence),
        packages=_read(packages.packages, evidence),
        broken_packages=_read(packages.broken_packages, evidence),
        apt_sources=_read(packages.apt_sources, evidence),
        apt_preferences=_read(packages.apt_preferences, evidence),
        files=_read(host.files, evidence),
        stamp=_read(host.stamp, evidence),
        addresses=_read(host.addresses, evidence),
        uptime_s=_read(host.uptime_s, evidence),
        dmi=_read(host.dmi, evidence),
    )


def _driver(evidence: Evidence) -> DriverFacts:
    return DriverFacts(
        loaded_version=_read(nvidia_driver.loaded_version, evidence),
        flavour=_read(nvidia_driver.flavour, evidence),
        disk_version=_read(nvidia_driver.disk_version, evidence),
        library_version=_read(nvidia_driver.library_version, evidence),
        loaded_modules=_read(nvidia_driver.loaded_modules, evidence),
        parameters=_read(nvidia_driver.parameters, evidence),
        nouveau_blacklisted=_read(modprobe.nouveau_blacklisted, evidence),
        proc_gpus=_read(nvidia_driver.proc_gpus, evidence),
        pci_gpus=_read(nvidia_driver.pci_gpus, evidence),
        pci_ids=_read(nvidia_driver.pci_ids, evidence),
        holders=_read(gpu_holders.holders, evidence),
        device_nodes=_read(nvidia_driver.device_nodes, evidence),
        libraries=_read(nvidia_driver.libraries, evidence),
    )


def _system(evidence: Evidence) -> SystemFacts:
    return SystemFacts(
        kernel=_read(system.kernel_state, evidence),
        gpudirect=_read(system.gpudirect, evidence),
        cpu=_read(cpu.cpu, evidence),
        filesystems=_read(storage.filesystems, evidence),
        disks=_read(storage.disks, evidence),
        clock=_read(time_sync.clock, evidence),
        kernels=_read(kernels.kernels, evidence),
        kernel_events=_read(kernel_events.events, evidence),
        apt=_read(package_policy.apt, evidence),
        candidates=_read(package_policy.candidates, evidence),
        held=_read(packages.held, evidence),
        versionlocks=_read(package_policy.versionlocks, evidence),
        engines=_read(engines.engines, evidence),
        fabric_manager=_read(fabric_manager.fabric_manager, evidence),
        state=_read(node_state.state, evidence),
        own_addresses=_read(node_state.own_addresses, evidence),
        nvme_health=_read(nvme.health, evidence),
    )


def _runtime(evidence: Evidence) -> RuntimeFacts:
    return RuntimeFacts(
        engine=_read(container.engine, evidence),
        engine_version=_read(container.engine_version, evidence),
        cgroup_version=_read(container.cgroup_version, evidence),
        runtimes=_read(container.runtimes, evidence),
        cdi_devices=_read(container.cdi_devices, evidence),
        daemon_config=_read(container.daemon_config, evidence),
        toolkit_version=_read(container.toolkit_version, evidence),
        cdi_specs=_read(cdi.cdi_specs, evidence),
        images=_read(container.images, evidence),
        cgroup_driver=_read(container.cgroup_driver, evidence),
        default_runtime=_read(container.default_runtime, evidence),
        data_root=_read(container.data_root, evidence),
        storage_driver=_read(container.storage_driver, evidence),
        security_options=_read(container.security_options, evidence),
        image_chains=_read(image_chain.chains, evidence),
        running=_read(running.running, evidence),
        log_driver=_read(container.log_driver, evidence),
        amd_cdi_specs=_read(cdi.amd_cdi_specs, evidence),
    )


def _podman(evidence: Evidence) -> PodmanFacts:
    return PodmanFacts(
        version=_read(podman.version, evidence),
        cgroup_version=_read(podman.cgroup_version, evidence),
        cgroup_driver=_read(podman.cgroup_driver, evidence),
        oci_runtime=_read(podman.oci_runtime, evidence),
        data_root=_read(podman.data_root, evidence),
        storage_driver=_read(podman.storage_driver, evidence),
        log_driver=_read(podman.log_driver, evidence),
        security_options=_read(podman.security_options, evidence),
        images=_read(podman.images, evidence),
        running=_read(podman.running, evidence),
        cdi_folders=_read(podman.cdi_folders, evidence),
        hooks=_read(podman.hooks, evidence),
    )


def _pci(evidence: Evidence) -> PciFacts:
    return PciFacts(
        devices=_read(pci.devices, evidence),
        acs=_read(lspci.bridge_acs, evidence),
        max_read_request_bytes=_read(lspci.max_read_requests, evidence),
    )


def _amd(evidence: Evidence) -> AmdFacts:
    """Every source of AMD GPUs joined: amd-smi's subcommands by index, the rest by PCI address."""
    driver = _read(amd.driver, evidence)
    by_amd_smi = join(
        _read(amd_smi.static, evidence),
        _read(amd_smi.metric, evidence),
        _read(amd_smi.process, evidence),
        _read(amd_smi.bad_pages, evidence),
        _read(amd_smi.firmware, evidence),
    )
    by_driver = driver if isinstance(driver, Missing) else driver.gpus
    return AmdFacts(
        driver=driver,
        gpus=join_by_address(by_amd_smi, _read(rocm_smi.cards, evidence), by_driver),
        ras=_read(amd.ras, evidence),
        blacklisted=_read(modprobe.amdgpu_blacklisted, evidence),
    )
