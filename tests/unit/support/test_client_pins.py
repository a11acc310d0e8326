"""Pins of tests/clients: clients that call Antiphon in their own process need its dependencies."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.support.clients.installed import versions

OF_THE_COMMAND = {"argcomplete", "rich", "uvloop"}
"""Dependencies that only the command line and its server process load."""


def test_every_dependency_that_the_library_loads_is_pinned() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.split(r"[>=;\s]", each)[0] for each in project["dependencies"]}
    assert names >= OF_THE_COMMAND
    assert {name for name in names - OF_THE_COMMAND if f"pypi:{name}" not in versions()} == set()
