"""`image`: what a registry holds under a name, and whether it still holds what is pinned. Nothing is pulled."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rackproof import __version__
from rackproof.commands import output
from rackproof.commands.options import PATH, debug
from rackproof.errors import InputError

if TYPE_CHECKING:
    from rackproof.recipes import Recipe
    from rackproof.registry import Reference, Resolved
    from rackproof.registry.client import Registry
    from rackproof.registry.pinned import Finding, Pin
    from rackproof.site import Site


@click.group(short_help="What a registry holds, and whether a pin is still there.")
def image() -> None:
    """Ask a registry about an image, without pulling it.

    Credentials come from docker's config.json and credential helpers, or from RACKPROOF_REGISTRY_HOST, _USER and
    _PASSWORD in the environment.
    """


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    """--site, --ca-file, --plain-http and --json; the first three as one argument `at`."""

    @wraps(function)
    def call(*args: Any, site: Path | None, ca_file: Path | None, plain_http: bool, **rest: Any) -> Any:
        from rackproof import site as sites

        chosen = sites.from_file(site) if site else sites.shipped()
        return function(*args, at=_Access(chosen, ca_file, plain_http), **rest)

    options = (
        click.option("--site", metavar="FILE", type=PATH, help="Site values (YAML) on top of the shipped defaults."),
        click.option("--ca-file", metavar="FILE", type=PATH, help="PEM certificates of the registry's CA."),
        click.option("--plain-http", is_flag=True, help="Speak to the registry without TLS."),
        click.option("--json", "json_", metavar="FILE", help="As JSON; '-': standard output."),
    )
    wrapped: Callable[..., Any] = call
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


class _Access:
    """The site, and how its registry is reached: options win over the site."""

    def __init__(self, site: Site, ca_file: Path | None, plain_http: bool) -> None:
        self.site, self.ca_file, self.plain_http = site, ca_file, plain_http

    def registry(self, reference: Reference) -> Registry:
        from rackproof.registry.access import registry_for

        return registry_for(reference, self.site, self.ca_file, self.plain_http)


@image.command("resolve", short_help="Tag to digests: what to pin.")
@click.argument("name", metavar="REF")
@_options
@click.option("--manifests", metavar="DIR", type=PATH, help="Keep index and manifests there, for an air-gapped import.")
@debug
def resolve_(name: str, at: _Access, json_: str | None, manifests: Path | None) -> int:
    """Print what to pin for REF: digests of the index and of each platform, CUDA and vLLM version where stated.

    Exit code: 0, or 3 where the registry gave no usable answer.
    """
    from rackproof.registry import reference, resolve
    from rackproof.registry.show import as_data, as_text
    from rackproof.verdict.report.clean import clean_lines

    asked = reference.parse(name)
    found = resolve(asked, at.registry(asked))
    recipe = _recipe(at.site)
    if manifests is not None:
        _keep(found, manifests)
    if json_ is not None:
        output.write(json_, json.dumps(as_data(found, recipe), indent=1) + "\n")
    if json_ != "-":
        output.say(clean_lines(as_text(found, recipe), 100_000) + "\n")
    return 0


@image.command(short_help="Is the pinned image still there?")
@click.argument("name", metavar="[REF]", required=False)
@click.option("--hardware", metavar="ID", help="What the hosts are, as an id of hardware/. Default: as the site says.")
@_options
@debug
def check(name: str | None, hardware: str | None, at: _Access, json_: str | None) -> int:
    """Is the pinned digest there, with the host's platform? Has the tag moved (a warning, never a new pin)?

    REF names a digest. Default: the image that the baseline of --site and --hardware pins, where the site has it.

    Exit code: 0 all there, 1 something is not, 2 the registry could not be read, 3 wrong input, 4 self-built.
    """
    from rackproof.recipes import settings
    from rackproof.registry import pinned

    pin = _given(name, hardware, at.site) if name else _pinned(hardware, at.site)
    label = settings.load().selfbuild["label"].value
    findings = pinned.check(pin, at.registry(pin.reference), label)
    code = pinned.exit_code(findings)
    _report(pin, findings, code, json_)
    return code


def _report(pin: Pin, findings: list[Finding], code: int, json_: str | None) -> None:
    from rackproof.verdict.report.clean import clean, clean_lines

    if json_ is not None:
        rows = [{"name": item.name, "status": item.found.value, "text": clean(item.text)} for item in findings]
        document = {
            "schema": 1, "tool": {"name": "rackproof", "version": __version__}, "reference": str(pin.reference),
            "exit_code": code, "findings": rows,
        }  # fmt: skip
        output.write(json_, json.dumps(document, indent=1) + "\n")
    if json_ != "-":
        lines = [f"{item.found.value:<12}{item.name}: {item.text}" for item in findings]
        output.say(clean_lines("\n".join([str(pin.reference), *lines]), 100_000) + "\n")


def _given(name: str, hardware: str | None, site: Site) -> Pin:
    from rackproof.baseline_core import OCI_ARCHITECTURE
    from rackproof.hardware import load
    from rackproof.registry import reference
    from rackproof.registry.pinned import Pin

    asked = reference.parse(name)
    if asked.digest is None:
        raise InputError("REF", f"{name!r} names no digest, so nothing is pinned", f"{asked.name}@sha256:...")
    product = hardware or site.value("hardware")
    architecture = OCI_ARCHITECTURE[load(product, "--hardware").cpu_architecture.value] if product else None
    known = next((one for one in _recipe(site).images.values() if one.index == asked.digest), None)
    platform = getattr(known, architecture) if known and architecture else None
    return Pin(asked, architecture, platform, known.cuda if known else None)


def _pinned(hardware: str | None, site: Site) -> Pin:
    from rackproof.baseline import resolve
    from rackproof.registry import reference
    from rackproof.registry.pinned import Pin

    wanted = resolve(site, hardware_id=hardware).image
    asked = reference.parse(f"{wanted.repository}:{wanted.tag}@{wanted.index}", "image.repository")
    return Pin(asked, wanted.architecture, wanted.platform, wanted.cuda_major)


def _recipe(site: Site) -> Recipe:
    from rackproof import recipes

    cell = site.require("recipe")
    return recipes.load(cell.value, cell.source)


def _keep(found: Resolved, folder: Path) -> None:
    """Index and manifests byte for byte, each under the digest that it has."""
    documents = [found.index, *(platform.manifest for platform in found.platforms.values())]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for document in filter(None, documents):
            output.write(str(folder / document.digest.removeprefix("sha256:")), document.raw.decode("utf-8"))
    except OSError as error:
        raise InputError(str(folder), f"cannot be written: {error.strerror}", "a folder that can be written") from None
