"""Search results from a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from antiphon.core.web_search.sources import SearchResult
from antiphon.errors import SearchError
from antiphon.search.backend import SearchOptions
from antiphon.search.recorded import EchoBackend, RecordedBackend, load_results


def load(path: Path, content: object) -> RecordedBackend:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return RecordedBackend(load_results(f"file://{path}"))


async def test_results_are_found_by_their_query(tmp_path: Path) -> None:
    entry = {"title": "Rain", "url": "https://a.example/", "unknown": 1}
    content = {"rain": [entry], "storm": "failed", "*": []}
    backend = load(tmp_path / "results.json", content)
    found = await backend.search("rain", options=SearchOptions())
    assert found == (SearchResult(title="Rain", url="https://a.example/"),)
    assert await backend.search("snow", options=SearchOptions()) == ()
    with pytest.raises(SearchError, match="records this search as failed"):
        await backend.search("storm", options=SearchOptions())


async def test_a_star_holds_the_results_of_any_other_query(tmp_path: Path) -> None:
    backend = load(tmp_path / "results.json", {"*": [{"url": "https://a.example/"}]})
    assert len(await backend.search("anything", options=SearchOptions())) == 1


async def test_without_a_star_other_queries_find_nothing(tmp_path: Path) -> None:
    backend = load(tmp_path / "results.json", {})
    assert await backend.search("rain", options=SearchOptions()) == ()


@pytest.mark.parametrize("content", ["not JSON", "[]", '{"q": [{"title": "no address"}]}'])
def test_an_invalid_file_is_an_error_that_names_it(tmp_path: Path, content: str) -> None:
    path = tmp_path / "results.json"
    with pytest.raises(SearchError) as caught:
        load(path, content)
    assert caught.value.message.startswith(f"{path} is not a valid file of search results: ")


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "none.json"
    with pytest.raises(SearchError) as caught:
        load_results(f"file://{path}")
    assert caught.value.message == f"{path} cannot be read: No such file or directory"


async def test_echo_finds_pages_about_every_query() -> None:
    found = await EchoBackend().search("otters & seals", options=SearchOptions(count=2))
    assert [(page.title, page.url) for page in found] == [
        ("About otters & seals", "https://echo.example/1?q=otters+%26+seals"),
        ("About otters & seals", "https://echo.example/2?q=otters+%26+seals"),
    ]
