"""Canaries in searches, image descriptions, corrections and retries of the gateway."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon.config import ModelConfig, ProviderConfig, SearchConfig, VisionConfig
from tests.e2e.test_canaries import (
    KEY,
    OUTPUT,
    PROMPT,
    SAID,
    SCHEMA,
    TOLD,
    error_text,
    find_canaries,
    read_files,
    render_log,
)
from tests.support.client_answers import Answer, post_request
from tests.support.gateways import Running, replaced, running, settings
from tests.support.shared_gateway import UVLOOP
from tests.support.upstream import (
    DONE,
    Connection,
    ReceivedRequest,
    Script,
    Upstream,
    chunk,
    send_json,
    upstream,
    whole_answer,
)

SEARCH_KEY = "sk-canary-search-3d77"
FOUND = "canary-result-a2b9"
SEEN = "canary-seen-77c0"
CLIENT = "canary-client-19fe"
ALL = (KEY, PROMPT, OUTPUT, SEARCH_KEY, FOUND, SEEN, CLIENT)

Document = dict[str, Any]
SEARCH: Document = {"tools": [{"type": "web_search"}]}
GRAMMAR = {"type": "grammar", "syntax": "regex", "definition": f"{PROMPT}[0-9]+"}
TOO_MUCH = {"type": "grammar", "syntax": "lark", "definition": f'start: "{PROMPT}" & "{PROMPT}"'}
RESULT = {"url": f"https://x.example/{FOUND}", "title": FOUND, "content": FOUND}


def freeform(form: Document) -> Document:
    return {"tools": [{"type": "custom", "name": "patch", "description": PROMPT, "format": form}]}


def calls(name: str, **arguments: str) -> Document:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"index": 0, "id": "c1", "function": function}]}


class LeakyProvider:
    """A model, a vision model and a search engine in one server."""

    def __init__(self, rounds: Sequence[Document], engine: Script | None) -> None:
        self._rounds = rounds
        self._engine = engine or send_json(200, {"results": [RESULT]})
        self._count = 0

    async def __call__(self, request: ReceivedRequest, connection: Connection) -> None:
        if "/search" in request.path:
            await self._engine(request, connection)
        elif request.body["model"] == "eyes":
            await send_json(200, whole_answer(SEEN))(request, connection)
        else:
            await self._say(self._rounds[self._count % len(self._rounds)], connection)
            self._count += 1

    async def _say(self, delta: Document, connection: Connection) -> None:
        await connection.head()
        for frame in (chunk(delta), chunk({}, "tool_calls" if "tool_calls" in delta else "stop")):
            await connection.send(frame)
        await connection.send(DONE)
        await connection.end()


IMAGE = {"type": "input_image", "image_url": f"https://x.test/{PROMPT}.png"}
ANSWER: Document = {"content": f"{SAID} [1]"}
QUERY = calls("web_search", query=f"{PROMPT} {OUTPUT}")
WRONG = calls("patch", input=SAID)
PATHS: Mapping[str, tuple[Sequence[Document], Script | None, Document]] = {
    "a search": ([QUERY, ANSWER], None, SEARCH),
    "a search that fails": ([QUERY, ANSWER], send_json(500, TOLD), SEARCH),
    "a search that is redirected": (
        [QUERY, ANSWER],
        send_json(302, TOLD, location=f"/search?stolen={FOUND}"),
        SEARCH,
    ),
    "a search that finds noise": ([QUERY, ANSWER], send_json(200, TOLD), SEARCH),
    "a search without words": ([calls("web_search", q=SAID), ANSWER], None, SEARCH),
    "more searches than may be": ([QUERY], None, {**SEARCH, "max_tool_calls": 1}),
    "an input that was corrected": (
        [WRONG, calls("patch", input=f"{PROMPT}7")],
        None,
        freeform(GRAMMAR),
    ),
    "an input that was not": ([WRONG], None, freeform(GRAMMAR)),
    "a grammar that is too much": ([WRONG], None, freeform(TOO_MUCH)),
    "an answer that was repaired": (
        [{"content": SAID}, {"content": json.dumps({OUTPUT: 1})}],
        None,
        {"text": {"format": SCHEMA}},
    ),
    "an answer that was not": ([{"content": SAID}], None, {"text": {"format": SCHEMA}}),
    "an image": ([ANSWER], None, {"input": [{"role": "user", "content": [IMAGE]}]}),
}


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


@asynccontextmanager
async def canary_gateway(
    tmp_path: Path, rounds: Sequence[Document], engine: Script | None = None
) -> AsyncIterator[tuple[Running, Upstream]]:
    models = {"m": ModelConfig(inputs=["text"]), "eyes": ModelConfig(inputs=["image"])}
    async with upstream(LeakyProvider(rounds, engine)) as server:
        entry = ProviderConfig(kind="chat", base_url=server.url, api_keys=[KEY], models=models)
        config = replaced(
            settings(tmp_path, server.url),
            providers={"up": entry},
            search=SearchConfig(backend="searxng", url=server.url, api_key=SEARCH_KEY),
            vision=VisionConfig(model="eyes"),
        )
        async with running(config) as gateway:
            yield gateway, server


async def post_checked(gateway: Running, more: Document, **each: Any) -> Answer:
    body = {"model": "m", "input": PROMPT, "stream": True, **more, **each}
    headers = {"originator": CLIENT, "user-agent": f"codex/{CLIENT} \x85"}
    return await post_request(gateway, body, **headers)


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
async def test_gateway_searches_and_descriptions_leak_no_canary(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    path: tuple[Sequence[Document], Script | None, Document],
) -> None:
    rounds, engine, more = path
    caplog.set_level(0)
    async with canary_gateway(tmp_path, rounds, engine) as (gateway, server):
        answers = [await post_checked(gateway, more, store=kept) for kept in (False, True)]
    assert gateway.log
    assert find_canaries(ALL, render_log(gateway.log) + caplog.text) == []
    assert find_canaries(ALL, "".join(map(error_text, answers))) == []
    assert find_canaries(ALL, "".join(str(answer.headers) for answer in answers)) == []
    traced = read_files(tmp_path, "trace.db")
    assert find_canaries(ALL, traced) == [CLIENT]  # the name of its software
    assert find_canaries((KEY, SEARCH_KEY, CLIENT), read_files(tmp_path, "turns.db")) == []
    assert not any(FOUND in post_checked.path for post_checked in server.requests)


async def test_each_api_key_is_sent_only_to_its_own_service(tmp_path: Path) -> None:
    async with canary_gateway(tmp_path, [QUERY, ANSWER]) as (gateway, server):
        answer = await post_checked(gateway, SEARCH)
    keys = {("/search" in each.path, each.headers["authorization"]) for each in server.requests}
    assert keys == {(False, f"Bearer {KEY}"), (True, f"Bearer {SEARCH_KEY}")}
    assert find_canaries((KEY, SEARCH_KEY), answer.body) == []
    assert find_canaries((FOUND,), answer.body) == [FOUND]  # the canary can sing: it is cited


async def test_image_descriptions_and_search_results_reach_the_model(tmp_path: Path) -> None:
    """Control: the canaries are in the requests to the model."""
    content = [IMAGE, {"type": "input_text", "text": PROMPT}]
    async with canary_gateway(tmp_path, [QUERY, ANSWER]) as (gateway, server):
        await post_checked(gateway, {**SEARCH, "input": [{"role": "user", "content": content}]})
    last = msgspec.json.encode(server.requests[-1].body)
    assert find_canaries((SEEN, FOUND), last) == [SEEN, FOUND]
