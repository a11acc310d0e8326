"""Options of the test run.

`pytest --update-golden` rewrites the golden transcripts; review the diff like code.
`pytest --hypothesis-profile=thorough` looks elsewhere each time, and a hundred times as long.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support import corpus, postgres
from tests.support.memory_files import use_memory_for_temporary_files

# Bytecode is kept, whatever the environment says: every worker would compile all tests again, and
# each of the hundreds of gateways that tests start would compile the source tree.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

use_memory_for_temporary_files()

# A slow machine is no reason to fail, so there are no deadlines; nor is a property that holds only
# for some of the mangled histories that are made up for it.
PATIENCE = [HealthCheck.too_slow, HealthCheck.filter_too_much]
COMMON = settings(deadline=None, suppress_health_check=PATIENCE)
# The default run tries the same examples each time: a change answers for itself, never for luck.
settings.register_profile("default", COMMON, max_examples=30, derandomize=True)
settings.register_profile("thorough", COMMON, max_examples=5000)
settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden transcripts")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without garbage collection, and leave what was collected out of every later one:
    walking over all tests and libraries again and again takes longer than most tests. Later
    collections are rarer than by default: tests create many objects, and few cycles."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 20, 20)
        gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what a run of the corpus tests or the golden tests had to replay."""
    paths = [Path(arg.partition("::")[0]).name for arg in terminalreporter.config.args]
    if {"tests", "contract", "golden"} & set(paths):
        terminalreporter.write_line(corpus.summary(Path(__file__).parent / "golden"))


def pytest_sessionfinish() -> None:
    postgres.stop_shared()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio, as the gateway does."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgres_server() -> postgres.PostgresServer | None:
    """A PostgreSQL server for the whole run; None without ANTIPHON_POSTGRES (`make postgres`)."""
    return postgres.start_shared() if postgres.ENABLED else None


@pytest.fixture
def postgres_url(postgres_server: postgres.PostgresServer | None) -> str:
    """The URL of an empty schema; a test that needs it is skipped without ANTIPHON_POSTGRES."""
    if postgres_server is None:
        pytest.skip("needs PostgreSQL: make postgres")
    return postgres_server.new_url()
