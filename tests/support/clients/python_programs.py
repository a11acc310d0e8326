"""Runs the programs in `tests/clients/python`, which print what real packages received."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.clients.gateway import ClientSetup
from tests.support.clients.installed import python_command

_PROGRAMS = Path(__file__).parents[2] / "clients" / "python"


async def run_program(setup: ClientSetup, program: str, scenario: str) -> Any:
    """Run a scenario of a program, which must succeed; return its JSON output."""
    done = await setup.run(
        [python_command(), _PROGRAMS / f"{program}.py", scenario],
        env={"PYTHONDONTWRITEBYTECODE": "1"},
    )
    return json.loads(done.check_success().out)
