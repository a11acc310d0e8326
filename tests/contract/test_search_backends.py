"""Every search backend, against a server that responds as the vendor does.

The responses are invented, in the vendors' formats. Whatever comes back, a backend returns results
or raises a `SearchError` without secrets.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from antiphon.config import Config, SearchConfig
from antiphon.core.web_search.rules import SearchRules
from antiphon.core.web_search.sources import SearchResult
from antiphon.errors import SearchError
from antiphon.search.backend import SearchBackend, SearchOptions
from antiphon.search.table import VENDORS, open_backend
from tests.support.compressed_bodies import compress_repeated
from tests.support.tables import table

KEY = "sk-secret-of-the-operator"
FOUND = [
    SearchResult(
        title="Rain & shine",
        url="https://weather.example/berlin",
        snippet="It rains in Berlin.",
        published="2026-03-01",
    ),
    SearchResult(url="https://bare.example/"),
]

ANSWERS: dict[str, Any] = {
    "searxng": {
        "query": "rain",
        "number_of_results": 0,
        "results": [
            {
                "url": "https://weather.example/berlin",
                "title": "Rain & shine",
                "content": "It rains in Berlin.",
                "publishedDate": "2026-03-01",
                "engine": "some",
                "score": 4.0,
            },
            {"url": "https://bare.example/", "title": None, "publishedDate": None},
        ],
        "answers": [],
        "unresponsive_engines": [["other", "timeout"]],
    },
    "tavily": {
        "query": "rain",
        "answer": None,
        "images": [],
        "results": [
            {
                "title": "Rain & shine",
                "url": "https://weather.example/berlin",
                "content": "It rains in Berlin.",
                "score": 0.91,
                "raw_content": None,
                "published_date": "2026-03-01",
            },
            {"url": "https://bare.example/"},
        ],
        "response_time": 0.8,
    },
    "brave": {
        "type": "search",
        "query": {"original": "rain"},
        "web": {
            "type": "search",
            "results": [
                {
                    "type": "search_result",
                    "title": "Rain &amp; shine",
                    "url": "https://weather.example/berlin",
                    "description": "It <strong>rains</strong> in Berlin.",
                    "page_age": "2026-03-01",
                    "age": "March 1, 2026",
                },
                {"type": "search_result", "url": "https://bare.example/", "extra_snippets": "?"},
            ],
        },
    },
    "zhipu": {
        "id": "x",
        "created": 1,
        "search_intent": [],
        "search_result": [
            {
                "title": "Rain & shine",
                "link": "https://weather.example/berlin",
                "content": "It rains in Berlin.",
                "media": "Weather",
                "icon": "",
                "refer": "ref_1",
                "publish_date": "2026-03-01",
            },
            {"link": "https://bare.example/", "publish_date": ""},
        ],
    },
}

Play = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def run_backend(
    name: str, answer_request: Play, *, timeout_s: float = 5
) -> AsyncIterator[SearchBackend]:
    """A backend of this name, with a server in place of the vendor."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer_request)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    search = SearchConfig(
        backend=name,  # type: ignore[arg-type]  # every name of the table is one of the literals
        url=f"http://127.0.0.1:{port}",
        api_key=KEY,
        timeout_s=timeout_s,
    )
    try:
        async with aiohttp.ClientSession() as session:
            backend = open_backend(Config(search=search), session)
            assert backend is not None
            yield backend
    finally:
        await runner.cleanup()


def responding(document: Any, status: int = 200, **headers: str) -> Play:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()

    async def answer_request(request: web.Request) -> web.StreamResponse:
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        given = {"content-type": "application/json", **more}
        return web.Response(status=status, body=body, headers=given)

    return answer_request


