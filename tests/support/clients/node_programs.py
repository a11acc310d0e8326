"""Runs the programs in `tests/clients/node`, each of which drives one package from npm."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.support.clients.gateway import ClientGateway
from tests.support.clients.installed import PINNED, Release

PROGRAMS = Path(__file__).parents[2] / "clients" / "node"


async def run_program(
    setup: ClientGateway, program: str, scenario: str, release: Release = PINNED
) -> Any:
    """Run a scenario of a program with the packages of a release; return its JSON output.

    Node looks for packages beside the program, so it runs as a copy with the packages beside it.
    """
    directory = setup.home / "programs"
    directory.mkdir()
    for source in PROGRAMS.glob("*.mjs"):
        shutil.copy(source, directory)
    (directory / "node_modules").symlink_to(release.modules)
    done = await setup.run([release.node, directory / f"{program}.mjs", scenario])
    [seen] = done.check_success().lines
    return seen
