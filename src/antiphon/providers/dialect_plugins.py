"""Dialect plugins: entry points of the group `antiphon.dialects` in other packages.

The name of an entry point is the dialect's, its object a `Dialect` or a class of one. A class may
take `quirks` and `implied_finish`, the fields of a provider's `Spec`. A plugin that cannot be used
is reported by name and skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

from antiphon.dialects.dialect import DIALECTS, Dialect, build
from antiphon.errors import UnknownDialect
from antiphon.providers.spec import Spec

GROUP = "antiphon.dialects"
_METHODS = [name for name in vars(Dialect) if not name.startswith("_")]

_log = logging.getLogger("antiphon.providers")


class DialectPlugin(NamedTuple):
    """An installed dialect, and the class that makes it for a provider with quirks."""

    plain: Dialect
    kind: Callable[..., Dialect] | None
    """None: the entry point is an object, which cannot take any quirks."""

    def build(self, spec: Spec) -> Dialect:
        """Make the dialect for a provider; raises `TypeError` if it does not take its quirks."""
        options = {"quirks": spec.quirks, "implied_finish": spec.implied_finish}
        given = {name: value for name, value in options.items() if value is not None}
        if not given:
            return self.plain
        if self.kind is None:
            raise TypeError(
                f"the dialect {spec.dialect!r} cannot take {' and '.join(given)}: its entry point"
                " must be a class"
            )
        return self.kind(**given)


def make_dialect(spec: Spec) -> Dialect:
    """Return the dialect of a provider, with its quirks: of another package, or a built-in one."""
    plugin = installed_dialects().get(spec.dialect)
    if plugin is not None:
        return plugin.build(spec)
    return build(spec.dialect, quirks=spec.quirks, implied_finish=spec.implied_finish)


def find_dialect(name: str) -> Dialect:
    """Return a dialect by its name, without quirks; raises `UnknownDialect`."""
    plugin = installed_dialects().get(name)
    if plugin is not None:
        return plugin.plain
    if name not in DIALECTS:
        raise UnknownDialect(f"Unknown dialect {name!r}; use one of: {', '.join(dialect_names())}.")
    return DIALECTS[name]


def dialect_names() -> list[str]:
    """Return the names of all dialects, built-in and installed."""
    return sorted([*DIALECTS, *installed_dialects()])


@cache
def installed_dialects() -> Mapping[str, DialectPlugin]:
    """Load all installed dialects once, and log each problem once."""
    return load_dialects(entry_points(group=GROUP))


def load_dialects(entries: Iterable[EntryPoint]) -> Mapping[str, DialectPlugin]:
    """Load dialects by name, in the order of their names; log those that cannot be used."""
    found: dict[str, DialectPlugin] = {}
    for entry in sorted(entries, key=lambda entry: (entry.name, entry.value)):
        try:
            found[entry.name] = _load_dialect(entry, found)
        except Exception as error:  # third-party code may raise anything; skip this plugin only
            problem = f"{type(error).__name__}: {error}"
            name = entry.name
            value = entry.value
            _log.warning("dialect plugin %r (%s) cannot be loaded: %s", name, value, problem)
    return found


def _load_dialect(entry: EntryPoint, found: Container[str]) -> DialectPlugin:
    if entry.name in DIALECTS or entry.name in found:
        raise ValueError(f"the name {entry.name!r} is already in use; rename the entry point")
    loaded = entry.load()
    dialect: Dialect = loaded() if isinstance(loaded, type) else loaded
    missing = [name for name in _METHODS if not callable(getattr(dialect, name, None))]
    if missing:
        raise TypeError(f"the object is no Dialect: it has no method {missing[0]}()")
    return DialectPlugin(dialect, loaded if isinstance(loaded, type) else None)
