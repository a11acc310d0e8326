"""Small packages installed as by pip: a module, and metadata with entry points."""

from __future__ import annotations

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
    metadata = directory / f"{project.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir()
    lines = [f"{name} = {value}" for name, value in entry_points.items()]
    text = "\n".join(["[antiphon.providers]", *lines, ""])
    (metadata / "entry_points.txt").write_text(text, encoding="utf-8")
    about = f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n"
    (metadata / "METADATA").write_text(about, encoding="utf-8")
