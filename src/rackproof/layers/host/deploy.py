"""Layer host: automatic upgrades keep off the GPU stack, and tools that later layers need are there."""

from __future__ import annotations

from rackproof.deploy.node import Node, known_or
from rackproof.deploy.onhost import Watch
from rackproof.deploy.packages import MANAGERS
from rackproof.facts import Missing
from rackproof.layers.host import deploy_kernel
from rackproof.managed import UPGRADES

_DNF_TIMERS = ("dnf-automatic.timer", "dnf-automatic-install.timer", "dnf-automatic-download.timer")
_TIME = ("chrony", "systemd-timesyncd")


def bring_about(node: Node) -> None:
    """Repair an interrupted package manager, and freeze the GPU stack against automatic upgrades."""
    with node.layer("host"):
        broken = known_or(node.facts.host.broken_packages, ())
        if broken:
            node.packages(f"Finish what was left half installed: {', '.join(broken[:5])}", "mend")
        node.files("Keep automatic upgrades off the GPU stack", [f for f in node.managed("host") if f.path == UPGRADES])
        _dnf_automatic(node)
        gpg = MANAGERS[node.manager].gpg
        if not any(node.version_of(name) for name in gpg):
            node.packages("Install gpg, to check signing keys", f"refresh\ninstall {gpg[0]}")
        _time(node)
        deploy_kernel.bring_about(node)


def _dnf_automatic(node: Node) -> None:
    """dnf's own job knows no list that a file of ours could add to, so its timers are switched off."""
    units = known_or(node.facts.host.units, {})
    timer = units.get("dnf-automatic.timer")
    if node.manager == "dnf" and timer is not None and (timer.running or timer.enabled == "enabled"):
        script = f"for t in {' '.join(_DNF_TIMERS)}; do systemctl disable -q --now $t 2>/dev/null || :; done\n"
        node.shell(
            "Switch dnf-automatic off",
            script + f"! systemctl is-enabled -q {_DNF_TIMERS[0]}",
            watch=Watch(units=_DNF_TIMERS[:1]),
        )


def _time(node: Node) -> None:
    """A clock that nobody sets makes signatures and certificates fail one day. Whoever sets it already is left alone."""
    system = node.facts.system
    clock = system if isinstance(system, Missing) else system.clock
    units = known_or(node.facts.host.units, {})
    unset = not isinstance(clock, Missing) and known_or(clock.synchronized, True) is False
    if unset and not any(name in units and units[name].running for name in _TIME):
        node.packages(
            "Install chrony, so that the clock is set",
            "refresh\ninstall chrony\nsystemctl enable -q --now chrony || systemctl enable -q --now chronyd",
        )
