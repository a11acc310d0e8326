"""Requests of one session: the trace groups them, and their provider sees one key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import ProviderConfig
from antiphon.store.trace.listing import RequestFilter, list_summaries
from antiphon.store.trace.reader import list_requests
from tests.support.gateways import Running, replaced, running, settings
from tests.support.upstream import HELLO_WORLD, send_frames, upstream

RESPONSES = {"model": "up/m", "input": "hi", "stream": True}
MESSAGES = {
    "model": "up/m",
    "max_tokens": 9,
    "stream": True,
    "messages": [{"role": "user", "content": "hi"}],
}
SESSION = "6f1c8a5e-2b7d-4c1a-9e3f-0a1b2c3d4e5f"  # as agents name them
USER = json.dumps({"device_id": "d", "account_uuid": "", "session_id": SESSION})
KEYS = [f"sk-{number}" for number in range(8)]

NAMED: Mapping[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "Claude Code": ("messages", MESSAGES, {"x-claude-code-session-id": SESSION}),
    "metadata": ("messages", {**MESSAGES, "metadata": {"user_id": USER}}, {}),
    "Codex": ("responses", RESPONSES, {"session-id": SESSION}),
    "older Codex": ("responses", RESPONSES, {"session_id": SESSION}),
    "cache key": ("responses", {**RESPONSES, "prompt_cache_key": SESSION}, {}),
    "opencode": ("chat/completions", MESSAGES, {"x-session-id": SESSION}),
}


async def post(gateway: Running, path: str, body: Any, headers: Any = None) -> bytes:
    url = f"{gateway.base_url}/{path}"
    async with gateway.client.post(url, json=body, headers=headers or {}) as answer:
        assert answer.status == 200
        return await answer.read()


@pytest.mark.parametrize("name", NAMED)
async def test_a_session_that_the_client_names(tmp_path: Path, name: str) -> None:
    path, body, headers = NAMED[name]
    async with upstream(send_frames(HELLO_WORLD)) as server:
        entry = {"up": ProviderConfig(kind="chat", base_url=server.url, api_keys=KEYS)}
        async with running(replaced(settings(tmp_path), providers=entry)) as gateway:
            for _ in range(3):
                await post(gateway, path, body, headers)
            await post(gateway, "responses", {**RESPONSES, "prompt_cache_key": "another"})
    sent = [each.headers["authorization"] for each in server.requests]
    assert len(set(sent[:3])) == 1, "the requests of a session use one key"
    found = list_summaries(tmp_path / "trace.db", RequestFilter(session=SESSION), limit=9)
    assert [row.session for row in found] == [SESSION] * 3


async def test_sessions_are_spread_over_the_keys(tmp_path: Path) -> None:
    async with upstream(send_frames(HELLO_WORLD)) as server:
        entry = {"up": ProviderConfig(kind="chat", base_url=server.url, api_keys=KEYS)}
        async with running(replaced(settings(tmp_path), providers=entry)) as gateway:
            for number in range(24):
                await post(gateway, "responses", {**RESPONSES, "prompt_cache_key": f"s{number}"})
    used = {each.headers["authorization"] for each in server.requests}
    assert len(used) >= 5


async def test_a_chain_is_named_by_its_first_response(tmp_path: Path) -> None:
    async with running(settings(tmp_path)) as gateway:
        ids: list[str | None] = [None]
        for _ in range(3):
            body = {"model": "echo/echo", "input": "hi"}
            _, _, answer = await gateway.post({**body, "previous_response_id": ids[-1]})
            ids.append(answer["id"])
        await gateway.post({"model": "echo/echo", "input": "hi", "store": False})
    sessions = [each.request.session for each in list_requests(tmp_path / "trace.db")]
    assert sessions == [None, ids[1], ids[1], ids[1]]


async def test_a_conversation_is_a_session(tmp_path: Path) -> None:
    async with running(settings(tmp_path)) as gateway:
        async with gateway.client.post(f"{gateway.base_url}/conversations", json={}) as answer:
            conversation = (await answer.json())["id"]
        for _ in range(2):
            await gateway.post({"model": "echo/echo", "input": "x", "conversation": conversation})
    found = list_requests(tmp_path / "trace.db")
    assert [each.request.session for each in found] == [conversation] * 2


@pytest.mark.parametrize("header", ["a\tb\x7fc" + "d" * 500])
async def test_the_session_of_a_rejected_request_is_recorded(tmp_path: Path, header: str) -> None:
    async with running(settings(tmp_path)) as gateway:
        url = f"{gateway.base_url}/messages"
        headers = {"x-claude-code-session-id": header.replace("\x7f", "")}
        async with gateway.client.post(url, json={"model": "x"}, headers=headers) as answer:
            assert answer.status == 400
    [found] = list_requests(tmp_path / "trace.db")
    assert found.request.session == ("abc" + "d" * 500)[:200]
