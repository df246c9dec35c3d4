"""`recipe`: the recipe's data, what an upstream file changes for hosts, and whether our own data holds together."""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rackproof.commands import output
from rackproof.commands.options import PATH, debug

if TYPE_CHECKING:
    from rackproof.recipes import Recipe
    from rackproof.recipes.upstream import Change, Snapshot, Upstream

SECTIONS = ("provenance", "model", "host", "images", "layouts", "settings", "rules", "limits", "conflicts")


@click.group(short_help="The recipe's data, and what upstream has changed.")
def recipe() -> None:
    """The recipe: show its data, compare an upstream file with it, check that it holds together."""


@recipe.command(short_help="Data, provenance and conflicts.")
@click.argument("sections", metavar="[SECTION]...", nargs=-1, type=click.Choice(SECTIONS))
@click.option("--json", "json_", metavar="FILE", help="As JSON; '-': standard output.")
@debug
def show(sections: tuple[str, ...], json_: str | None) -> int:
    """Print what the recipe holds, each value with its source; the conflicts say which of two sources we follow.

    Sections: provenance, model, host, images, layouts, settings, rules, limits, conflicts. Default: all.
    """
    from rackproof import recipes
    from rackproof.recipes import describe, settings, upstream
    from rackproof.verdict.report.clean import clean_lines

    parts = recipes.load(), settings.load(), upstream.pinned()
    if json_ is not None:
        data = describe.as_data(*parts)
        chosen = {key: value for key, value in data.items() if not sections or key in (*sections, "schema", "id")}
        output.write(json_, json.dumps(chosen, indent=1, ensure_ascii=True) + "\n")
    if json_ != "-":
        output.say(clean_lines(describe.as_text(*parts, sections or SECTIONS), 1_000_000) + "\n")
    return 0


@recipe.command(short_help="What an upstream recipe file changes for hosts.")
@click.argument("source", metavar="FILE_OR_DIR", type=PATH)
@click.option("--json", "json_", metavar="FILE", help="As JSON; '-': standard output.")
@debug
def diff(source: Path, json_: str | None) -> int:
    """Compare an upstream recipe file, or a checkout of vllm-project/recipes, with the snapshot that is pinned here.

    Exit code: 0 nothing that is pinned changed, 1 something did, 3 the file cannot be read. Nothing is updated.
    """
    from rackproof import recipes
    from rackproof.recipes import upstream
    from rackproof.verdict.report.clean import clean_lines

    ours, theirs = upstream.pinned(), upstream.read(source)
    changes = upstream.compare(ours, theirs)
    changed = any(upstream.counts(change) for change in changes)
    if json_ is not None:
        output.write(json_, _json(ours, theirs, changes, changed))
    text = clean_lines(_text(ours, theirs, changes, recipes.load()), 1_000_000)
    output.say(text + "\n", sys.stderr if json_ == "-" else sys.stdout)
    return 1 if changed else 0


@recipe.command(short_help="Whether our own data holds together.")
@debug
def lint() -> int:
    """Check the recipe's data against itself: layouts that fit, sources that resolve. Exit code: 0 clean, 1 findings."""
    from rackproof.recipes.lint import lint as findings

    found = findings()
    for line in found:
        output.say(f"{line}\n")
    output.say(f"{len(found)} finding{'' if len(found) == 1 else 's'}\n" if found else "the recipe holds together\n")
    return 1 if found else 0


def _text(ours: Snapshot, theirs: Upstream, changes: list[Change], recipe_: Recipe) -> str:
    from rackproof.recipes.upstream import counts

    pinned = ours.provenance
    lines = [f"pinned: {pinned['upstream_repo']}@{pinned['upstream_commit'][:7]} ({pinned['taken_on']})"]
    lines.append(f"read:   {theirs.file}" + (", the very file" if theirs.sha256 == pinned["upstream_sha256"] else ""))
    if not theirs.whole:
        lines.append("strategies and hardware profiles were not compared: give a checkout of the repository for that")
    for kind, group in groupby(changes, key=lambda change: change.kind):
        lines += ["", kind.upper() if kind != "unknown" else "UNKNOWN KEYS (nobody has said what they mean for hosts)"]
        lines += [line for change in group for line in _lines(change, recipe_)]
    number = sum(counts(change) for change in changes)
    words = f"{number} value{'' if number == 1 else 's'} that we pin changed" if number else "nothing that we pin changed"
    return "\n".join([*lines, "", words])


def _lines(change: Change, recipe_: Recipe) -> list[str]:
    if change.kind == "prose":
        return ["  the words of the guide changed: read them, they may say what no field does"]
    ours, theirs = (_shown(value) for value in (change.ours, change.theirs))
    lines = [f"  {change.path}: {ours} -> {theirs}"]
    product = change.path.rpartition(".")[2]
    layouts = [name for name, layout in recipe_.layouts.items() if layout.hardware == product]
    if change.kind == "hardware" and layouts:
        lines.append(f"    our layouts of it: {', '.join(layouts)}")
    return lines


def _shown(value: str | None) -> str:
    if value is None:
        return "(absent)"
    return value if value else "(set)"


def _json(ours: Snapshot, theirs: Upstream, changes: list[Change], changed: bool) -> str:
    data = {
        "schema": 1,
        "changed": changed,
        "pinned": dict(ours.provenance),
        "read": {"file": str(theirs.file), "sha256": theirs.sha256, "whole": theirs.whole},
        "changes": [{"kind": c.kind, "path": c.path, "ours": c.ours, "theirs": c.theirs} for c in changes],
    }
    return json.dumps(data, indent=1, ensure_ascii=True) + "\n"
