"""Options of the test run.

`pytest --update-golden` rewrites the golden transcripts; review the diff like code.
`pytest --hypothesis-profile=thorough` looks elsewhere each time, and a hundred times as long.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support import corpus

# A slow machine is no reason to fail, so there are no deadlines; nor is a property that holds only
# for some of the mangled histories that are made up for it.
PATIENCE = [HealthCheck.too_slow, HealthCheck.filter_too_much]
COMMON = settings(deadline=None, suppress_health_check=PATIENCE)
# The default run tries the same examples each time: a change answers for itself, never for luck.
settings.register_profile("default", COMMON, max_examples=50, derandomize=True)
settings.register_profile("thorough", COMMON, max_examples=5000)
settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden transcripts")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what a run of the corpus tests or the golden tests had to replay."""
    paths = [Path(arg.partition("::")[0]).name for arg in terminalreporter.config.args]
    if {"tests", "contract", "golden"} & set(paths):
        terminalreporter.write_line(corpus.summary(Path(__file__).parent / "golden"))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio, as the gateway does."""
    return "asyncio"
