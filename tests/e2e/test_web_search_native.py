"""Searches of earlier turns in requests to every kind of provider, compared with its native client.

The model thinks, speaks, searches twice at once, thinks about what was found and searches again; a
turn later it is asked something else. Every request has to end, to the byte, with the history that
a native client with a search tool of its own would have sent, thoughts and signatures included.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import ProviderConfig, SearchConfig
from tests.e2e.test_state_survives import CACHE_MARK, PROVIDERS
from tests.support.client_answers import post_request
from tests.support.gateways import replaced, running, settings
from tests.support.scripted_providers.scripted_provider import native_tail
from tests.support.scripted_providers.session import (
    Call,
    Document,
    Turn,
    echo_items,
    request_body,
    user_items,
)
from tests.support.upstream import Connection, ReceivedRequest, upstream

FOUND: dict[str, list[Document]] = {
    "ulm": [{"title": "Ulm", "url": "https://ulm.example/", "snippet": "It rains in Ulm."}],
    "zürich": [{"title": "Zürich", "url": "https://zh.example/"}],
    "berlin": [],
}
TOLD = {
    "ulm": "[1] Ulm\nhttps://ulm.example/\nIt rains in Ulm.",
    "zürich": "[2] Zürich\nhttps://zh.example/",
    "berlin": "Nothing was found.",
}


def search(query: str) -> Call:
    arguments = json.dumps({"query": query}, ensure_ascii=False, separators=(",", ":"))
    return Call("web_search", arguments, TOLD[query])


ROUNDS = (
    Turn(
        1,
        user="Ulm and Zürich?",
        thought="Two cities.",
        text="One moment.",
        calls=(search("ulm"), search("zürich")),
    ),
    Turn(2, thought="And the capital.", calls=(search("berlin"),)),
    Turn(3, thought="That will do.", text="Rain in Ulm [1]."),
    Turn(4, user="Thank you!", thought="Be polite.", text="You are welcome."),
)


@pytest.mark.parametrize("stored", [True, False], ids=["stored", "echoed"])
@pytest.mark.parametrize("kind", PROVIDERS)
async def test_native_searches_are_replayed_as_the_vendors_client_does(
    tmp_path: Path, kind: str, stored: bool
) -> None:
    scripted, model = PROVIDERS[kind]
    rounds = iter(ROUNDS)

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head(content_type=scripted.content_type)
        await connection.send(scripted.stream_bytes(next(rounds)))
        await connection.end()

    path = tmp_path / "answers.json"
    path.write_text(json.dumps(FOUND))
    async with upstream(script) as server:
        entry = ProviderConfig(kind=kind, base_url=server.url, api_keys=["k"], web_search="managed")
        config = replaced(
            settings(tmp_path, server.url),
            providers={"up": entry},
            search=SearchConfig(backend="recorded", url=f"file://{path}"),
        )
        async with running(config) as gateway:
            more: Document = {"tools": [{"type": "web_search"}]}
            items = user_items(ROUNDS[0])
            first = (
                await post_request(gateway, request_body(f"up/{model}", items, **more))
            ).response
            last = user_items(ROUNDS[3])
            if stored:
                more["previous_response_id"] = first["id"]
            else:
                last = [*items, *echo_items(first["output"]), *last]
            await post_request(gateway, request_body(f"up/{model}", last, **more))
        requests: list[Any] = [each.raw.replace(CACHE_MARK, b"") for each in server.requests]
    assert first["status"] == "completed"
    assert len(requests) == len(ROUNDS)
    for place, raw in enumerate(requests):
        expected = native_tail(scripted, ROUNDS[: place + 1])
        assert raw.endswith(expected), (place, raw.decode(), expected.decode())
