"""Requests that cannot be served are refused before anything is sent to a provider."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import CompatibilityConfig, ProviderConfig
from tests.support.checked_gateway import CheckedGateway, checked_gateway, configured
from tests.support.gateways import replaced, running, settings
from tests.support.upstream import HELLO_WORLD, send_frames, upstream

Document = dict[str, Any]
HELLO = send_frames(HELLO_WORLD)
CODEX = {"originator": "codex_exec", "user-agent": "codex_exec/0.166.0"}
FUNCTION: Document = {"type": "function", "name": "f", "parameters": {"type": "object"}}

HOSTED: dict[str, Document] = {
    "mcp": {"type": "mcp", "server_label": "docs", "server_url": "https://mcp.example"},
    "code_interpreter": {"type": "code_interpreter", "container": {"type": "auto"}},
    "file_search": {"type": "file_search", "vector_store_ids": ["vs_1"]},
    "image_generation": {"type": "image_generation"},
    "computer": {"type": "computer"},
    "computer_use_preview": {
        "type": "computer_use_preview",
        "display_width": 800,
        "display_height": 600,
        "environment": "browser",
    },
    "web_search": {"type": "web_search"},
    "web_search_preview": {"type": "web_search_preview"},
    "programmatic_tool_calling": {"type": "programmatic_tool_calling"},
    "shell": {"type": "shell", "environment": {"type": "container_auto"}},
    "telepathy": {"type": "telepathy"},
}


def error_of(answer: tuple[int, Mapping[str, str], Any]) -> tuple[int, Document]:
    status, _, document = answer
    return status, document.get("error", {})


@asynccontextmanager
async def ignoring(tmp_path: Path, **provider: Any) -> AsyncIterator[CheckedGateway]:
    """A gateway that leaves out hosted tools that cannot be run."""
    async with upstream(HELLO) as server:
        entry = ProviderConfig(kind="chat", base_url=server.url, api_keys=["k"], **provider)
        config = replaced(
            settings(tmp_path, server.url),
            providers={"up": entry},
            compatibility=CompatibilityConfig(hosted_tools="ignore"),
        )
        async with running(config) as gateway:
            yield CheckedGateway(gateway, server)


# Hosted tools


@pytest.mark.parametrize("kind", HOSTED)
async def test_a_hosted_tool_that_cannot_be_run_is_a_400_that_names_it_and_the_setting(
    tmp_path: Path, kind: str
) -> None:
    async with checked_gateway(tmp_path, HELLO) as setup:
        status, error = error_of(await setup.post(tools=[FUNCTION, HOSTED[kind]]))
        assert (status, error.get("param")) == (400, "tools[1].type")
        assert error["code"] == "unsupported_parameter"
        assert f"'{kind}'" in error["message"]
        setting = "web_search" if kind.startswith("web_search") else "hosted_tools"
        assert f"`{setting}`" in error["message"]
        assert setup.upstream.requests == []


@pytest.mark.parametrize("kind", HOSTED)
async def test_hosted_tools_are_left_out_where_the_configuration_allows_it(
    tmp_path: Path, kind: str
) -> None:
    async with ignoring(tmp_path) as setup:
        status, headers, document = await setup.post(tools=[FUNCTION, HOSTED[kind]])
        assert status == 200, document
        assert [tool["type"] for tool in setup.last_body["tools"]] == ["function"]
        assert f"tool.ignored:{kind}" in headers["antiphon-diagnostics"]
        assert [tool["type"] for tool in document["tools"]] == ["function"]


@pytest.mark.parametrize("kind", ["web_search", "image_generation"])
async def test_the_default_tools_of_codex_are_accepted_from_codex(
    tmp_path: Path, kind: str
) -> None:
    body = {"model": "m", "input": "Hello?", "tools": [HOSTED[kind]]}
    async with checked_gateway(tmp_path, HELLO) as setup:
        status, headers, document = await setup.gateway.post(body, **CODEX)
        assert status == 200, document
        assert f"tool.ignored:{kind}" in headers["antiphon-diagnostics"]


async def test_other_hosted_tools_are_refused_from_codex_too(tmp_path: Path) -> None:
    body = {"model": "m", "input": "Hello?", "tools": [HOSTED["mcp"]]}
    async with checked_gateway(tmp_path, HELLO) as setup:
        status, _ = error_of(await setup.gateway.post(body, **CODEX))
        assert (status, setup.upstream.requests) == (400, [])


async def test_web_search_of_the_provider_setting_wins_over_the_compatibility_setting(
    tmp_path: Path,
) -> None:
    async with configured(tmp_path / "a", HELLO, web_search="ignore") as setup:
        status, headers, _ = await setup.post(tools=[HOSTED["web_search"]])
        assert (status, headers["antiphon-diagnostics"]) == (
            200,
            "1; codes=tool.ignored:web_search",
        )
    async with ignoring(tmp_path / "b", web_search="refuse") as setup:
        status, error = error_of(await setup.post(tools=[HOSTED["web_search"]]))
        assert (status, error.get("param")) == (400, "tools[0].type")


async def test_a_hosted_tool_in_the_history_is_left_out(tmp_path: Path) -> None:
    added = {"type": "additional_tools", "role": "developer", "tools": [HOSTED["mcp"]]}
    async with checked_gateway(tmp_path, HELLO) as setup:
        items = [added, {"role": "user", "content": "Hello?"}]
        status, headers, _ = await setup.post(input=items)
        assert (status, headers["antiphon-diagnostics"]) == (200, "1; codes=tool.ignored:mcp")


@pytest.mark.parametrize("kind", ["mcp", "code_interpreter", "file_search", "image_generation"])
async def test_a_responses_upstream_gets_the_hosted_tools_that_it_runs(
    tmp_path: Path, kind: str
) -> None:
    frames = (
        b'data: {"type":"response.created","response":{"id":"r","model":"m","output":[]}}\n\n',
        b'data: {"type":"response.output_text.delta","output_index":0,"delta":"Hi"}\n\n',
        b'data: {"type":"response.completed","response":{"id":"r","status":"completed",'
        b'"output":[{"type":"message","role":"assistant","content":'
        b'[{"type":"output_text","text":"Hi"}]}],'
        b'"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}}\n\n',
    )
    async with configured(tmp_path, send_frames(frames), kind="openai") as setup:
        response = (await setup.stream(model="up/gpt-4o", tools=[HOSTED[kind]]))[-1]["response"]
        assert setup.last_body["tools"] == [HOSTED[kind]]
        assert [tool["type"] for tool in response["tools"]] == [kind]


# Input


@pytest.mark.parametrize("body", [{}, {"input": None}, {"input": []}])
async def test_a_request_without_input_is_a_400_and_is_not_sent(
    tmp_path: Path, body: Document
) -> None:
    async with checked_gateway(tmp_path, HELLO) as setup:
        status, error = error_of(await setup.gateway.post({"model": "m", **body}))
        assert (status, error.get("param")) == (400, "input")
        assert error["code"] == "missing_required_parameter"
        assert setup.upstream.requests == []


async def test_a_chain_may_be_continued_without_input(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, HELLO) as setup:
        first = await setup.whole()
        body = {"model": "m", "previous_response_id": first["id"]}
        others: list[Document] = [{}, {"input": []}]
        for more in others:
            status, _, document = await setup.gateway.post({**body, **more})
            assert status == 200, document
            assert len(setup.last_body["messages"]) == 2


@pytest.mark.parametrize("typed", [True, False])
async def test_a_reference_to_an_unknown_item_is_a_400_and_is_not_sent(
    tmp_path: Path, typed: bool
) -> None:
    reference = {"type": "item_reference", "id": "msg_x"} if typed else {"id": "msg_x"}
    async with checked_gateway(tmp_path, HELLO) as setup:
        items = [{"role": "user", "content": "Hello?"}, reference]
        status, error = error_of(await setup.post(input=items))
        assert (status, error.get("param")) == (400, "input[1].id")
        assert "'msg_x'" in error["message"]
        assert setup.upstream.requests == []