def recording(requests: list[Mapping[str, Any]], document: Any) -> Play:
    """Respond, and record the request."""

    async def answer_request(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        requests.append(
            {
                "method": request.method,
                "path": request.path,
                "query": dict(request.query),
                "headers": {name.lower(): value for name, value in request.headers.items()},
                "body": json.loads(body) if body else None,
            }
        )
        return web.json_response(document)

    return answer_request


async def sent_request(name: str, query: str = "rain", **rules: Any) -> Mapping[str, Any]:
    """Return the request that a backend sends."""
    requests: list[Mapping[str, Any]] = []
    async with run_backend(name, recording(requests, {})) as backend:
        options = SearchOptions(count=7, rules=SearchRules(**rules))
        assert await backend.search(query, options=options) == []
    [request] = requests
    return request


# --- every backend --------------------------------------------------------------------------------


def test_every_vendor_has_a_sample_response() -> None:
    assert set(ANSWERS) == set(VENDORS)


@pytest.mark.parametrize("name", VENDORS)
async def test_results_are_parsed(name: str) -> None:
    async with run_backend(name, responding(ANSWERS[name])) as backend:
        assert list(await backend.search("rain", options=SearchOptions())) == FOUND


@table("name", VENDORS)
@table(
    "document",
    [
        {},
        [],
        None,
        7,
        {"results": None, "search_result": None, "web": None},
        {"results": {}, "search_result": 7, "web": {"results": "x"}},
        {"results": [None, 7], "search_result": ["x"], "web": {"results": [[]]}},
    ],
)
async def test_a_response_without_results_is_empty(name: str, document: Any) -> None:
    async with run_backend(name, responding(document)) as backend:
        assert list(await backend.search("rain", options=SearchOptions())) == []


@table("name", VENDORS)
@table(
    ("answer_request", "problem"),
    [
        (responding({"detail": KEY}, 401), "status 401"),
        (responding({"error": {"message": KEY}}, 429), "status 429"),
        (responding({}, 302, location="http://127.0.0.1:1/"), "status 302"),
        (responding(b"<html>not found</html>"), "not valid JSON"),
        (responding(b"[" * 100_000), "not valid JSON"),
        (responding(b" " * (5 * 1024 * 1024)), "more than 4,194,304 bytes"),
        (
            responding(compress_repeated(b" ", 100_000_000), content_encoding="gzip"),
            "more than 4,194,304 bytes",
        ),
    ],
    ids=["key", "limit", "redirect", "html", "deep", "long", "compressed"],
)
async def test_every_failure_is_a_search_error_without_secrets(
    name: str, answer_request: Play, problem: str
) -> None:
    async with run_backend(name, answer_request) as backend:
        with pytest.raises(SearchError) as caught:
            await backend.search("rain", options=SearchOptions())
    assert problem in caught.value.message
    assert KEY not in repr(caught.value) + str(caught.value.__cause__)


@pytest.mark.parametrize("name", VENDORS)
async def test_a_closed_connection_is_a_search_error(name: str) -> None:
    async def answer_request(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with run_backend(name, answer_request) as backend:
        with pytest.raises(SearchError, match=f"'{name}' could not be reached"):
            await backend.search("rain", options=SearchOptions())


@pytest.mark.parametrize("name", VENDORS)
async def test_a_backend_that_does_not_respond_times_out(name: str) -> None:
    too_late = asyncio.Event()

    async def answer_request(request: web.Request) -> web.StreamResponse:
        await too_late.wait()
        return web.Response()

    async with run_backend(name, answer_request, timeout_s=0.05) as backend:
        with pytest.raises(SearchError, match=f"'{name}' did not respond within 0.05 s"):
            await backend.search("rain", options=SearchOptions())
        too_late.set()


# --- the request of each vendor -------------------------------------------------------------------


async def test_searxng_gets_the_format_json_and_site_operators() -> None:
    request = await sent_request(
        "searxng", allowed=("a.example", "b.example"), blocked=("c.example",)
    )
    assert (request["method"], request["path"]) == ("GET", "/search")
    within = "(site:a.example OR site:b.example) -site:c.example"
    assert request["query"] == {"q": f"rain {within}", "format": "json"}
    assert request["headers"]["authorization"] == f"Bearer {KEY}"


async def test_searxng_needs_no_key() -> None:
    assert (
        "authorization" not in VENDORS["searxng"].build_request("rain", "", SearchOptions()).headers
    )


async def test_tavily_gets_lists_of_domains() -> None:
    request = await sent_request(
        "tavily", allowed=("a.example",), blocked=("b.example",), size="high"
    )
    assert (request["method"], request["path"]) == ("POST", "/search")
    assert request["headers"]["authorization"] == f"Bearer {KEY}"
    assert request["body"] == {
        "query": "rain",
        "max_results": 7,
        "search_depth": "advanced",
        "include_domains": ["a.example"],
        "exclude_domains": ["b.example"],
    }
    plain = await sent_request("tavily")
    assert plain["body"] == {"query": "rain", "max_results": 7, "search_depth": "basic"}


async def test_brave_gets_the_location_in_headers() -> None:
    place = {"city": "Berlin", "region": "Thüringen", "country": "DE", "timezone": "Europe/Berlin"}
    request = await sent_request("brave", location=place, allowed=("a.example",), size="high")
    assert (request["method"], request["path"]) == ("GET", "/res/v1/web/search")
    query = {"q": "rain site:a.example", "count": "7", "extra_snippets": "true"}
    assert request["query"] == query
    headers = request["headers"]
    assert headers["x-subscription-token"] == KEY
    given = {name: value for name, value in headers.items() if name.startswith("x-loc")}
    assert given == {
        "x-loc-city": "Berlin",
        "x-loc-country": "DE",
        "x-loc-timezone": "Europe/Berlin",
    }
    assert (await sent_request("brave"))["query"] == {"q": "rain", "count": "7"}


async def test_brave_joins_its_extra_snippets() -> None:
    entry = {"url": "https://a.example/", "description": "One", "extra_snippets": ["two", 3]}
    async with run_backend("brave", responding({"web": {"results": [entry]}})) as backend:
        [result] = await backend.search("rain", options=SearchOptions())
    assert result.snippet == "One … two"


async def test_removing_unclosed_markup_takes_linear_time() -> None:
    entry = {"url": "https://a.example/", "description": "<a" * 9000 + "<" + "b" * 90_000}
    began = time.process_time()
    async with run_backend("brave", responding({"web": {"results": [entry]}})) as backend:
        [result] = await backend.search("rain", options=SearchOptions())
    assert result.snippet == entry["description"]
    assert time.process_time() - began < 1


async def test_zhipu_gets_a_short_query_and_one_domain() -> None:
    request = await sent_request("zhipu", "x" * 100, allowed=("a.example",), size="high")
    assert (request["method"], request["path"]) == ("POST", "/web_search")
    assert request["headers"]["authorization"] == f"Bearer {KEY}"
    assert request["body"] == {
        "search_query": "x" * 70,
        "search_engine": "search_std",
        "search_intent": False,
        "count": 7,
        "content_size": "high",
        "search_domain_filter": "a.example",
    }
    several = await sent_request("zhipu", allowed=("a.example", "b.example"))
    assert "search_domain_filter" not in several["body"]
    assert several["body"]["content_size"] == "medium"


async def test_too_many_domains_are_not_added_to_the_query() -> None:
    many = tuple(f"domain-number-{number}.example" for number in range(20))
    assert (await sent_request("searxng", allowed=many))["query"]["q"] == "rain"
