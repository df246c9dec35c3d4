"""The words and marks of the reports: one place, so that a verdict reads the same everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rackproof.baseline import Baseline
from rackproof.verdict.evaluate import Result
from rackproof.verdict.model import Outcome, Status, Verdict, verdict_of

SIMULATED = "SIMULATED HARDWARE: nothing here is a GPU result"

# Named colours of the terminal's own theme only, so that dark and light backgrounds both work.
VERDICT_STYLE = {
    Verdict.ACCEPT: "bold green",
    Verdict.REJECT: "bold red",
    Verdict.UNDETERMINED: "bold yellow",
    Verdict.UNSUPPORTED: "bold magenta",
}
VERDICT_MARK = {Verdict.ACCEPT: "✔", Verdict.REJECT: "✘", Verdict.UNDETERMINED: "?", Verdict.UNSUPPORTED: "⊘"}
VERDICT_ASCII = {Verdict.ACCEPT: "+", Verdict.REJECT: "x", Verdict.UNDETERMINED: "?", Verdict.UNSUPPORTED: "!"}
STATUS_WORD = {
    Status.PASS: "pass",
    Status.FAIL: "fail",
    Status.UNKNOWN: "unknown",
    Status.BLOCKED: "blocked",
    Status.NOT_APPLICABLE: "n.a.",
}


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def outcomes_of(result: Result) -> list[Outcome]:
    """Every outcome of a run, nodes first."""
    return [outcome for node in result.nodes for outcome in node.outcomes] + list(result.fleet)


def outcomes_by_unit(result: Result) -> dict[str, list[Outcome]]:
    """The fleet outcomes of each deployment unit, by its name."""
    units: dict[str, list[Outcome]] = {}
    for outcome in result.fleet:
        units.setdefault(outcome.unit, []).append(outcome)
    return units


def meaning(result: Result) -> str:
    """What the verdict says, in one clause: "a gate fails on 4 of 18 nodes and 2 of 9 units"."""
    if result.verdict is Verdict.ACCEPT:
        return f"every gate passes on {plural(len(result.nodes), 'node')}"
    if not result.nodes:
        return "no node was looked at"
    units = [verdict_of(outcomes) for outcomes in outcomes_by_unit(result).values()]
    where = _share([node.verdict for node in result.nodes], result.verdict, "node")
    where += _share(units, result.verdict, "unit")
    said = {
        Verdict.REJECT: "a gate fails on",
        Verdict.UNDETERMINED: "not everything could be looked at on",
        Verdict.UNSUPPORTED: "self-built, and so not the official baseline, on",
    }
    return f"{said[result.verdict]} {' and '.join(where)}"


def _share(verdicts: Sequence[Verdict], wanted: Verdict, word: str) -> list[str]:
    count = verdicts.count(wanted)
    return [f"{count} of {plural(len(verdicts), word)}"] if count else []


def baselines(result: Result) -> list[Baseline]:
    """The different baselines of a run, in order of appearance."""
    return list(dict.fromkeys(node.baseline for node in result.nodes if node.baseline is not None))


def identity(result: Result) -> list[str]:
    """What was judged against what: nodes, hardware, recipe, layout with its tier, baseline hash."""
    known = baselines(result)
    products = ("unknown product" if node.hardware in ("", "unknown") else node.hardware for node in result.nodes)
    words = [plural(len(result.nodes), "node"), _some(products)]
    if not known:
        return [*filter(None, words), "no baseline could be chosen"]
    hashes = list(dict.fromkeys(baseline.hash[:12] for baseline in known))
    words += [
        _some(f"{baseline.recipe} @ {baseline.recipe_commit[:8]}" for baseline in known),
        _some(f"layout {baseline.layout.id} ({baseline.layout.tier})" for baseline in known),
        f"baseline {hashes[0]}" if len(hashes) == 1 else f"{len(hashes)} baselines {_some(hashes)}",
    ]
    return [word for word in words if word]


def _some(words: Iterable[str]) -> str:
    listed = list(dict.fromkeys(words))
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")


def counts(result: Result) -> dict[Status, int]:
    """How many outcomes have each status, all severities."""
    found = [outcome.status for outcome in outcomes_of(result)]
    return {status: found.count(status) for status in Status}


def count_words(result: Result) -> list[str]:
    """Of the gates: ["412 pass", "3 fail", "2 unknown", "20 n.a."]; blocked only where there are any."""
    found = [outcome.status for outcome in outcomes_of(result) if outcome.decides]
    numbers = {status: found.count(status) for status in Status}
    order = (Status.PASS, Status.FAIL, Status.UNKNOWN, Status.BLOCKED, Status.NOT_APPLICABLE)
    return [
        f"{numbers[status]} {STATUS_WORD[status]}"
        for status in order
        if numbers[status] or status is not Status.BLOCKED
    ]
