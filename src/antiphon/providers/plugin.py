"""Provider plugins: entry points of the group `antiphon.providers` in other packages.

The name of an entry point is the provider's, its object a `Spec`. A plugin that cannot be used is
reported by name and skipped; all other providers keep working.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points

from msgspec import Struct

from antiphon.providers.dialect_plugins import make_dialect
from antiphon.providers.spec import Spec

GROUP = "antiphon.providers"


class Plugins(Struct, frozen=True):
    """Usable providers by name, and the problems of unusable ones by name."""

    specs: Mapping[str, Spec] = {}
    problems: Mapping[str, str] = {}


def load_plugins(builtin: Iterable[str], found: Iterable[EntryPoint] | None = None) -> Plugins:
    """Load all installed plugins, in the order of their names."""
    entries = entry_points(group=GROUP) if found is None else found
    used_names = set(builtin)
    specs: dict[str, Spec] = {}
    problems: dict[str, str] = {}
    for entry in sorted(entries, key=lambda entry: (entry.name, entry.value)):
        try:
            specs[entry.name] = _load_spec(entry, used_names)
            used_names.add(entry.name)
        except Exception as error:  # third-party code may raise anything; skip this plugin only
            problems[entry.name] = _describe_problem(entry, error)
    return Plugins(specs, problems)


def _load_spec(entry: EntryPoint, used_names: set[str]) -> Spec:
    if entry.name in used_names:  # replacing a provider would send its keys elsewhere
        raise ValueError(f"the name {entry.name!r} is already in use; rename the entry point")
    spec = entry.load()
    if not isinstance(spec, Spec):
        raise TypeError(f"the entry point must be a Spec, not a {type(spec).__name__}")
    if spec.name != entry.name:
        raise ValueError(f"the Spec is named {spec.name!r}; it must be named as its entry point")
    if "/" in spec.name:
        raise ValueError("the name must not contain a slash")
    make_dialect(spec)
    return spec


def _describe_problem(entry: EntryPoint, error: Exception) -> str:
    origin = f" from package {entry.dist.name}" if entry.dist is not None else ""
    reason = f"{type(error).__name__}: {error}"
    return f"provider plugin {entry.name!r}{origin} ({entry.value}) cannot be loaded: {reason}"
