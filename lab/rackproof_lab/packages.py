"""The stand-in packages of the lab's repository: NVIDIA's names, versions and relations, our own few lines inside.

Names follow NVIDIA's CUDA repository: suffixed by branch up to 580 (fabricmanager, imex, nscq only up to 575),
un-suffixed from 590 on. `nvidia-imex` and `nvidia-fabricmanager` also exist at 610, so that an install without a pin
takes a version that does not match the driver, as it does in life.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rackproof_lab import scripts
from rackproof_lab.scripts import LIBDIR, unit, wrapper

DRIVERS = ("575.57.08-1", "580.95.05-1", "580.126.20-1", "580.178.04-1", "610.43.02-1ubuntu1")
TOOLKITS = ("1.17.8-1", "1.18.2-1", "1.19.1-1")
PINNED = (
    "nvidia-open* nvidia-driver-open nvidia-driver-5* nvidia-driver-6* nvidia-driver nvidia-dkms* libnvidia-compute* "
    "nvidia-utils* nvidia-kernel-common* nvidia-firmware* nvidia-modprobe nvidia-persistenced nvidia-imex* "
    "nvidia-fabricmanager* libnvidia-nscq* libnvsdm* nvlink5* cuda-drivers*"
)


@dataclass
class Deb:
    """One binary package. `relations` are control fields; `files` maps a path to its text or (`->`) link target."""

    name: str
    version: str
    relations: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    units: tuple[str, ...] = ()
    enable: bool = False
    postinst: str = ""
    prerm: str = ""
    conffiles: tuple[str, ...] = ()
    description: str = "lab stand-in"

    @property
    def filename(self) -> str:
        return f"{self.name}_{self.version.partition(':')[2] or self.version}_amd64.deb"


def everything() -> Iterator[Deb]:
    for version in DRIVERS:
        yield from driver(version)
    for version in TOOLKITS:
        yield from toolkit(version)
    yield from others()


def _one_of(virtual: str) -> dict[str, str]:
    """At most one package of a kind: the branches replace one another."""
    return {"Provides": virtual, "Conflicts": virtual, "Replaces": virtual}


def driver(version: str) -> Iterator[Deb]:
    """All packages of one driver version."""
    upstream = version.split("-")[0]
    branch = int(upstream.split(".")[0])
    suffix = f"-{branch}" if branch <= 580 else ""
    yield from _pins(upstream, branch)
    yield from _kernel(version, upstream, suffix)
    yield from _user_space(version, upstream, suffix)
    yield from _metapackages(version, branch, suffix)
    yield from _fabric(version, upstream, f"-{branch}" if branch < 580 else "")


def _pins(upstream: str, branch: int) -> Iterator[Deb]:
    """Each is an apt preferences file at priority 1000; only one can be installed."""
    pins = {str(branch): f"{branch}.*", upstream: f"{upstream}-*"} if branch == 580 else {str(branch): f"{branch}.*"}
    for name, pattern in pins.items():
        if name == "580" and upstream != "580.178.04":
            continue  # the branch pin exists once, at the branch's newest version
        full = f"nvidia-driver-pinning-{name}"
        # ".pref": apt ignores files with any other ending, and ".20" would be one
        text = f"Package: {PINNED}\nPin: version {pattern}\nPin-Priority: 1000\n"
        yield Deb(
            full, f"{upstream}-1", _one_of("nvidia-driver-pinning"), {f"/etc/apt/preferences.d/{full}.pref": text}
        )


def _kernel(version: str, upstream: str, suffix: str) -> Iterator[Deb]:
    for flavour, license_name in (("-open", "Dual MIT/GPL"), ("", "NVIDIA")):
        # real name: nvidia-dkms-580-open, nvidia-dkms-open
        name = f"nvidia-dkms{suffix}{flavour}"
        source = f'PACKAGE_NAME="nvidia"\nPACKAGE_VERSION="{upstream}"\n'
        yield Deb(
            name, version,
            {"Depends": f"nvidia-kernel-common{suffix} (= {version})", **_one_of("nvidia-dkms-kernel")},
            {f"/usr/src/nvidia-{upstream}/dkms.conf": source},
            postinst=scripts.dkms_install(upstream, license_name), prerm=scripts.DKMS_REMOVE,
        )  # fmt: skip
    blacklist = (
        "# This file was installed by the driver package (lab stand-in)\nblacklist nouveau\nblacklist nova_core\n"
    )
    yield Deb(
        f"nvidia-kernel-common{suffix}", version,
        {"Depends": f"nvidia-modprobe (>= {upstream})", **_one_of("nvidia-kernel-common-any")},
        {"/usr/lib/modprobe.d/nvidia-graphics-drivers.conf": blacklist}, postinst=scripts.INITRAMFS,
    )  # fmt: skip
    yield Deb(f"nvidia-firmware{suffix}", version, _one_of("nvidia-firmware-any"))


def _user_space(version: str, upstream: str, suffix: str) -> Iterator[Deb]:
    libraries = {}
    for name in ("libnvidia-ml", "libcuda", "libnvidia-ptxjitcompiler"):
        libraries[f"{LIBDIR}/{name}.so.{upstream}"] = f"lab stand-in for {name} {upstream}\n"
        libraries[f"{LIBDIR}/{name}.so.1"] = f"-> {name}.so.{upstream}"
    yield Deb(f"libnvidia-compute{suffix}", version, _one_of("libnvidia-compute-any"), libraries)
    yield Deb(
        f"nvidia-utils{suffix}", version,
        {"Depends": f"libnvidia-compute{suffix} (= {version})", **_one_of("nvidia-utils-any")},
        {"/usr/bin/nvidia-smi": wrapper("nvidia-smi", upstream)},
    )  # fmt: skip
    yield Deb("nvidia-modprobe", version, {}, {"/usr/bin/nvidia-modprobe": wrapper("nvidia-modprobe", upstream)})
    service = unit(
        "NVIDIA Persistence Daemon",
        "/usr/bin/nvidia-persistenced --user nvidia-persistenced --no-persistence-mode --verbose",  # as Ubuntu's does
        "forking", "PIDFile=/run/nvidia-persistenced/nvidia-persistenced.pid\n"
        "ExecStopPost=/bin/rm -rf /run/nvidia-persistenced\nRestart=on-failure\n",
    )  # fmt: skip
    yield Deb(
        "nvidia-persistenced", version, {},
        {"/usr/bin/nvidia-persistenced": wrapper("nvidia-persistenced", upstream),
         "/usr/lib/systemd/system/nvidia-persistenced.service": service},
        units=("nvidia-persistenced.service",), enable=True, postinst=scripts.PERSISTENCED_USER,
    )  # fmt: skip


def _metapackages(version: str, branch: int, suffix: str) -> Iterator[Deb]:
    same = f"(= {version})"
    common = f"libnvidia-compute{suffix} {same}, nvidia-utils{suffix} {same}, nvidia-kernel-common{suffix} {same}, " + (
        f"nvidia-firmware{suffix} {same}, nvidia-persistenced (>= {version.split('-')[0]})"
    )
    for flavour, top in (("-open", f"nvidia-open{suffix}"), ("", f"cuda-drivers{suffix}")):
        full = f"nvidia-driver{suffix}{flavour}"
        yield Deb(full, version, {"Depends": f"nvidia-dkms{suffix}{flavour} {same}, {common}"})
        yield Deb(top, version, {"Depends": f"{full} {same}"})
    if branch == 580:  # the bare name exists there too, and follows the pin
        yield Deb("nvidia-open", version, {"Depends": f"nvidia-open-580 {same}"})


def _fabric(version: str, upstream: str, suffix: str) -> Iterator[Deb]:
    imex = unit("NVIDIA IMEX service", "/usr/bin/nvidia-imex -c /etc/nvidia-imex/config.cfg", "forking",
                "LimitCORE=infinity\n", "After=network-online.target\nWants=network-online.target\n")  # fmt: skip
    yield Deb(
        f"nvidia-imex{suffix}", version, _one_of("nvidia-imex-any"),
        {"/usr/bin/nvidia-imex": wrapper("nvidia-imex", upstream),
         "/usr/bin/nvidia-imex-ctl": wrapper("nvidia-imex-ctl", upstream),
         "/etc/nvidia-imex/config.cfg": scripts.IMEX_CONFIG, "/etc/nvidia-imex/nodes_config.cfg": scripts.IMEX_NODES,
         "/usr/lib/systemd/system/nvidia-imex.service": imex},
        units=("nvidia-imex.service",), conffiles=("/etc/nvidia-imex/config.cfg", "/etc/nvidia-imex/nodes_config.cfg"),
    )  # fmt: skip
    config = "/usr/share/nvidia/nvswitch/fabricmanager.cfg"
    manager = unit("NVIDIA fabric manager service", f"/usr/bin/nv-fabricmanager -c {config}", "forking")
    yield Deb(
        f"nvidia-fabricmanager{suffix}", version, _one_of("nvidia-fabricmanager-any"),
        {"/usr/bin/nv-fabricmanager": wrapper("nv-fabricmanager", upstream), config: "FABRIC_MODE=0\n",
         "/usr/lib/systemd/system/nvidia-fabricmanager.service": manager},
        units=("nvidia-fabricmanager.service",),
    )  # fmt: skip
    yield Deb(f"libnvidia-nscq{suffix}", version, _one_of("libnvidia-nscq-any"))
    yield Deb(f"libnvsdm{suffix}", version, _one_of("libnvsdm-any"))
    if upstream.startswith("580."):
        depends = ("libnvidia-nscq (>= 580), libnvsdm (>= 580), nvidia-fabricmanager (>= 580), nvidia-imex (>= 580), "
                   "nvidia-dkms-580-open, libnvidia-compute-580, nvlsm (>= 2025.10.12)")  # fmt: skip
        yield Deb("nvlink5-580", version, {"Depends": depends})


def toolkit(version: str) -> Iterator[Deb]:
    """The four container toolkit packages; since 1.18 they want exactly one version of each other."""
    upstream, same = version.split("-")[0], f"(= {version})"
    yield Deb("libnvidia-container1", version)
    yield Deb("libnvidia-container-tools", version, {"Depends": f"libnvidia-container1 {same}"})
    files = {
        "/usr/bin/nvidia-ctk": wrapper("nvidia-ctk", upstream),
        "/usr/bin/nvidia-cdi-hook": "#!/bin/sh\n# lab stand-in: a container here holds no GPU\nexit 0\n",
        "/usr/bin/nvidia-container-runtime": '#!/bin/sh\n# lab stand-in\nexec runc "$@"\n',
        "/usr/lib/systemd/system/nvidia-cdi-refresh.service": scripts.CDI_SERVICE,
        "/usr/lib/systemd/system/nvidia-cdi-refresh.path": scripts.CDI_PATH,
    }
    if upstream.startswith("1.17."):  # the refresh units came with 1.18
        files = {path: text for path, text in files.items() if "cdi-refresh" not in path}
    units = () if upstream.startswith("1.17.") else ("nvidia-cdi-refresh.path", "nvidia-cdi-refresh.service")
    yield Deb("nvidia-container-toolkit-base", version, {}, files, units=units, enable=True)
    depends = f"nvidia-container-toolkit-base {same}, libnvidia-container-tools {same}, libnvidia-container1 {same}"
    yield Deb("nvidia-container-toolkit", version, {"Depends": depends})


def others() -> Iterator[Deb]:
    """Packages whose version does not follow the driver."""
    yield Deb("nvlsm", "2025.10.14-1")
    core = "datacenter-gpu-manager-4-core"
    yield Deb(
        core, "1:4.4.2-1", {},
        {"/usr/bin/dcgmi": wrapper("dcgmi", "4.4.2"), "/usr/bin/nv-hostengine": wrapper("nv-hostengine", "4.4.2"),
         "/usr/lib/systemd/system/nvidia-dcgm.service":
             unit("NVIDIA DCGM service", "/usr/bin/nv-hostengine -n", "simple")},
        units=("nvidia-dcgm.service",),
    )  # fmt: skip
    yield Deb("datacenter-gpu-manager-4-cuda13", "1:4.4.2-1", {"Depends": f"{core} (= 1:4.4.2-1)"})


def driver_closure(names: tuple[str, ...], version: str) -> list[str]:
    """Files of some packages and of everything they depend on within one driver version."""
    known = {deb.name: deb for deb in driver(version)}
    found: dict[str, str] = {}
    queue = list(names)
    while queue:
        deb = known[queue.pop()]
        if deb.name in found:
            continue
        found[deb.name] = deb.filename
        queue += [part.split("(")[0].strip() for part in deb.relations.get("Depends", "").split(",") if part.strip()]
    return list(found.values())
