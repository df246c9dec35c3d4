"""Back to the baseline before the present one: the earlier stamp on the host holds the site's choices that made it.

The same layers then bring it about. Before anything changes, packages and image of that baseline must be there to be had.
"""

from __future__ import annotations

import shlex
from collections.abc import Generator, Mapping

from pyinfra import host as current_host
from pyinfra import logger
from pyinfra import state as current_state
from pyinfra.api import QuoteString, StringCommand, operation

from rackproof.baseline import Baseline, resolve
from rackproof.baseline_launch import with_launch
from rackproof.deploy.node import Node, known_or
from rackproof.deploy.onhost import Watch
from rackproof.deploy.packages import MANAGERS
from rackproof.deploy.session import session
from rackproof.deploy.stamp import CHOICES
from rackproof.errors import InputError
from rackproof.facts import Missing
from rackproof.inventory import current_plan, member_of
from rackproof.managed import HISTORY, keyring, source_file
from rackproof.site import Site
from rackproof.verdict.report.clean import clean

_CHECK = """\
t=$(mktemp -d); trap 'rm -rf "$t"' EXIT
{offers}gone=
# one package a line, by any of its names
while read -r version names; do
  found=
  for name in $names; do if has "$name" "$version"; then found=1; break; fi; done
  [ -n "$found" ] || gone="$gone${{gone:+,}} $(echo $names | sed 's/ / or /g') $version"
done <<'RACKPROOF_PACKAGES'
{packages}
RACKPROOF_PACKAGES
[ -z "$gone" ] || {{
  echo "rackproof: cannot go back: the repository no longer offers$gone; nothing was changed" >&2; exit 1
}}
{engine} image inspect {image} >/dev/null 2>&1 || {engine} pull -q {image} >/dev/null || {{
  echo 'rackproof: cannot go back: the image {image} is neither here nor in its registry; nothing was changed' >&2; exit 1
}}
"""


def to_previous(node: Node) -> None:
    """Make the earlier stamped baseline the one that this node is brought to; stop the node where that cannot be."""
    if node.stopped:
        return
    stamp, control = known_or(node.facts.host.stamp, None), node.facts.control
    history = control if isinstance(control, Missing) else control.history
    if stamp is None:
        node.stop("no deploy has left a stamp here, so there is nothing to go back from")
    elif isinstance(history, Missing):
        node.stop(f"its earlier stamps cannot be read ({history.reason})")
    else:
        earlier = next((old for old in history if old.get("baseline") != stamp.get("baseline")), None)
        if earlier is None:
            node.stop(f"there is no earlier baseline to go back to: {HISTORY} holds no other stamp")
        else:
            _take(node, earlier)


def _take(node: Node, stamp: Mapping[str, object]) -> None:
    choices = stamp.get("site")
    if not isinstance(choices, dict):
        node.stop(f"the earlier stamp was written by {clean(str(stamp.get('tool')), 40)}, which kept no site values")
        return
    try:
        rest = Site({key: cell for key, cell in node.site.cells.items() if key[0] not in CHOICES})
        site = rest.overlaid(choices, f"earlier stamp of {node.name}")
        baseline = resolve(site, domain=node.baseline.nvlink.domain, domain_source="the inventory")
        if baseline.serving.install:
            baseline = with_launch(baseline, site, member_of(current_plan(), node.name))
    except InputError as error:
        node.stop(f"the earlier baseline cannot be made again: {clean(str(error), 300)}")
        return
    made = {"driver": baseline.driver.version, "image": baseline.image.reference, "launch": baseline.serving.launch}
    if {key: stamp.get(key) for key in made} != made or baseline.packages is None:
        node.stop(
            "the earlier baseline cannot be made again: this version of the recipe names another driver or image, or "
            "renders another launch"
        )
        return
    node.site, node.baseline = site, baseline
    _confirm(node, baseline)


def _confirm(node: Node, baseline: Baseline) -> None:
    packages, runtime = baseline.packages, baseline.runtime
    assert packages is not None
    names = packages.names
    version = names.version or baseline.driver.version
    wanted = [(version, *names.any_of(name)) for name in (*names.driver, *names.fabric)]
    if runtime.toolkit_version is not None and packages.origin != "amd":  # AMD's comes from a repository of its own
        wanted += [(runtime.toolkit_version, name) for name in names.toolkit]
    if packages.origin == "ubuntu":  # the repository at hand is the toolkit's; the driver comes from the distribution
        wanted = [item for item in wanted if item[1] in names.toolkit]
    offers = MANAGERS[packages.platform.manager].offers.format(
        keyring=keyring(packages), source=shlex.quote(source_file(packages).content)
    )
    _agrees(name="All nodes of a unit go back to one baseline")
    with node.layer("rollback"):
        node.shell(
            f"Driver {baseline.driver.version} and image {baseline.image.index[7:19]} are to be had",
            _CHECK.format(
                offers=offers, packages="\n".join(" ".join(filter(None, item)) for item in wanted),
                image=shlex.quote(baseline.image.reference), engine=runtime.engine,
            ),
            watch=Watch(images=(baseline.image.reference,), engine=runtime.engine),
        )  # fmt: skip


def remind(node: Node) -> None:
    """Say where the site still asks for what was left, since the next deploy would bring it back."""
    asked = current_plan().node(node.name).baseline
    if not node.stopped and asked is not None and asked.hash != node.baseline.hash:
        node.notes.append(
            f"group_vars still ask for driver {asked.driver.version} and image {asked.image.index[7:19]}: the next deploy "
            "brings them back unless that is changed"
        )
        logger.info(f"{current_host.print_prefix}{node.notes[-1]}")


@operation()
def _agrees() -> Generator[StringCommand, None, None]:
    """Fail this node where the nodes of its unit would go back to different baselines."""
    if not current_state.is_executing:
        return
    name, nodes = current_host.name, session().nodes
    unit = next((unit.nodes for unit in current_plan().units if name in unit.nodes), (name,))
    targets = {other: nodes[other].baseline.hash[:12] for other in unit if other in nodes}
    if len(set(targets.values())) > 1:
        words = ", ".join(f"{other} to {target}" for other, target in targets.items())
        session().failures[name] = f"its unit would go back to different baselines ({words}); nothing was changed"
        yield StringCommand("printf '%s\\n'", QuoteString(f"rackproof: {session().failures[name]}"), ">&2; exit 1")
