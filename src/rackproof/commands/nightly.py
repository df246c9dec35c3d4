"""`nightly`: one run as a timer, cron or CI makes it: read, judge, compare, report, keep, and tell somebody."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rackproof.commands import output
from rackproof.commands.drift import compared, gathered, recorded
from rackproof.commands.options import PATH, Inputs, Reading, debug, inputs, reading
from rackproof.errors import RackproofError
from rackproof.verdict.model import Verdict

if TYPE_CHECKING:
    from rackproof.drift.records import Run
    from rackproof.drift.run import DriftResult
    from rackproof.site import Site
    from rackproof.verdict.report.proof import Look

HOOK_FAILED = 3
_STDERR = 2


@dataclass(frozen=True)
class Settings:
    """What the site says under `nightly:`, with what the command line says on top."""

    store: Path
    fail_on: str
    keep_days: int | None
    keep_runs: int | None
    on_change: tuple[str, ...]
    on_change_timeout_s: int


@click.command(short_help="The nightly run: read, judge, compare, report, keep.")
@click.argument("targets", metavar="TARGET...", nargs=-1)
@click.option(
    "--evidence", "sources", metavar="PATH", multiple=True, help="Evidence instead of targets; may be repeated."
)
@click.option("--inventory", metavar="FILE", help="With --evidence: which nodes there should be.")
@inputs
@reading
@click.option("--settings", "said", metavar="FILE", type=PATH, help="Take `nightly:` from this file, not the site.")
@click.option(
    "--store", "folder", metavar="DIR", type=PATH, help="History, evidence and reports. Default: nightly.store."
)
@click.option("--fail-on", metavar="CLASSES", help="As of `rackproof drift`. Default: nightly.fail_on.")
@click.option("--keep-days", metavar="DAYS", type=click.IntRange(min=1), help="Default: nightly.keep_days.")
@click.option("--keep-runs", metavar="N", type=click.IntRange(min=1), help="Default: nightly.keep_runs, or no limit.")
@click.option("--quiet", "-q", is_flag=True, help="One line.")
@click.option("--plain", is_flag=True, help="ASCII, no colour.")
@debug
def nightly(
    targets: tuple[str, ...], sources: tuple[str, ...], inventory: str | None, chosen: Inputs, how: Reading,
    said: Path | None, folder: Path | None, fail_on: str | None, keep_days: int | None, keep_runs: int | None,
    quiet: bool, plain: bool,
) -> int:  # fmt: skip
    """Read nodes, judge them, compare with the accepted evidence, write reports, keep all of it, and run the site's
    command when the verdict is not that of the run before.

    Settings come from `nightly:` of the site. Reports are in DIR/reports: verdict.json, verdict.xml (JUnit),
    verdict.html, rackproof.prom, drift.json and drift.md, each replaced whole.

    Exit code: as of `rackproof drift`. A run that could not look is never 0; a command that fails makes 0 a 3.
    """
    from rackproof.drift.classes import fact_classes
    from rackproof.drift.history import History
    from rackproof.drift.store import retain
    from rackproof.verdict.report import drift as report
    from rackproof.verdict.report.page import options_for

    settings = _settings(_site(said, targets, inventory, chosen), folder, fail_on, keep_days, keep_runs)
    counted = fact_classes(settings.fail_on)
    with _alone(settings.store):
        plan, evidence = gathered(targets, sources, inventory, chosen, how, quiet=True)
        with History(settings.store) as history:
            before = history.last_verdict()
            result = compared(history, plan, evidence, counted)
            reports = _reports(result, settings.store / "reports", evidence.get)
            recorded(history, result, evidence)
            retain(history, settings.keep_runs, settings.keep_days)
        output.say(report.render(result, options_for(sys.stdout, quiet=quiet, plain=plain)))
        return _told(settings, before, result, reports)


def _site(settings: Path | None, targets: tuple[str, ...], inventory: str | None, chosen: Inputs) -> Site:
    """The site that says how the run is made: known before any node is read, so that two runs never read at once."""
    from rackproof import site as sites
    from rackproof.inventory import load_targets

    if settings is not None:
        return sites.from_file(settings)
    files = [target for target in (*targets, inventory or "") if target.endswith(".py")]
    if files:
        return load_targets(files).nodes[0].site
    return sites.from_file(chosen.site) if chosen.site else sites.shipped()


def _settings(
    site: Site, store: Path | None, fail_on: str | None, keep_days: int | None, keep_runs: int | None
) -> Settings:
    return Settings(
        store=store or Path(site.require("nightly", "store").value),
        fail_on=fail_on or site.require("nightly", "fail_on").value,
        keep_days=keep_days or site.value("nightly", "keep_days"),
        keep_runs=keep_runs or site.value("nightly", "keep_runs"),
        on_change=tuple(site.value("nightly", "on_change", default=())),
        on_change_timeout_s=site.require("nightly", "on_change_timeout_s").value,
    )


@contextmanager
def _alone(store: Path) -> Iterator[None]:
    """One nightly run at a time in a store. The lock goes with the process, however it ends."""
    path = store / "nightly.lock"
    try:
        store.mkdir(parents=True, exist_ok=True, mode=0o750)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise RackproofError(f"{path}: cannot be written: {error.strerror}; --store names another folder") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RackproofError(f"{path}: another nightly run holds it; wait for it, or end it") from None
        yield
    finally:
        os.close(handle)


def _reports(result: DriftResult, folder: Path, look: Look) -> Path:
    """Write every report there is a renderer for."""
    from rackproof.drift import document
    from rackproof.verdict.report import drift, html, json_report, junit, prometheus

    folder.mkdir(parents=True, exist_ok=True)
    output.write(str(folder / "verdict.json"), json_report.render(result.result))
    output.write(str(folder / "verdict.xml"), junit.render(result.result))
    output.write(str(folder / "verdict.html"), html.render(result.result, look))
    output.write(str(folder / "rackproof.prom"), prometheus.render(result.result, look))
    output.write(str(folder / "drift.json"), document.render(result))
    output.write(str(folder / "drift.md"), drift.markdown(result))
    return folder


def _told(settings: Settings, before: Run | None, result: DriftResult, reports: Path) -> int:
    """Run the site's command where the verdict or the exit code is another than last time; the first run counts."""
    code, verdict = result.exit_code, result.result.verdict.value
    if not settings.on_change or (before is not None and (before.verdict, before.exit_code) == (verdict, code)):
        return code
    from rackproof.verdict.report import drift

    said = {
        "RACKPROOF_VERDICT": verdict,
        "RACKPROOF_VERDICT_BEFORE": before.verdict if before else "",
        "RACKPROOF_EXIT_CODE": str(code),
        "RACKPROOF_SUMMARY": drift.markdown(result).strip(),
        "RACKPROOF_REPORTS": str(reports),
    }
    problem = _run(settings.on_change, settings.on_change_timeout_s, said)
    if problem is None:
        return code
    output.say(f"rackproof: the command for a changed verdict, {settings.on_change[0]}, {problem}\n", sys.stderr)
    return HOOK_FAILED if code == Verdict.ACCEPT.exit_code else code


def _run(command: tuple[str, ...], timeout_s: int, said: Mapping[str, str]) -> str | None:
    """Run it without a shell, its output to stderr; None, or what went wrong."""
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **said},
            stdin=subprocess.DEVNULL,
            stdout=_STDERR,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"did not end within {timeout_s} s and was killed"
    except OSError as error:
        return f"could not be started: {error.strerror}"
    return None if done.returncode == 0 else f"ended with exit code {done.returncode}"
