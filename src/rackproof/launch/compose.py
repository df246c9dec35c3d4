"""Settings in their order, the later one wins: recipe, layout, site. Each value keeps who says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackproof.errors import InputError
from rackproof.launch.model import Value
from rackproof.recipes.settings import Setting, Settings
from rackproof.site import Site

Facts = Mapping[str, Any]


def matches(scope: Mapping[str, tuple[Any, ...]], facts: Facts) -> bool:
    """Whether each key of a scope holds. A fact that is a set (features) matches when it holds any of the values."""
    for key, wanted in scope.items():
        fact = facts[key]
        if isinstance(fact, frozenset):
            if fact.isdisjoint(wanted):
                return False
        elif fact not in wanted:
            return False
    return True


class Composer:
    """Collects the arguments and the environment of one process.

    `known` holds what a reference may name: values that only the site or the node knows.
    """

    def __init__(self, settings: Settings, facts: Facts, known: Mapping[str, Value]) -> None:
        self.settings, self.facts, self.known = settings, facts, known
        self.args: dict[str, Value] = {}
        self.env: dict[str, Value] = {}

    def apply_recipe(self) -> None:
        for setting in self.settings.settings:
            if matches(setting.scope, self.facts):
                self._apply(setting)

    def _apply(self, setting: Setting) -> None:
        for name in setting.remove:
            self.args.pop(name, None)
        for name, raw in setting.args.items():
            self.set_arg(name, self._value(raw, setting))
        for name, raw in setting.env.items():
            self.env[name] = self._value(raw, setting)

    def _value(self, raw: Any, setting: Setting) -> Value:
        if isinstance(raw, Mapping):
            known = self.known[raw["from"]]
            text = raw.get("prefix", "") + (known.text or "")
            return Value(text, known.source, known.origin, setting.note, setting.differs, setting.source)
        return Value(None if raw is True else raw, setting.source, "recipe", setting.note, setting.differs)

    def set_arg(self, name: str, value: Value) -> None:
        """Set an argument in the place where it stands already; `--no-x` and `--x` displace each other."""
        self.args.pop(opposite(name), None)
        self.args[name] = value

    def apply_site(self, site: Site) -> None:
        """What the site adds or leaves out, but for what the layout and the node decide."""
        self._refuse_owned(site, "args", self.settings.owned_args.value)
        self._refuse_owned(site, "env", self.settings.owned_env.value)
        for name, cell in site.under("serving", "args").items():
            if cell.value is False:
                self.args.pop(name, None)
            else:
                self.set_arg(name, Value(None if cell.value is True else cell.value, cell.source, "site"))
        for name, cell in site.under("serving", "env").items():
            self.env[name] = Value(cell.value, cell.source, "site")

    def _refuse_owned(self, site: Site, kind: str, owned: tuple[str, ...]) -> None:
        for name, cell in site.under("serving", kind).items():
            if name in owned or (kind == "args" and opposite(name) in owned):
                raise InputError(
                    cell.source, f"serving.{kind}.{name} is decided by the layout and the node, not by a site",
                    f"any but {', '.join(owned)}",
                )  # fmt: skip

    def facts_with_values(self) -> dict[str, Any]:
        """The facts with `arg.NAME` and `env.NAME` beside them, for the rules. A bare flag is the empty text."""
        on, off = "enable-prefix-caching" in self.args, "no-enable-prefix-caching" in self.args
        return {
            **self.facts,
            **{f"arg.{name}": value.text or "" for name, value in self.args.items()},
            **{f"env.{name}": value.text for name, value in self.env.items()},
            "prefix_caching": "on" if on else "off" if off else "left to a default",
        }

    def places(self) -> dict[str, str]:
        """Where each value stands that the site gave, by its name in the rules."""
        args = {f"arg.{name}": value.source for name, value in self.args.items() if value.origin == "site"}
        return args | {f"env.{name}": value.source for name, value in self.env.items() if value.origin == "site"}


def opposite(flag: str) -> str:
    """`no-x` of `x`, and the other way round."""
    return flag[3:] if flag.startswith("no-") else f"no-{flag}"
