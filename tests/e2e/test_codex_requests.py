"""Every captured Codex request gets a valid event stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import captured_requests as captured
from tests.support.checked_gateway import (
    CheckedGateway,
    checked_gateway,
    done_items,
    event_types,
    final_response,
    items_of_type,
    text,
)
from tests.support.upstream import (
    DONE,
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    chunk,
    send_frames,
    usage,
)

BODIES = captured.answerable()

pytestmark = pytest.mark.skipif(not BODIES, reason=captured.ABSENT)


@pytest.fixture(scope="module")
async def codex_gateway(
    anyio_backend: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[CheckedGateway]:
    """One gateway for all tests: nothing is stored, so they are independent."""
    async with checked_gateway(
        tmp_path_factory.mktemp("codex"), send_frames(HELLO_WORLD)
    ) as started:
        started.gateway.client.headers.update(captured.CLIENT)
        yield started


def _alone(body: dict[str, Any]) -> dict[str, Any]:
    """The request without a parent, which only existed where it was captured."""
    return {name: value for name, value in body.items() if name != "previous_response_id"}


@pytest.mark.parametrize("model", ["echo/echo", "echo/reasoner"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
async def test_a_codex_request_is_answered(
    codex_gateway: CheckedGateway, body: dict[str, Any], model: str
) -> None:
    events = await codex_gateway.stream(**{**_alone(body), "model": model})
    assert event_types(events)[-1] == "response.completed"
    assert done_items(events) == final_response(events)["output"] != []
    assert final_response(events)["usage"]["total_tokens"] > 0


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
async def test_a_codex_request_reaches_a_chat_server_in_order(
    codex_gateway: CheckedGateway, body: dict[str, Any]
) -> None:
    events = await codex_gateway.stream(**{**_alone(body), "model": "up/m"})
    assert text(final_response(events)) == "Hello, world"
    messages = codex_gateway.last_body["messages"]
    assert {message["role"] for message in messages} <= {"system", "user", "assistant", "tool"}
    calls = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert [each["tool_call_id"] for each in messages if each["role"] == "tool"] == calls
    names = [tool["function"]["name"] for tool in codex_gateway.last_body.get("tools", ())]
    assert len(names) == len(set(names))


async def test_an_unknown_parent_is_rejected_as_codex_expects(
    codex_gateway: CheckedGateway,
) -> None:
    continued = [body for body in BODIES.values() if body.get("previous_response_id")]
    assert continued
    for body in continued:
        status, _, document = await codex_gateway.post(**{**body, "model": "echo/echo"})
        assert (status, document["error"]["code"]) == (400, "previous_response_not_found")


async def test_every_tool_that_codex_offers_can_be_called(tmp_path: Path) -> None:
    """Whatever the provider's name of a tool is, Codex gets its own name and type back."""

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        tools = [tool["function"] for tool in request.body["tools"]]
        calls = [
            {"index": at, "id": f"c{at}", "function": {"name": tool["name"], "arguments": "{}"}}
            for at, tool in enumerate(tools)
        ]
        frames = (chunk({"tool_calls": calls}), chunk({}, "tool_calls"), usage(), DONE)
        await send_frames(frames)(request, connection)

    async with checked_gateway(tmp_path, script) as codex_gateway:
        codex_gateway.gateway.client.headers.update(captured.CLIENT)
        body = BODIES["01-first-turn-unknown-model"]
        events = await codex_gateway.stream(**{**body, "model": "up/m"})
        called = {
            (call.get("namespace"), call["name"]) for call in items_of_type(events, "function_call")
        }
        offered = {
            (tool["name"] if tool["type"] == "namespace" else None, each["name"])
            for tool in body["tools"]
            if tool["type"] in ("function", "namespace")
            for each in tool.get("tools", [tool])
        }
        assert called == offered


MODEL_INFO = """
    slug display_name supported_reasoning_levels shell_type visibility supported_in_api priority
    support_verbosity truncation_policy experimental_supported_tools base_instructions
""".split()


async def test_the_catalog_has_the_fields_that_codex_reads(codex_gateway: CheckedGateway) -> None:
    url = f"{codex_gateway.gateway.base_url}/models?client_version=0.166.0"
    async with codex_gateway.gateway.client.get(url) as response:
        catalog = (await response.json())["models"]
    assert catalog
    assert [name for model in catalog for name in MODEL_INFO if model.get(name) is None] == []
    assert {model["apply_patch_tool_type"] for model in catalog} == {"freeform"}
