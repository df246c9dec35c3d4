"""What a baseline is resolved from: site, hardware, recipe, layout and rules, with a note of where each value stood."""

from __future__ import annotations

from typing import Any

from packaging.version import InvalidVersion, Version

from rackproof import hardware as hardware_profiles
from rackproof import recipes, rules
from rackproof.errors import InputError
from rackproof.recipes import Layout, settings
from rackproof.site import Site
from rackproof.sourced import Cell

MIB = 1024 * 1024


def unsupported(recipe: recipes.Recipe, hardware: hardware_profiles.Hardware) -> str | None:
    """Why no node of this product can be brought to a baseline, or None."""
    layouts = [layout for layout in recipe.layouts.values() if layout.hardware == hardware.id]
    if any(layout.tier != "rejected" for layout in layouts):
        return None
    reasons = "; ".join(dict.fromkeys(layout.why for layout in layouts))
    return f"{hardware.title}: recipe {recipe.id} has no layout for it that works" + (f" ({reasons})" if reasons else "")


def layout_wanted(recipe: recipes.Recipe, hardware: hardware_profiles.Hardware) -> str | None:
    """Why a layout has to be named for this product, or None: no official one stands for it."""
    tiers = {layout.id: layout.tier for layout in recipe.layouts.values() if layout.hardware == hardware.id}
    if "official" in tiers.values():
        return None
    known = ", ".join(f"{name} ({tier})" for name, tier in tiers.items() if tier != "rejected")
    return (
        f"{hardware.title}: recipe {recipe.id} has no official layout for it; name one of {known}, which a site must "
        "allow (allow_derived) where it is derived"
    )


def default_layout(recipe: recipes.Recipe, hardware_id: str) -> Layout:
    """The first official layout of a product, for a node nobody chose a layout for."""
    for layout in recipe.layouts.values():
        if layout.hardware == hardware_id and layout.tier == "official":
            return layout
    raise InputError("--layout", f"recipe {recipe.id} has no official layout for {hardware_id}", sorted(recipe.layouts))


class Resolving:
    """Takes values from their cells and notes, for each, under which key it went and where it stood."""

    def __init__(self, site: Site, hardware_id: str | None, layout_id: str | None) -> None:
        self.site = site
        self.notes: dict[str, str] = {}
        recipe_cell = site.require("recipe")
        self.recipe = recipes.load(recipe_cell.value, recipe_cell.source)
        self.hardware = self._hardware(hardware_id)
        refused = unsupported(self.recipe, self.hardware)
        if refused:
            raise InputError(self.notes["hardware"], f"{refused}; `rackproof eligible` says what it can run")
        self.layout = self._layout(layout_id)

    def take(self, key: str, cell: Cell[Any]) -> Any:
        """The value of a cell; its source is noted under a dotted path of the baseline."""
        self.notes[key] = cell.source
        return cell.value

    def choose(self, key: str, *site_key: str, default: Any = None) -> Any:
        """What the site says, noted under a dotted path; `default` where it says nothing."""
        cell = self.site.get(*site_key)
        return self.take(key, cell or Cell(default, f"the site says nothing of {'.'.join(site_key)}"))

    def rule(self, key: str, topic: str, name: str) -> Any:
        """A value of rules/<topic>.yaml, noted under a dotted path of the baseline."""
        return self.take(key, rules.load(topic)[name])

    def settings(self) -> settings.Settings:
        return settings.load(self.recipe.id)

    def _hardware(self, asked: str | None) -> hardware_profiles.Hardware:
        cell = Cell(asked, "--hardware") if asked else self.site.require("hardware")
        return hardware_profiles.load(self.take("hardware", cell), cell.source)

    def _layout(self, asked: str | None) -> Layout:
        cell = Cell(asked, "--layout") if asked else self.site.get("layout")
        if cell is None:
            cell = Cell(default_layout(self.recipe, self.hardware.id).id, "first official layout of the hardware")
        layout = self.recipe.layout(self.take("layout", cell), cell.source)
        if layout.hardware != self.hardware.id:
            fitting = sorted(name for name, other in self.recipe.layouts.items() if other.hardware == self.hardware.id)
            raise InputError(
                cell.source, f"layout {layout.id} is for {layout.hardware}, not {self.hardware.id}", fitting
            )
        if not self.site.value("allow_derived", default=False):
            self.recipe.refuse_derived(layout, cell.source)
        return layout


def version(cell: Cell[str]) -> Version:
    """A version out of a cell; raises InputError where it is none."""
    try:
        return Version(cell.value)
    except InvalidVersion:
        raise InputError(cell.source, f"{cell.value!r} is not a version", "digits and dots: 580.126.20") from None
