"""Can what the log says was started fit at all? The recipe's own arithmetic, with the arguments that the log repeats.

Only for the recipe's model, and only where the log or the asker names the product: a guess would be no arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rackproof import hardware as profiles
from rackproof import recipes
from rackproof.hardware import Hardware
from rackproof.recipes import Layout, Recipe
from rackproof.recipes.fit import Answer, Step, fit
from rackproof.recipes.footprint import Footprint, Row
from rackproof.triage.diagnose import LOAD_FIRST, Diagnosis
from rackproof.triage.notes import number

_SHOWN = ("official", "vendor")
_NAMED = 3  # layouts named in an advice


@dataclass(frozen=True)
class Fitting:
    """What the arithmetic says of the layout in the log. `expand`, `move`: layouts that fit, where this one does not."""

    shape: str
    layout: str  # id in the recipe, "" where it has none
    hardware: str
    memory: Step
    context: Step
    expand: tuple[str, ...] = ()
    move: tuple[str, ...] = ()


def fitting(answer: Diagnosis, hardware_id: str | None = None) -> Fitting | None:
    """The arithmetic for the layout of a log; None where model, layout or product are not known."""
    recipe = recipes.load()
    hardware = _hardware(answer, hardware_id)
    layout = None if hardware is None else _layout(recipe, answer, hardware)
    if hardware is None or layout is None:
        return None
    asked = replace(recipe, footprint=_as_started(recipe, answer))
    pool = fit(asked, layout, hardware, hardware.memory_bytes).pools[0]
    said = Fitting(pool.pool.shape, layout.id, hardware.id, pool.memory, pool.context)
    if Answer.NO not in (pool.memory.answer, pool.context.answer):
        return said
    good = [other for other in recipe.layouts.values() if other.tier in _SHOWN and _fits(recipe, other)]
    own = [other for other in good if other.hardware == hardware.id and _gpus(other) > pool.pool.gpus]
    others = [
        other for other in good
        if other.hardware != hardware.id and _gpus(other) <= pool.pool.gpus
        and profiles.load(other.hardware).vendor == hardware.vendor
    ]  # fmt: skip
    return replace(said, expand=_named(own), move=_named(others))


def advised(answer: Diagnosis, said: Fitting | None) -> Diagnosis:
    """The advice with the numbers in it, where they bear on what failed."""
    if said is None or answer.stage not in LOAD_FIRST or answer.root or answer.class_ not in ("capacity", "tuning"):
        return answer
    if said.memory.answer is Answer.NO and (answer.class_ == "capacity" or not answer.loaded):
        return replace(answer, class_="capacity", advice=_too_small(said, said.memory.words))
    if answer.stage == "engine-init" and said.context.answer is Answer.NO:
        return replace(answer, advice=_too_small(said, said.context.words, "shorten --max-model-len, or "))
    fits = said.memory if answer.stage == "weights-load" else said.context
    if answer.class_ == "capacity" and fits.answer is Answer.YES and said.memory.answer is Answer.YES:
        return replace(answer, class_="environment", confidence="possible", advice=_room(said))
    return answer


def _too_small(said: Fitting, words: str, first: str = "") -> str:
    ways = []
    if said.expand:
        ways.append(f"expand ({', '.join(said.expand)})")
    if said.move:
        ways.append(f"move to larger GPUs ({', '.join(said.move)})")
    then = " or ".join(ways) or "use more or larger GPUs"
    return (
        f"{said.shape} on {said.hardware} cannot fit: {words}. "
        f"Verify that every GPU is whole and idle, then {first}{then}."
    )


def _room(said: Fitting) -> str:
    return (
        f"By the recipe's arithmetic {said.shape} on {said.hardware} has room: {said.memory.words}. So look for what "
        "takes the memory: another process, a MIG slice, a GPU that is missing, a loader that stages twice."
    )


def _hardware(answer: Diagnosis, hardware_id: str | None) -> Hardware | None:
    found = hardware_id or profiles.detect(answer.notes.get("GPU", "").strip())
    return profiles.load(found) if found else None


def _layout(recipe: Recipe, answer: Diagnosis, hardware: Hardware) -> Layout | None:
    """The recipe's layout of that shape, or one made up for it; None where the log does not give model and shape."""
    given = answer.arguments
    name = str(recipe.model["repo"].value).rpartition("/")[2].lower()
    if given.get("model", "").rstrip("/").rpartition("/")[2].lower() != name:
        return None
    if not {"tp", "pp", "dp"} & set(given) and "arguments" not in answer.notes:
        return None
    tp, pp, dp = (max(1, int(number(given.get(key, "1")))) for key in ("tp", "pp", "dp"))
    expert = given.get("ep", "").lower() == "true"
    for layout in recipe.layouts.values():
        shape = (layout.hardware, layout.tp, layout.pp, layout.dp, layout.ep)
        if shape == (hardware.id, tp, pp, dp, expert) and not layout.roles:
            return layout
    nodes = -(-tp * pp * dp // hardware.gpus_per_node.value)
    return Layout("", hardware.id, "", nodes, "", "derived", "the log", tp=tp, pp=pp, dp=dp, ep=expert)


def _as_started(recipe: Recipe, answer: Diagnosis) -> Footprint:
    """The recipe's figures, but for what the log says was asked for."""
    share, length = (number(answer.arguments.get(key, "")) for key in ("gpu-memory-utilization", "max-model-len"))
    footprint = recipe.footprint
    if 0 < share <= 1:
        footprint = replace(footprint, utilisation=(Row("the log", value=share),))
    if length >= 1:
        footprint = replace(footprint, context=(Row("the log", max_model_len=int(length)),))
    return footprint


def _fits(recipe: Recipe, layout: Layout) -> bool:
    hardware = profiles.load(layout.hardware)
    return fit(recipe, layout, hardware, hardware.memory_bytes).answer is Answer.YES


def _gpus(layout: Layout) -> int:
    return sum(pool.gpus for pool in layout.pools)


def _named(layouts: Iterable[Layout]) -> tuple[str, ...]:
    """The smallest first, official before vendor."""
    order = sorted(layouts, key=lambda layout: (_gpus(layout), _SHOWN.index(layout.tier)))
    return tuple(layout.id for layout in order[:_NAMED])
