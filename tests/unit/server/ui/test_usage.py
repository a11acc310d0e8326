"""Usage of the page's API: sums of a period by any columns, as JSON and as CSV."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from antiphon.observe.usage import UsageRow
from antiphon.server.endpoints.query import Query
from antiphon.server.ui.usage import format_csv, read_columns
from antiphon.store.usage.usage_table import COUNTS, HOUR_S, UsageKey
from tests.support.applications import OpenApplication, error_of, open_application
from tests.support.pages.api import ask, ask_json


async def add_usage(opened: OpenApplication) -> None:
    services = opened.engine.services
    hour = services.runtime.now() // HOUR_S
    counts = tuple(1 if name == "requests" else 0 for name in COUNTS)
    keys = [UsageKey(hour, "alice", model, "p") for model in ("m", "n")]
    await services.store.usage.add(dict.fromkeys(keys, counts))


async def test_usage_is_grouped_as_the_query_says() -> None:
    async with open_application() as opened:
        assert (await ask_json(opened, "usage"))["rows"] == []
        await add_usage(opened)
        by_model = await ask_json(opened, "usage", "since=7d&by=day,model")
        by_client = await ask_json(opened, "usage", "by=client")
    assert by_model["by"] == ["day", "model"]
    assert [(row["model"], row["requests"]) for row in by_model["rows"]] == [("m", 1), ("n", 1)]
    assert [(row["client"], row["requests"]) for row in by_client["rows"]] == [("alice", 2)]


async def test_usage_is_a_csv_file() -> None:
    async with open_application() as opened:
        await add_usage(opened)
        response = await ask(opened, "/ui/api/usage", query="format=csv&by=client")
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    assert isinstance(response.body, bytes)
    [row] = csv.DictReader(io.StringIO(response.body.decode()))
    assert (row["client"], row["requests"], row["failures"]) == ("alice", "2", "0")
    assert "model" not in row


def test_a_name_that_looks_like_a_formula_is_a_text() -> None:
    values: dict[str, Any] = dict.fromkeys(UsageRow.__struct_fields__, 0) | {"client": "=1+1"}
    text = format_csv([UsageRow(**values)], ("client",)).decode()
    assert text.splitlines()[1].startswith("'=1+1,")


@pytest.mark.parametrize("text", ["colour", "model,colour", "model,model", ","])
async def test_an_unknown_column_is_an_error(text: str) -> None:
    async with open_application() as opened:
        response = await ask(opened, "/ui/api/usage", query=f"by={text}")
    assert (response.status, error_of(response)["param"]) == (400, "by")


def test_the_order_of_columns_is_that_of_the_table() -> None:
    assert read_columns(Query("by=model,day")) == ("day", "model")
    assert read_columns(Query("")) == ("client", "model", "provider")
