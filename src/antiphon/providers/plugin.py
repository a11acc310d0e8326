"""Providers that other packages bring along: entry points of the group `antiphon.providers`.

An entry point's name is the provider's, its object a `Spec`. One that cannot be used is reported
by name and left out; it never keeps another one, or a built-in provider, from working.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points

from msgspec import Struct

from antiphon.dialects.dialect import build
from antiphon.providers.spec import Spec

GROUP = "antiphon.providers"


class Plugins(Struct, frozen=True):
    """What was found: providers, and what is wrong with those that are none."""

    specs: Mapping[str, Spec] = {}
    problems: Mapping[str, str] = {}


def load_plugins(builtin: Iterable[str], found: Iterable[EntryPoint] | None = None) -> Plugins:
    """Everything that is installed, in the order of the names."""
    entries = entry_points(group=GROUP) if found is None else found
    taken = set(builtin)
    specs: dict[str, Spec] = {}
    problems: dict[str, str] = {}
    for entry in sorted(entries, key=lambda entry: (entry.name, entry.value)):
        try:
            specs[entry.name] = _spec(entry, taken)
            taken.add(entry.name)
        except Exception as error:  # other people's code: whatever it does, the rest goes on
            problems[entry.name] = _problem(entry, error)
    return Plugins(specs, problems)


def _spec(entry: EntryPoint, taken: set[str]) -> Spec:
    if entry.name in taken:  # to replace one would be to send its keys elsewhere
        raise ValueError(f"there is a provider {entry.name!r} already")
    spec = entry.load()
    if not isinstance(spec, Spec):
        raise TypeError(f"it is a {type(spec).__name__}, not a Spec")
    if spec.name != entry.name or "/" in spec.name:
        raise ValueError(f"it calls itself {spec.name!r}")
    build(spec.dialect, quirks=spec.quirks, implied_finish=spec.implied_finish)
    return spec


def _problem(entry: EntryPoint, error: Exception) -> str:
    origin = f" of {entry.dist.name}" if entry.dist is not None else ""
    reason = f"{type(error).__name__}: {error}"
    return f"the provider {entry.name!r}{origin} ({entry.value}) cannot be used: {reason}"
