"""What tells one product's healthy node from another's: a few parameters, from which its evidence is written."""

from __future__ import annotations

from dataclasses import dataclass

NVIDIA_DRIVER = "580.126.20"
CLUSTER = "b2daed23-0000-4000-8000-000000000001"
NIL = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True)
class Machine:
    """One healthy node. Sizes in the units that its tools print."""

    hardware: str
    name: str
    number: int  # of the node in its unit, from 1
    gpus: tuple[str, ...]  # PCI addresses, as sysfs writes them
    device: str  # PCI device id of a GPU, four hex digits
    product: str
    memory_mib: int
    power_w: int
    rate_gbit: int  # of each NIC beside a GPU
    link_gb_per_s: float = 0.0
    aarch64: bool = False
    vendor: str = "nvidia"
    infiniband: bool = False

    @property
    def tray(self) -> bool:
        return self.hardware == "gb300"

    @property
    def kernel(self) -> str:
        return "6.8.0-1039-nvidia-64k" if self.aarch64 else "6.8.0-79-generic"

    @property
    def cpus(self) -> tuple[str, str]:
        """CPUs of each of two sockets."""
        return ("0-71", "72-143") if self.aarch64 else ("0-63", "64-127")

    @property
    def memory_gib(self) -> int:
        return 956 if self.aarch64 else 2015

    @property
    def address(self) -> str:
        return f"10.0.0.{self.number}"

    @property
    def tag(self) -> str:
        """Of the architecture in a library folder."""
        return "aarch64-linux-gnu" if self.aarch64 else "x86_64-linux-gnu"

    @property
    def nics(self) -> tuple[str, ...]:
        """PCI address of the NIC below the same switch as each GPU."""
        if self.tray:
            return tuple(f"{address.split(':')[0]}:03:00.0" for address in self.gpus)
        return tuple(f"0000:{int(address.split(':')[1], 16) + 1:02x}:00.0" for address in self.gpus)


_HGX = tuple(f"0000:{bus}:00.0" for bus in ("0f", "2e", "4d", "6c", "8b", "aa", "c9", "e8"))
_TRAY = ("0008:06:00.0", "0009:06:00.0", "0018:06:00.0", "0019:06:00.0")
_OAM = tuple(f"0000:{bus}:00.0" for bus in ("05", "15", "65", "75", "85", "95", "e5", "f5"))


def machine(hardware: str, number: int = 1) -> Machine:
    """A healthy node by product id: gb300, b300, b200, h200, mi355x."""
    name = f"node{number:02d}"
    match hardware:
        case "gb300":
            return Machine(
                hardware, name, number, _TRAY, "31c2", "NVIDIA GB300", 284208, 1400, 800, 53.125, aarch64=True
            )
        case "b300":
            return Machine(hardware, name, number, _HGX, "3182", "NVIDIA B300 SXM6 AC", 275040, 1100, 800, 53.125)
        case "b200":
            return Machine(hardware, name, number, _HGX, "2901", "NVIDIA B200", 183359, 1000, 400, 53.125)
        case "h200":
            return Machine(
                hardware, name, number, _HGX, "2335", "NVIDIA H200", 143771, 700, 400, 26.562, infiniband=True
            )
        case "mi355x":
            return Machine(hardware, name, number, _OAM, "75a3", "AMD Instinct MI355X", 294896, 1400, 400, vendor="amd")
    raise ValueError(f"no healthy evidence of {hardware!r} is written here")


def shown(path: str, text: object) -> str:
    """A file of a group of small files, as the probe prints it."""
    return f"= {path}\n" + "".join(f"|{line}\n" for line in str(text).splitlines())


def there(*paths: str) -> str:
    return "".join(f"+ {path}\n" for path in paths)


def gone(*paths: str) -> str:
    return "".join(f"- {path}\n" for path in paths)
