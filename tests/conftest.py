"""Options of the test run.

`pytest --update-golden` rewrites the golden transcripts; review the diff like code.
`pytest --hypothesis-profile=thorough` looks a hundred times as long for a counterexample.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# A slow machine is no reason to fail, so there are no deadlines; nor is a property that holds only
# for some of the mangled histories that are made up for it.
PATIENCE = [HealthCheck.too_slow, HealthCheck.filter_too_much]
settings.register_profile("default", deadline=None, suppress_health_check=PATIENCE, max_examples=50)
settings.register_profile(
    "thorough", deadline=None, suppress_health_check=PATIENCE, max_examples=5000
)
settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden transcripts")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio, as the gateway does."""
    return "asyncio"
