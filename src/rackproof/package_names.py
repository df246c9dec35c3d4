"""What the packages of a driver version are called, by where they come from (layers/packages.yaml)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rackproof import yamlfile
from rackproof.errors import InputError
from rackproof.sourced import Cells

FILE = Path(__file__).parent / "layers" / "packages.yaml"


@dataclass(frozen=True)
class PackageNames:
    """Package names with the branch and version filled in."""

    pin: str  # keeps apt from moving any part of the stack away from the version
    driver: tuple[str, ...]  # all at exactly the driver's version
    fabric: tuple[str, ...]  # IMEX or Fabric Manager, at exactly the driver's version
    fabric_unversioned: tuple[str, ...]  # at whatever version the origin offers
    toolkit: tuple[str, ...]  # all four at one version

    @classmethod
    def of(cls, version: str, nvlink_kind: str, generation: str, where: str) -> tuple[PackageNames, str]:
        """Names for a driver version, and their source; raises InputError for a branch nobody has described."""
        file = yamlfile.load(FILE)
        cells = Cells(file, "layers/packages.yaml")
        branch = version.split(".")[0]
        described: list[int] = []
        for origin in file.data["origins"]:
            branches = cells.get("origins", origin, "branches")
            described += branches.value
            if int(branch) not in branches.value:
                continue

            def names(key: str, origin: str = origin) -> tuple[str, ...]:
                if key not in file.data["origins"][origin]:
                    return ()
                value = cells.get("origins", origin, key).value
                return tuple(name.format(branch=branch, version=version) for name in value)

            pin = cells.get("origins", origin, "pin")
            found = cls(
                pin=pin.value.format(version=version),
                driver=names("driver"),
                fabric=names(nvlink_kind),
                fabric_unversioned=names(f"{nvlink_kind}_{generation}_unversioned"),
                toolkit=cells.get("toolkit").value,
            )
            return found, pin.source
        raise InputError(where, f"no package names are known for driver branch {branch}", f"branches {described}")
