"""Options of the test run.

`pytest` runs every test; `pytest --quick` (`make test`) those of `tests/support/tiers.py`.
`pytest --update-golden` rewrites the golden transcripts; review the diff like code.
`pytest --hypothesis-seed=N` tries other examples of the properties: the same for the same number.
`pytest --hypothesis-profile=thorough` looks elsewhere each time, and a hundred times as long.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import AsyncIterator, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support import corpus, postgres, stores, tiers
from tests.support.memory_files import use_memory_for_temporary_files

# Bytecode is kept, whatever the environment says: every worker would compile all tests again, and
# each of the hundreds of gateways that tests start would compile the source tree.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

use_memory_for_temporary_files()

# No test finds a model server that happens to run on this machine, unless it asks for one.
os.environ["ANTIPHON_LOCAL_SERVERS"] = "off"

# A slow machine is no reason to fail, so there are no deadlines; nor is a property that holds only
# for some of the mangled histories that are made up for it.
PATIENCE = [HealthCheck.too_slow, HealthCheck.filter_too_much]
COMMON = settings(deadline=None, suppress_health_check=PATIENCE)
# Without a seed, each run tries the same examples: a change answers for itself, never for luck.
settings.register_profile("default", COMMON, max_examples=30, derandomize=True)
settings.register_profile("quick", COMMON, max_examples=5, derandomize=True)
# Where CI is set, Hypothesis tries the same examples whatever the seed, unless it is told not to.
settings.register_profile("seeded", COMMON, max_examples=30, database=None, derandomize=False)
settings.register_profile("thorough", COMMON, max_examples=5000, derandomize=False)
settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden transcripts")
    parser.addoption("--quick", action="store_true", help="leave out what `make check` runs alone")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("hypothesis_seed") is not None and not config.option.hypothesis_profile:
        settings.load_profile("seeded")
    elif config.option.quick:
        settings.load_profile("quick")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return (config.option.quick and tiers.is_for_check_only(collection_path)) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    is_worker = hasattr(config, "workerinput")  # of pytest-xdist: see the next hook
    if config.option.quick and not is_worker and len(items) > tiers.MOST_QUICK_TESTS:
        raise pytest.UsageError(tiers.too_many(len(items)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    """Called in the process that shows the results, when a worker has collected all tests."""
    if node.config.option.quick and len(ids) > tiers.MOST_QUICK_TESTS:
        pytest.exit(tiers.too_many(len(ids)), returncode=pytest.ExitCode.USAGE_ERROR)


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
    """Say what a run of the corpus tests or the golden tests had to replay, and the seed."""
    seed = terminalreporter.config.getoption("hypothesis_seed")
    if seed is not None:
        terminalreporter.write_line(
            f"Properties had the seed {seed}: pytest --hypothesis-seed={seed}"
        )
    paths = [Path(arg.partition("::")[0]).name for arg in terminalreporter.config.args]
    if {"tests", "contract", "golden"} & set(paths):
        terminalreporter.write_line(corpus.summary(Path(__file__).parent / "golden"))


def pytest_sessionfinish() -> None:
    postgres.stop_shared()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio, as the gateway does."""
    return "asyncio"


@pytest.fixture
async def open_memory() -> AsyncIterator[stores.OpenMemory]:
    """Opens stores in memory, which are closed after the test."""
    async with stores.stores_in_memory() as opener:
        yield opener


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
