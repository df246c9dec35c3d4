"""Reboot a node, wait for it over fresh connections, and see that it came back as what it was rebooted for.

pyinfra's own reboot (3.10) compares uptimes and takes a node that goes down late for one that has come back. Here boot
ids are compared. A reconnect goes the way the first connection went, so through a bastion as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from pyinfra.api import FunctionCommand, operation

from rackproof.deploy import onhost
from rackproof.deploy.onhost import Run, Watch
from rackproof.deploy.operations import Step
from rackproof.deploy.probe_fact import read
from rackproof.deploy.session import session
from rackproof.deploy.transport import reconnect, run
from rackproof.evidence.read import read_facts
from rackproof.facts import NodeFacts

POLL_S = 2

# A kernel upgrade that DKMS could not follow would come up without a driver. The newest kernel is what boots next unless
# the boot loader was told otherwise; where that cannot be seen the check after the reboot has the last word.
_NEXT_KERNEL = """\
next=$(ls -d /lib/modules/*/modules.dep 2>/dev/null | cut -d / -f 4 | while read -r k; do
  if [ -e "/boot/vmlinuz-$k" ] || [ -e "/lib/modules/$k/vmlinuz" ]; then echo "$k"; fi; done | sort -V | tail -n 1)
[ -n "$next" ] || next=$(uname -r)
found=$(modinfo -k "$next" -F version "${{module:-nvidia}}" 2>/dev/null || echo none)
if [ "$found" != '{version}' ]; then
  echo "rackproof: not rebooted: kernel $next boots next, and its ${{module:-nvidia}} module is $found, wanted {version}." \
"The host goes on as it is. Install the headers of that kernel (linux-headers-$next, or kernel-devel-$next), run dkms autoinstall -k $next, then deploy again." >&2
  dkms status 2>&1 | head -n 5 >&2
  exit 1
fi
"""
_GO = "( sleep 1; systemctl reboot || reboot ) </dev/null >/dev/null 2>&1 &"


@dataclass(frozen=True)
class Terms:
    """How to reboot: `settle_s` from `reboot` to really going down; `timeout_s` until it answers again."""

    settle_s: int
    timeout_s: int
    driver: str  # version that the next kernel must have a module of
    left: Callable[[NodeFacts], list[str]]  # what is not as it was rebooted for, from a reading after it
    module: str = "nvidia"


@operation(is_idempotent=False)
def reboot(step: Step, run: Run, terms: Terms) -> Generator[FunctionCommand, None, None]:
    """Reboot and wait until the node is back with another boot id, then read it again."""
    yield FunctionCommand(_reboot, (step, run, terms), {})


def _reboot(state: Any, host: Any, step: Step, deploy: Run, terms: Terms) -> bool:
    before = _boot_id(host)
    if before is None:
        return _give_up(host, "the boot id cannot be read, so a reboot could not be told from none")
    body = f"module={terms.module}\n" + _NEXT_KERNEL.format(version=terms.driver) + _GO
    ok, _, said = run(host, onhost.step(deploy, step.layer, step.name, body, Watch(), idle=step.idle, goes_on=True), 60)
    if not ok:
        return _give_up(host, said.strip().removeprefix("rackproof: ") or "the reboot could not be started")
    deadline = time.monotonic() + terms.timeout_s
    time.sleep(terms.settle_s)
    while time.monotonic() < deadline:
        now = _boot_id(host) if reconnect(host) else None
        if now is not None and now != before:
            run(host, onhost.note_end(deploy, step.layer, step.name, [("boot_id", before)], [("boot_id", now)]))
            return _came_back(host, terms)
        time.sleep(POLL_S)
    return _give_up(
        host, f"not back {terms.timeout_s} s after the reboot: look at its console; when it is up, run the deploy again"
    )


def _came_back(host: Any, terms: Terms) -> bool:
    """What follows was decided on the reboot doing its work; where it has not, nothing more is done."""
    evidence = read(host)
    if evidence.problem is not None:
        return _give_up(host, f"is back, but cannot be read: {evidence.problem}")
    session().evidence[host.name] = evidence
    left = terms.left(read_facts(evidence))
    if left:
        return _give_up(host, f"was rebooted, and still {'; '.join(left)}: see dmesg and dkms status on it")
    return True


def _give_up(host: Any, why: str) -> bool:
    session().failures[host.name] = why
    host.log_styled(f"rackproof: {why}", fg="red")
    return False


def _boot_id(host: Any) -> str | None:
    ok, text, _ = run(host, "cat /proc/sys/kernel/random/boot_id", 10)
    return text.strip() or None if ok else None
