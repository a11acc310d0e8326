"""The client suite: only with ANTIPHON_CLIENTS in the environment, and with a table at its end.

`pytest tests/clients --update-clients-page` writes the table to docs/clients.md.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from tests.support.clients.scenario import HEAD, Row, page, row_of, table

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"
ROWS = pytest.StashKey[list[Row]]()
RESULTS = pytest.StashKey[dict[Row, bool]]()

collect_ignore_glob = [] if os.environ.get("ANTIPHON_CLIENTS") else ["*"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-clients-page", action="store_true", help="rewrite docs/clients.md")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "scenario(client, package, name): a row of the table")
    config.pluginmanager.register(Results(config))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the check of a page that this run rewrites."""
    return (collection_path.name == "test_page.py" and _updates(config)) or None


def _updates(config: pytest.Config) -> bool:
    return bool(config.getoption("--update-clients-page", default=False))


class Results:
    """Gathers the results from the reports, which also come from other processes."""

    def __init__(self, config: pytest.Config) -> None:
        self._updates = _updates(config)
        self._results: dict[Row, bool] = {}

    @pytest.hookimpl(tryfirst=True)  # before any are deselected
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        found = [(item, row_of(item)) for item in items]
        config.stash[ROWS] = [row for _, row in found if row]
        for item, row in found:
            if row:
                item.user_properties.append(("scenario", [*row.line, row.dialect]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        named = dict(report.user_properties).get("scenario")
        if isinstance(named, list) and (report.when == "call" or report.failed):
            row = Row(*named)
            self._results[row] = report.passed and self._results.get(row, True)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._results:
            return
        shown = Table(*HEAD)
        for row in table(self._results):
            shown.add_row(*row)
        console = Console(width=110, no_color=True)
        with console.capture() as captured:
            console.print(shown)
        terminalreporter.write(captured.get())
        if self._updates:
            PAGE.write_text(page(self._results), encoding="utf-8")


@pytest.fixture
def rows(pytestconfig: pytest.Config) -> list[Row]:
    """All scenarios that were collected, run or not."""
    return pytestconfig.stash[ROWS]
