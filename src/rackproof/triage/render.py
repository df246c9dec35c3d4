"""What `triage` says, as a page for people: what happened and what to do first, then what it was decided by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rackproof.triage.diagnose import LOAD_FIRST, Diagnosis, reconcile
from rackproof.triage.mask import masked
from rackproof.verdict.report.clean import NAME_CHARS
from rackproof.verdict.report.page import Options, Page

if TYPE_CHECKING:
    from rackproof.triage.arithmetic import Fitting
    from rackproof.triage.now import Standing
    from rackproof.verdict.evaluate import Result

_STAGES = {
    "provisioning": "before the engine: the node itself", "container-start": "while the process started",
    "weights-load": "while weights were loaded", "engine-init": "while the engine started",
    "multi-node": "between nodes", "serving": "while requests ran",
    "none": "no failure in this log", "unknown": "the log does not say where",
}  # fmt: skip
_CLASSES = {
    "environment": "the host, not the arguments", "tuning": "the arguments", "capacity": "too few or too small GPUs",
    "bug-upstream": "the software, once the node is excluded", "none": "", "unknown": "the log does not say why",
}  # fmt: skip
_SURE = {
    "certain": "the log says so", "likely": "the log states the fault, but not all around it",
    "possible": "a guess, the log stops before it says why", "": "",
}  # fmt: skip
_ROLES = {"stage": "stage began", "cause": "cause", "around": "around it", "end": "ended by", "last": "last line"}
_STYLE = {"none": "bold green", "unknown": "bold yellow"}
_STANDING = {"fail": "bold red", "unknown": "bold yellow", "blocked": "bold yellow", "pass": "green"}


@dataclass(frozen=True)
class Triaged:
    """The answers of one run by the name of each log, and what was looked up beside them."""

    answers: Mapping[str, Diagnosis]
    name: str  # of the log that decided
    answer: Diagnosis
    fit: Fitting | None = None
    now: tuple[Standing, ...] | None = None  # None: nobody asked
    simulated: bool = False

    @staticmethod
    def of(answers: Mapping[str, Diagnosis], hardware: str | None = None, result: Result | None = None) -> Triaged:
        """The answer that decides, with the arithmetic of its layout, and with how things stand in `result`."""
        name, answer = list(answers.items())[reconcile(list(answers.values()))]
        triaged = Triaged(answers, name, answer)
        if answer.stage in LOAD_FIRST and "model" in answer.arguments:
            from rackproof.triage.arithmetic import advised, fitting

            said = fitting(answer, hardware)
            triaged = replace(triaged, answer=advised(answer, said), fit=said)
        if result is not None:
            from rackproof.triage.now import standing

            now = standing(result, triaged.answer.requirements)
            triaged = replace(triaged, now=now, simulated=result.simulated)
        return triaged


def render(triaged: Triaged, options: Options) -> str:
    """The answer as a page; one line where `quiet`."""
    answer, page = triaged.answer, Page(options)
    sure = f" ({answer.confidence})" if answer.confidence else ""
    style = _STYLE.get(answer.class_, "bold red")
    page.line((f"{answer.stage}  {answer.class_}", style), f"{sure}  ", (page.clean(triaged.name, NAME_CHARS), "dim"))
    if options.quiet:
        return str(page)
    _said(page, answer)
    _next(page, triaged)
    _lines(page, answer)
    _details(page, triaged)
    if len(triaged.answers) > 1:
        _others(page, triaged)
    return str(page)


def render_json(triaged: Triaged) -> str:
    """The answer as JSON text (schemas/triage.schema.json)."""
    from rackproof.triage.document import text

    return text(triaged)


def _said(page: Page, answer: Diagnosis) -> None:
    page.line("")
    page.field("when", _STAGES[answer.stage], indent=2)
    if what := _what(answer):
        page.field("what", what, indent=2)
    if answer.confidence:
        page.field("how sure", f"{answer.confidence}: {_SURE[answer.confidence]}", indent=2)
    if answer.failed and (answer.ranks or answer.moment.shown):
        page.field("failed first" if answer.ranks else "at", _first(page, answer), indent=2)


def _what(answer: Diagnosis) -> str:
    if answer.class_ == "unknown" and not answer.failed:
        return "no error in this log; the engine was not ready yet"
    return _CLASSES[answer.class_]


def _first(page: Page, answer: Diagnosis) -> str:
    names = [page.clean(rank, NAME_CHARS) for rank in answer.ranks]
    moment = page.clean(answer.moment.shown, NAME_CHARS)
    if not names:
        return moment
    at = f" at {moment}" if moment else ""
    then = f"; then {', '.join(names[1:8])}" if len(names) > 1 else ""
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"{names[0]}{at}{then}{more}"


def _next(page: Page, triaged: Triaged) -> None:
    answer = triaged.answer
    page.line("")
    page.field("next", answer.advice, "bold", indent=2)
    if not answer.requirements:
        return
    if triaged.now is None:
        page.field("verify", ", ".join(answer.requirements), indent=2)
        page.field("", "--inventory NODES or --evidence PATH shows which of these fail now", "dim", indent=2)
        return
    page.field("right now", _tally(triaged.now), indent=2)
    if triaged.simulated:
        page.field("", "SIMULATED HARDWARE", "bold yellow", indent=2)
    for names, one in _alike(triaged.now):
        _standing(page, names, one)


def _tally(now: Sequence[Standing]) -> str:
    """`1 fails, 2 unknown, 4 pass`: of requirements, each counted by the worst node."""
    worst = {one.requirement: one.status.value for one in reversed(now)}
    counts = {word: list(worst.values()).count(word) for word in dict.fromkeys(worst.values())}
    words = {
        "fail": "fail",
        "unknown": "unknown",
        "blocked": "blocked",
        "pass": "hold",
        "not_applicable": "do not apply",
    }
    return ", ".join(f"{counts[key]} {word}" for key, word in words.items() if key in counts)


def _alike(now: Sequence[Standing]) -> list[tuple[list[str], Standing]]:
    """Requirements that say the same of the same nodes stand together; one that fails stands alone."""
    found: list[tuple[list[str], Standing]] = []
    for one in now:
        same = found and replace(found[-1][1], requirement="", remedy="") == replace(one, requirement="", remedy="")
        if same and one.status.value != "fail":
            found[-1][0].append(one.requirement)
        else:
            found.append(([one.requirement], one))
    return found


def _standing(page: Page, names: Sequence[str], one: Standing) -> None:
    from rackproof.verdict.report.fold import counted

    word = one.status.value.replace("_", " ")
    style = _STANDING.get(one.status.value, "")
    page.field(word, f"{', '.join(names)}: {counted(one.nodes, page.ascii)}", style, indent=2)
    if one.status.value == "fail":
        page.paragraph(f"is: {page.clean(one.observed)}; should be: {page.clean(one.expected)}", indent=15)
        page.paragraph(page.clean(one.remedy), "dim", indent=15)
    elif one.reason and one.status.value != "not_applicable":
        page.paragraph(page.clean(one.reason), "dim", indent=15)


def _lines(page: Page, answer: Diagnosis) -> None:
    if answer.lines:
        page.line("")
    for line in answer.lines:
        text = f"line {line.number}: {page.clean(masked(line.raw), 300)}"
        page.field(_ROLES[answer.roles[line.number]], text, indent=2)


def _details(page: Page, triaged: Triaged) -> None:
    answer = triaged.answer
    versions = {"version": answer.engine} | {k: v for k, v in answer.group("versions").items() if k != "version"}
    versions["version"] = f"{answer.engine} {answer.notes.get('version', '')}".strip()
    memory = {**answer.group("memory"), **answer.group("tokens")}
    page.line("")
    page.field("engine", page.clean(", ".join(_pairs(versions, bare="version"))), indent=2)
    if stages := _stages(answer):
        page.field("stages", stages, indent=2)
    for label, values in (
        ("took", answer.group("times")),
        ("memory", memory),
        ("arguments", _in_order(answer.arguments)),
    ):
        if values:
            joined = ("; " if label == "took" else ", ").join(_pairs(values))
            page.field(label, page.clean(masked(joined), 500), indent=2)
    if "arguments" in answer.notes:
        page.field("as given", page.clean(masked(answer.notes["arguments"]), 300), "dim", indent=2)
    if triaged.fit is not None:
        page.field("arithmetic", _fit(triaged.fit), indent=2)
    if answer.source:
        page.field("source", f"{answer.source} (rule {answer.rule})", "dim", indent=2)


def _pairs(values: Mapping[str, str], bare: str = "") -> list[str]:
    return [value if label == bare else f"{label} {value}" for label, value in values.items()]


def _in_order(arguments: Mapping[str, str]) -> dict[str, str]:
    """The model and the shape first, the rest as the log gives them."""
    first = [name for name in ("model", "tp", "pp", "dp", "ep") if name in arguments]
    return {name: arguments[name] for name in (*first, *(name for name in arguments if name not in first))}


def _stages(answer: Diagnosis) -> str:
    """`weights-load 9 min 0 s, engine-init 61 s (failed here)`; "" where nothing is known of the time."""
    if all(timing.seconds is None for timing in answer.timings):
        return ""
    parts = []
    for timing in answer.timings:
        end = "" if timing.left else " (failed here)" if answer.failed else " (so far)"
        parts.append(f"{timing.stage} {span(timing.seconds)}{end}")
    return ", ".join(parts)


def span(seconds: float | None) -> str:
    """A duration as a person would say it."""
    if seconds is None:
        return "?"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _fit(said: Fitting) -> str:
    name = f" ({said.layout})" if said.layout else ""
    return f"{said.shape} on {said.hardware}{name}: memory {said.memory.answer.value}, {said.memory.words}; " + (
        f"context {said.context.answer.value}, {said.context.words}"
    )


def _others(page: Page, triaged: Triaged) -> None:
    page.line("")
    for log, each in triaged.answers.items():
        mark = "*" if log == triaged.name else " "
        at = page.clean(each.moment.shown, NAME_CHARS)
        page.line(f"{mark} {each.stage:<16} {each.class_:<13} {at:<19}  {page.clean(log, NAME_CHARS)}")
