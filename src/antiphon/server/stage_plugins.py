"""Stage plugins: entry points of the group `antiphon.stages` in other packages.

The object of an entry point makes a `Stage` for each answer: a class without arguments, or any
callable. A stage runs only where `[pipeline] stages` names it, in the order of that list.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

from antiphon.config import Config, suggest
from antiphon.pipeline.stage import Stage, StageFactory

GROUP = "antiphon.stages"


def load_stages(config: Config, found: Iterable[EntryPoint] | None = None) -> list[StageFactory]:
    """Load the stages that the configuration names; one that cannot be used is a `ConfigError`."""
    names = config.pipeline.stages
    if not names:
        return []
    installed = entry_points(group=GROUP) if found is None else found
    entries = {entry.name: entry for entry in installed}
    return [_load_stage(name, entries, config) for name in names]


def _load_stage(name: str, entries: dict[str, EntryPoint], config: Config) -> StageFactory:
    path = ("pipeline", "stages")
    if name not in entries:
        advice = suggest(name, entries) if entries else "no package with a stage is installed"
        raise config.error_at(path, f"there is no stage {name!r}; {advice}")
    try:
        factory: StageFactory = entries[name].load()
        if not isinstance(factory(), Stage):
            raise TypeError("it does not make a Stage")
    except Exception as error:  # third-party code may raise anything
        problem = f"the stage {name!r} ({entries[name].value}) cannot be loaded: {error}"
        raise config.error_at(path, problem) from error
    return factory
