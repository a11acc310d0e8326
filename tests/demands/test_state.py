"""Reasoning state, prompt prefixes and call ids: themes 1, 2, 4, 7, 8, 19, 24, 28."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.checked_gateway import CheckedGateway, check_events, configured, final_response
from tests.support.demand_scripts import (
    Document,
    function,
    function_call,
    function_call_output,
    native_turns,
    user,
)
from tests.support.scripted_providers.anthropic import ScriptedAnthropic
from tests.support.scripted_providers.chat import ScriptedChat
from tests.support.scripted_providers.gemini import ScriptedGemini
from tests.support.scripted_providers.responses import ScriptedResponses
from tests.support.scripted_providers.scripted_provider import ScriptedProvider, native_tail
from tests.support.scripted_providers.session import (
    SESSION,
    Turn,
    echo_items,
    request_body,
    result_items,
)
from tests.support.upstream import HELLO_WORLD, send_frames


async def two_turns(setup: CheckedGateway, model: str) -> None:
    """A turn with reasoning and two parallel calls, and the turn with their results."""
    first = [user(SESSION[0].user)]
    output = await continue_thread(setup, model, first)
    await continue_thread(
        setup, model, [*first, *echo_items(output), *result_items(output, SESSION[0])]
    )


async def continue_thread(
    setup: CheckedGateway, model: str, items: list[Document]
) -> list[Document]:
    events = check_events(
        await setup.gateway.stream(request_body(f"up/{model}", items, store=False))
    )
    assert final_response(events)["status"] == "completed"
    output: list[Document] = final_response(events)["output"]
    return output


async def is_native(tmp_path: Path, scripted: ScriptedProvider, kind: str, model: str) -> bool:
    """Whether the second request ends, to the byte, as the provider's own client would send it."""
    async with configured(tmp_path, native_turns(scripted, SESSION), kind=kind) as setup:
        await two_turns(setup, model)
        return setup.upstream.requests[-1].raw.endswith(native_tail(scripted, SESSION[:2]))


async def test_theme_01_reasoning_content_is_replayed_in_position(tmp_path: Path) -> None:
    scripted = ScriptedChat("deepseek", "tool_turns")
    assert await is_native(tmp_path, scripted, "deepseek", "deepseek-v4-pro")


async def test_theme_02_thought_signatures_of_gemini_come_back_on_their_parts(
    tmp_path: Path,
) -> None:
    assert await is_native(tmp_path, ScriptedGemini(), "gemini", "gemini-3-pro-preview")


async def test_theme_19_thinking_signatures_of_anthropic_come_back_whole(tmp_path: Path) -> None:
    assert await is_native(tmp_path, ScriptedAnthropic(), "anthropic", "claude-sonnet-4-5")


@pytest.mark.parametrize("encrypted", ["gAAAAAB-of-somebody-else", "ap1.c29tZXRoaW5n"])
async def test_theme_04_foreign_encrypted_content_is_left_out_with_a_diagnostic(
    tmp_path: Path, encrypted: str
) -> None:
    """An upstream that validates such content would reject every later request of the thread."""
    thought = {
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm."}],
        "encrypted_content": encrypted,
    }
    thread = [
        user("Hi"),
        thought,
        function_call("c1", "f"),
        function_call_output("c1"),
        user("Go on"),
    ]
    scripted = ScriptedResponses()
    async with configured(tmp_path, native_turns(scripted, SESSION[2:3]), kind="openai") as setup:
        body = {"model": "up/gpt-5.4", "input": thread, "tools": [function("f")], "store": False}
        async with setup.gateway.client.post(
            f"{setup.gateway.base_url}/responses", json={**body, "stream": True}
        ) as response:
            assert response.status == 200
            assert "capsule.unused" in response.headers["antiphon-diagnostics"]
        sent = setup.upstream.requests[-1].raw
        assert encrypted.encode() not in sent
        assert scripted.problems(sent) == []


async def test_theme_07_remote_compaction_gives_one_item_that_is_continued(tmp_path: Path) -> None:
    summary = Turn(1, text="The word is heron.")
    for kind, model, scripted in NEXT:
        script = native_turns(scripted, [summary, summary, Turn(2, text="Heron.")])
        async with configured(tmp_path / kind, script, kind=kind) as setup:
            thread = [user("The word?"), {"type": "compaction_trigger"}]
            [item] = await continue_thread(setup, model, thread)
            assert item["type"] == "compaction"
            await continue_thread(setup, model, [user("The word?"), item])
            assert "The word is heron." in setup.upstream.requests[-1].raw.decode()


async def test_theme_08_a_longer_thread_begins_with_the_bytes_of_the_shorter_one(
    tmp_path: Path,
) -> None:
    scripted = ScriptedChat("deepseek", "tool_turns")
    script = native_turns(scripted, SESSION)
    async with configured(tmp_path, script, kind="deepseek") as setup:
        items: list[Document] = []
        output: list[Document] = []
        for place, turn in enumerate(SESSION):
            items += [user(turn.user)] if turn.user else result_items(output, SESSION[place - 1])
            output = await continue_thread(setup, "deepseek-v4-pro", items)
            items += echo_items(output)
        bodies = [each.raw.removesuffix(b"]}") for each in setup.upstream.requests]
        for shorter, longer in pairwise(bodies):
            assert longer.startswith(shorter)


async def test_theme_24_a_thread_continues_with_another_model(tmp_path: Path) -> None:
    """State of one provider in the thread does not fail the next one."""
    left: list[Document] = []
    one = native_turns(ScriptedAnthropic(), SESSION)
    async with configured(tmp_path / "one", one, kind="anthropic") as setup:
        left = await continue_thread(setup, "claude-sonnet-4-5", [user(SESSION[0].user)])
    thread = [user(SESSION[0].user), *echo_items(left), *result_items(left, SESSION[0])]
    for kind, model, scripted in NEXT:
        script = native_turns(scripted, SESSION[2:3])
        async with configured(tmp_path / kind, script, kind=kind) as setup:
            await continue_thread(setup, model, thread)
            assert scripted.problems(setup.upstream.requests[-1].raw) == []


NEXT: list[tuple[str, str, ScriptedProvider]] = [
    ("gemini", "gemini-3-pro-preview", ScriptedGemini()),
    ("openai", "gpt-5.4", ScriptedResponses()),
    ("chat", "m", ScriptedChat()),
]


@pytest.mark.parametrize(
    ("kind", "model", "fits"),
    [("mistral", "mistral-large-latest", r"^[a-zA-Z0-9]{9}$"), ("chat", "m", r"^call_1$")],
)
async def test_theme_28_call_ids_follow_the_rules_of_the_provider(
    tmp_path: Path, kind: str, model: str, fits: str
) -> None:
    thread: list[Any] = [user("Hi"), function_call("call_1", "f"), function_call_output("call_1")]
    async with configured(tmp_path, send_frames(HELLO_WORLD), kind=kind) as setup:
        await setup.stream(model=f"up/{model}", input=thread, tools=[function("f")])
        call, answer = setup.last_body["messages"][-2:]
        assert re.search(fits, call["tool_calls"][0]["id"])
        assert call["tool_calls"][0]["id"] == answer["tool_call_id"]
