"""Small packages installed as by pip: a module, and metadata with entry points."""

from __future__ import annotations

import tomllib
from pathlib import Path


def install(
    directory: Path,
    project: str,
    entry_points: dict[str, str],
    *,
    module: str = "",
    source: str = "",
) -> None:
    """Install a distribution into a directory of the import path."""
    if module:
        (directory / f"{module}.py").write_text(source, encoding="utf-8")
    _write_metadata(directory, project, {"antiphon.providers": entry_points})


def install_project(directory: Path, pyproject: str, source: str) -> None:
    """Install the package of a pyproject.toml: one module, which its entry points name."""
    project = tomllib.loads(pyproject)["project"]
    groups: dict[str, dict[str, str]] = project["entry-points"]
    [module] = {value.partition(":")[0] for group in groups.values() for value in group.values()}
    (directory / f"{module}.py").write_text(source, encoding="utf-8")
    _write_metadata(directory, project["name"], groups)


def _write_metadata(directory: Path, project: str, groups: dict[str, dict[str, str]]) -> None:
    metadata = directory / f"{project.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir()
    lines: list[str] = []
    for group, entries in groups.items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()), ""]
    (metadata / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    about = f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n"
    (metadata / "METADATA").write_text(about, encoding="utf-8")
