"""A short request restores no more stored history than `[store]` allows, by whatever way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon.config import StoreConfig
from tests.support.checked_gateway import CheckedGateway, configured
from tests.support.upstream import HELLO_WORLD, send_frames
from tests.support.web_sockets import ask, create_frame

TURN = "x" * 90_000
"""Three such turns fit into a history, four do not."""
SCRIPT = send_frames(HELLO_WORLD)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> StoreConfig:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/turns.db"
    return StoreConfig(url=url, max_history_bytes=300_000)


async def make_chain(setup: CheckedGateway, length: int) -> str:
    """Store a chain of responses; return the id of the last."""
    previous: dict[str, str] = {}
    for _ in range(length):
        response = await setup.whole(input=TURN, **previous)
        previous = {"previous_response_id": response["id"]}
    return previous["previous_response_id"]


async def call(setup: CheckedGateway, method: str, path: str, **body: Any) -> tuple[int, Any]:
    url = f"{setup.gateway.base_url}{path}"
    async with setup.gateway.client.request(method, url, json=body or None) as response:
        return response.status, await response.json()


async def test_a_chain_beyond_the_limit_is_refused_and_truncation_is_the_cure(
    tmp_path: Path, store: StoreConfig
) -> None:
    async with configured(tmp_path, SCRIPT, store=store) as setup:
        third = await make_chain(setup, 3)
        fourth = (await setup.whole(input=TURN, previous_response_id=third))["id"]
        status, _, document = await setup.post(previous_response_id=fourth)
        assert (status, document["error"]["code"]) == (400, "history_too_large")
        assert document["error"]["param"] == "previous_response_id"
        assert "`max_history_bytes` in [store]" in document["error"]["message"]
        _, headers, _ = await setup.post(previous_response_id=fourth, truncation="auto")
        assert "history.truncated" in headers["antiphon-diagnostics"]
        contents = [m["content"] for m in setup.last_body["messages"] if m["role"] == "user"]
        assert contents == [TURN, TURN, TURN, "Hello?"]


async def test_a_history_beyond_the_limit_can_still_be_compacted(
    tmp_path: Path, store: StoreConfig
) -> None:
    async with configured(tmp_path, SCRIPT, store=store) as setup:
        last = await make_chain(setup, 4)
        body = {"model": "m", "previous_response_id": last}
        status, document = await call(setup, "POST", "/responses/compact", **body)
        assert (status, document["object"]) == (200, "response.compaction")


async def test_a_conversation_beyond_the_limit_is_refused_and_truncation_is_the_cure(
    tmp_path: Path, store: StoreConfig
) -> None:
    item = {"type": "message", "role": "user", "content": TURN}
    async with configured(tmp_path, SCRIPT, store=store) as setup:
        _, conversation = await call(setup, "POST", "/conversations", items=[item] * 4)
        status, _, document = await setup.post(conversation=conversation["id"])
        assert (status, document["error"]["code"]) == (400, "history_too_large")
        assert document["error"]["param"] == "conversation"
        path = f"/conversations/{conversation['id']}/items?limit=100"
        status, document = await call(setup, "GET", path)
        assert (status, len(document["data"]), document["has_more"]) == (200, 3, True)
        await setup.whole(conversation=conversation["id"], truncation="auto")
        contents = [m["content"] for m in setup.last_body["messages"] if m["role"] == "user"]
        assert contents == [TURN, TURN, TURN, "Hello?"]


async def test_a_websocket_restores_no_more_than_the_limit(
    tmp_path: Path, store: StoreConfig
) -> None:
    async with configured(tmp_path, SCRIPT, store=store) as setup:
        last = await make_chain(setup, 4)
        url = f"{setup.gateway.base_url}/responses"
        async with setup.gateway.client.ws_connect(url) as socket:
            frame = create_frame(model="m", previous_response_id=last)
            [refused] = await ask(socket, frame)
            assert (refused["status"], refused["error"]["code"]) == (400, "history_too_large")
            frames = await ask(socket, {**frame, "truncation": "auto"})
            assert frames[-1]["type"] == "response.completed"


async def test_the_input_of_a_response_is_listed_up_to_the_limit(
    tmp_path: Path, store: StoreConfig
) -> None:
    async with configured(tmp_path, SCRIPT, store=store) as setup:
        fourth = await make_chain(setup, 4)
        response = await setup.whole(previous_response_id=fourth, truncation="auto")
        last = response["id"]
        status, document = await call(setup, "GET", f"/responses/{last}/input_items?limit=1")
        assert (status, document["error"]["code"]) == (400, "history_too_large")
