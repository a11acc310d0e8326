"""The table of search backends, and errors that name their configuration key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from antiphon.config import Config, parse_config
from antiphon.errors import ConfigError
from antiphon.search.searcher import open_searcher
from antiphon.search.table import open_backend, read_search_limits
from tests.support.tables import table


def config(**search: Any) -> Config:
    lines = [f"{key} = {json.dumps(value)}" for key, value in search.items()]
    return parse_config("[search]\n" + "\n".join(lines), {}, name="antiphon.toml")


async def open_configured_backend(**search: Any) -> Any:
    async with aiohttp.ClientSession() as session:
        return open_backend(config(**search), session)


async def test_without_a_backend_there_is_no_searcher() -> None:
    async with aiohttp.ClientSession() as session:
        assert open_searcher(Config(), session) is None
    assert read_search_limits(Config()) is None


async def test_a_configured_search_can_be_called(tmp_path: Path) -> None:
    (tmp_path / "answers.json").write_text("{}")
    async with aiohttp.ClientSession() as session:
        url = f"file://{tmp_path / 'answers.json'}"
        searcher = open_searcher(config(backend="recorded", url=url), session)
    assert callable(searcher)


@table(
    ("search", "expected"),
    [
        ({"backend": "searxng", "url": "http://127.0.0.1:8080"}, {"filters"}),
        ({"backend": "tavily", "api_key": "k"}, {"filters"}),
        ({"backend": "brave", "api_key": "k"}, {"filters", "user_location"}),
        ({"backend": "zhipu", "api_key": "k"}, {"filters"}),
        ({"backend": "recorded", "url": "file:///x"}, {"filters"}),
        ({"backend": "echo"}, {"filters"}),
    ],
)
def test_supported_limits_depend_on_the_backend(search: dict[str, Any], expected: set[str]) -> None:
    assert read_search_limits(config(**search)) == frozenset(expected)


@table(
    ("search", "key"),
    [
        ({"backend": "searxng"}, "search.url: required"),
        ({"backend": "recorded"}, "search.url: required"),
        ({"backend": "tavily"}, "search.api_key: required"),
        ({"backend": "brave"}, "search.api_key: required"),
        ({"backend": "zhipu"}, "search.api_key: required"),
        (
            {"backend": "recorded", "url": "file:///nowhere/at/all"},
            "search.url: /nowhere/at/all cannot be read",
        ),
    ],
)
async def test_a_missing_setting_is_an_error_that_names_its_key(
    search: dict[str, Any], key: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        await open_configured_backend(**search)
    assert key in caught.value.message
