"""Layer serving: the unit that serves and its environment, as the launch of the node's deployment unit renders them.

Installed and left to people, unless the site says that it runs (serving.start). What was installed before is not kept as
a file: the stamp of the earlier baseline makes it again, and its image stays on the node under a tag of its own.
"""

from __future__ import annotations

from rackproof.deploy.node import Node, known_or
from rackproof.deploy.onhost import Watch
from rackproof.facts import Missing
from rackproof.facts_serving import ServingFacts, ServingUnitFile
from rackproof.facts_state import ServingUnit
from rackproof.managed import SERVING_ENVIRONMENT, SERVING_UNIT

NAME = SERVING_UNIT.rpartition("/")[2]
_WATCH = Watch(units=(NAME,))


def bring_about(node: Node) -> None:
    """Write unit and environment, enable and start them where the site says so; take them away where it has none."""
    with node.layer("serving"):
        wanted = node.baseline.serving
        if not wanted.install:
            _remove(node)
            return
        changed = [file for file in node.managed("serving") if not node.has(file)]
        node.files("Install the serving unit", node.managed("serving"), then="systemctl daemon-reload")
        installed = _installed(node)
        enabled = installed is not None and installed.enabled is True
        if enabled != wanted.start:
            word = "enable" if wanted.start else "disable"
            node.shell(f"{word.title()} the serving unit", f"systemctl {word} -q {NAME}", watch=_WATCH)
        if wanted.start and (changed or not _runs(node) or node.reboot or node.driver_changes):
            node.shell("Start the serving unit", _START, disrupts=_runs(node), watch=_WATCH)
        elif changed and _runs(node):
            node.notes.append(
                "the engine that runs was started by the unit before; `rackproof serve` stops and starts it"
            )


# Type=exec: systemd comes back when the container's command has been started, not when the engine is ready.
_START = f"""\
systemctl reset-failed -q {NAME} 2>/dev/null || :
systemctl restart {NAME}
"""


def _remove(node: Node) -> None:
    if _installed(node) is None:
        return
    script = (
        f"systemctl disable -q --now {NAME} || :\nrm -f {SERVING_UNIT} {SERVING_ENVIRONMENT}\nsystemctl daemon-reload"
    )
    node.shell("Remove the serving unit", script, disrupts=_runs(node), watch=_WATCH)


def _installed(node: Node) -> ServingUnitFile | None:
    facts = node.facts.serving
    units = known_or(facts.units, ()) if isinstance(facts, ServingFacts) else ()
    return next((unit for unit in units if unit.name == NAME), None)


def _runs(node: Node) -> bool:
    """Whether it runs, or may: what cannot be seen is taken to run, so that nothing is broken unasked."""
    system = node.facts.system
    state = system if isinstance(system, Missing) else system.state
    units = state if isinstance(state, Missing) else state.serving_units
    if isinstance(units, Missing):
        return _installed(node) is not None
    found: tuple[ServingUnit, ...] = units
    return any(unit.name == NAME and unit.active not in ("inactive", "failed") for unit in found)
