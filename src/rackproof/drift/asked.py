"""Whether a change is one that the baseline asks for: only what it asks explains a change, never what it leaves open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from rackproof.baseline import Baseline
from rackproof.drift.place import ABSENT
from rackproof.managed import File, managed_files
from rackproof.package_names import plain


def explained(asked: str, name: str, after: object, baseline: Baseline | None) -> bool:
    """`asked`: the word of a rule; `name`: the key of the value where it stands in a mapping; `after`: what it is now."""
    if not asked or baseline is None:
        return False
    if asked in _WORDS:
        return _WORDS[asked](name, after, baseline)
    wanted: object = baseline
    for part in asked.split("."):
        wanted = getattr(wanted, part)
    if wanted is None:
        return False
    if isinstance(wanted, tuple):
        return after == wanted or after in wanted
    return after == wanted or after == (wanted,)  # a list of one: versions in the libraries of a CDI file


def _managed_file(name: str, after: object, baseline: Baseline) -> bool:
    return any(after in (file.sha256, file.content) for file in _files(baseline) if file.path == name)


@cache
def _files(baseline: Baseline) -> tuple[File, ...]:
    return managed_files(baseline)


def _package(name: str, after: object, baseline: Baseline) -> bool:
    """The version the site pins, as a package spells it: 580.126.20-1ubuntu1."""
    if baseline.packages is None:
        return False
    names, runtime = baseline.packages.names, baseline.runtime
    if names.code:  # AMD's: each package of the driver ends in the code of the release
        of_driver = name in names.held and plain(str(after)).endswith(f".{names.code}")
        return of_driver or (name in names.toolkit and plain(str(after)) == runtime.amd_toolkit)
    toolkit = name in names.toolkit
    wanted = runtime.toolkit_version if toolkit else baseline.driver.version
    upstream = str(after).rpartition(":")[2].partition("-")[0]
    return wanted is not None and upstream == wanted and (toolkit or "nvidia" in name)


def _parameter(name: str, after: object, baseline: Baseline) -> bool:
    return (name, after) in baseline.driver.parameters


def _image(name: str, after: object, baseline: Baseline) -> bool:
    """A digest of the pinned image. Ids are explained by nothing: they change with what a tag points to."""
    wanted = [digest for digest in (baseline.image.index, baseline.image.platform) if digest]
    listed = after if isinstance(after, tuple) else (after,)
    return bool(listed) and all(any(str(one).endswith(digest) for digest in wanted) for one in listed)


def _unit(name: str, after: object, baseline: Baseline) -> bool:
    """A daemon the baseline wants is there and on, or one it forbids is off or gone."""
    if name in baseline.nvlink.daemons_required:
        return after in ("loaded", "enabled")
    return name in baseline.nvlink.daemons_forbidden and after in ("not-found", "disabled", "masked", "", ABSENT)


_WORDS: Mapping[str, Callable[[str, object, Baseline], bool]] = {
    "managed_file": _managed_file,
    "package": _package,
    "parameter": _parameter,
    "image": _image,
    "unit_of_baseline": _unit,
}
