"""How packages are kept at a version: by a pin package (apt) or by versionlock (dnf)."""

from __future__ import annotations

from rackproof.baseline_parts import PackageBaseline
from rackproof.facts import Fact, NodeFacts
from rackproof.layers.readings import Reading, of, seen
from rackproof.layers.words import packages
from rackproof.package_names import locked


def pins(facts: NodeFacts, wanted: PackageBaseline, version: str) -> dict[str, Fact[Reading]]:
    """One reading a pin. Of an origin without pin packages the pin is a managed file, which is judged as one."""
    names = wanted.names
    if wanted.platform.manager == "dnf":
        locks = of(facts.system, lambda system: system.versionlocks)
        return {f"versionlock of {name}": _locked(locks, name, version) for name in (*names.driver, *names.fabric)}
    if not names.pin:
        return {}
    return {
        names.pin: seen(
            packages(facts), lambda found: bool(found.get(names.pin)), lambda found: _there(names.pin in found)
        )
    }


def _locked(locks: Fact[tuple[str, ...]], name: str, version: str) -> Fact[Reading]:
    return seen(
        locks, lambda found: locked(found, name, version), lambda found: f"none at {version} in {len(found)} locks"
    )


def _there(installed: bool) -> str:
    return "installed" if installed else "not installed"
