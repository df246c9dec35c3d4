"""Checks of layer container_runtime for AMD's container toolkit, where the site asks for it."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import NodeFacts, known
from rackproof.layers.readings import all_of, of, seen
from rackproof.layers.words import asked, packages
from rackproof.layers.words_driver import plain
from rackproof.layers.words_gpu import amd_driver
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement, judge

CDI_KIND, PACKAGE, RUNTIME = "amd.com/gpu", "amd-container-toolkit", "amd"


@check("container_runtime.amd_toolkit")
def amd_toolkit(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = asked(baseline.runtime.amd_toolkit)
    readings = {
        PACKAGE: seen(
            of(packages(facts), lambda found: found.get(PACKAGE, "")),
            lambda found: plain(found) == wanted,
            lambda found: found or "not installed",
        ),
        "engine": seen(facts.runtime.runtimes, lambda found: RUNTIME in found, lambda found: f"runtimes {', '.join(found)}"),
    }
    return all_of(f"version {wanted}, and the engine knows the runtime {RUNTIME}", readings)


@check("container_runtime.amd_cdi")
def amd_cdi(facts: NodeFacts, baseline: Baseline) -> Judgement:
    specs = known(facts.runtime.amd_cdi_specs)
    renders = known(of(amd_driver(facts), lambda driver: driver.render_nodes))
    wanted = {"/dev/kfd", *(f"/dev/dri/{name}" for name in renders)}
    expected = f"one spec of {CDI_KIND} with /dev/kfd and the {len(set(renders))} render nodes of this boot"
    if not specs:
        return judge(False, f"no CDI spec of {CDI_KIND}", expected)
    odd = {spec.path: sorted(wanted ^ set(spec.nodes)) for spec in specs}
    wrong = "; ".join(f"{path}: {', '.join(names)} in only one of both" for path, names in odd.items() if names)
    if wrong or not renders:
        return judge(False, wrong or "no render node", expected)
    return judge(len(specs) == 1, ", ".join(odd), expected)
