"""Dialect plugins: entry points of the group `antiphon.dialects` in other packages.

The name of an entry point is the dialect's, its object a `Dialect` or a class of one. A plugin that
cannot be used is reported by name and skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from antiphon.dialects.dialect import DIALECTS, Dialect, build
from antiphon.providers.spec import Spec

GROUP = "antiphon.dialects"
_METHODS = [name for name in vars(Dialect) if not name.startswith("_")]

_log = logging.getLogger("antiphon.providers")


def make_dialect(spec: Spec) -> Dialect:
    """Return the dialect of a provider: a plugin, or a built-in one with the provider's quirks."""
    plugin = installed_dialects().get(spec.dialect)
    if plugin is not None:
        return plugin
    return build(spec.dialect, quirks=spec.quirks, implied_finish=spec.implied_finish)


@cache
def installed_dialects() -> Mapping[str, Dialect]:
    """Load all installed dialects once, and log each problem once."""
    return load_dialects(entry_points(group=GROUP))


def load_dialects(entries: Iterable[EntryPoint]) -> Mapping[str, Dialect]:
    """Load dialects by name, in the order of their names; log those that cannot be used."""
    found: dict[str, Dialect] = {}
    for entry in sorted(entries, key=lambda entry: (entry.name, entry.value)):
        try:
            found[entry.name] = _load_dialect(entry, found)
        except Exception as error:  # third-party code may raise anything; skip this plugin only
            problem = f"{type(error).__name__}: {error}"
            name, value = entry.name, entry.value
            _log.warning("dialect plugin %r (%s) cannot be loaded: %s", name, value, problem)
    return found


def _load_dialect(entry: EntryPoint, found: Mapping[str, Dialect]) -> Dialect:
    if entry.name in DIALECTS or entry.name in found:
        raise ValueError(f"the name {entry.name!r} is already in use; rename the entry point")
    loaded = entry.load()
    dialect: Dialect = loaded() if isinstance(loaded, type) else loaded
    missing = [name for name in _METHODS if not callable(getattr(dialect, name, None))]
    if missing:
        raise TypeError(f"the object is no Dialect: it has no method {missing[0]}()")
    return dialect
