"""Streams end properly, whatever the upstream does: themes 3, 11, 16, 17, 27."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.config import ModelConfig
from tests.support.checked_gateway import (
    check_events,
    checked_gateway,
    configured,
    event_types,
    final_response,
    items_of_type,
    text,
)
from tests.support.demand_scripts import scripts_in_turn
from tests.support.upstream import (
    DONE,
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    chunk,
    send_frames,
    usage,
)


@pytest.mark.parametrize("event_count", range(1, len(HELLO_WORLD) + 1))
@pytest.mark.parametrize("rude", [False, True])
async def test_theme_03_a_stream_never_closes_before_its_terminal_event(
    tmp_path: Path, event_count: int, rude: bool
) -> None:
    """Wherever the upstream disconnects, the client gets one terminal event."""

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        for frame in HELLO_WORLD[:event_count]:
            await connection.send(frame)
        if rude:
            connection.cut()
        else:
            await connection.end()

    async with checked_gateway(tmp_path, script) as setup:
        url = f"{setup.gateway.base_url}/responses"
        body = {"model": "m", "input": "Hi", "stream": True}
        async with setup.gateway.client.post(url, json=body) as response:
            if response.status == 200:
                assert response.headers["x-accel-buffering"] == "no"
                assert (await response.text()).count('"type":"response.completed"') <= 1
                return
            assert (await response.json())["error"]["message"]


async def test_theme_11_keep_alives_are_events(tmp_path: Path) -> None:
    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        await connection.send(HELLO_WORLD[1])
        await connection.pause(0.3)
        for frame in HELLO_WORLD[2:]:
            await connection.send(frame)
        await connection.end()

    async with checked_gateway(tmp_path, script, keepalive_s=0.05) as setup:
        events = await setup.stream()
    assert event_types(events).count("keepalive") >= 2
    assert text(final_response(events)) == "Hello, world"


THOUGHT = (chunk({"reasoning_content": "The answer is 4."}), chunk({}, "stop"), usage(), DONE)


async def test_theme_16_a_reasoning_only_turn_is_asked_for_its_answer(tmp_path: Path) -> None:
    async with checked_gateway(
        tmp_path, scripts_in_turn(send_frames(THOUGHT), send_frames(HELLO_WORLD))
    ) as setup:
        events = await setup.stream()
        assert len(setup.upstream.requests) == 2
    assert text(final_response(events)) == "Hello, world"
    assert final_response(events)["usage"]["total_tokens"] == 20


async def test_theme_16_a_turn_that_stays_empty_has_a_diagnostic(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, send_frames(THOUGHT)) as setup:
        await setup.stream()
        assert len(setup.upstream.requests) == 2
        assert "answer.empty" in str([entry.facts for entry in setup.gateway.log])


async def test_theme_17_think_tags_do_not_leak_into_the_answer(tmp_path: Path) -> None:
    content = "<think>Two and two.</think>Four."
    frames = [chunk({"content": letter}) for letter in content]
    script = send_frames((*frames, chunk({}, "stop"), usage(), DONE))
    models = {"*": ModelConfig(guards=["think"])}
    async with configured(tmp_path, script, models=models) as setup:
        events = await setup.stream()
    assert text(final_response(events)) == "Four."
    assert items_of_type(events, "reasoning")[0]["content"][0]["text"] == "Two and two."


@pytest.mark.parametrize(
    ("counts", "total"),
    [
        ({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}, 10),
        ({"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": None}, 10),
        ({"prompt_tokens": None, "completion_tokens": 3}, 3),
    ],
)
async def test_theme_27_usage_is_made_of_numbers_and_may_come_late(
    tmp_path: Path, counts: dict[str, object], total: int
) -> None:
    late = chunk({}, None, usage=counts)
    script = send_frames((*HELLO_WORLD[:3], chunk({}, "stop"), late, DONE))
    async with checked_gateway(tmp_path, script) as setup:
        actual = final_response(await setup.stream())["usage"]
    assert actual["total_tokens"] == total
    assert isinstance(actual["input_tokens_details"]["cached_tokens"], int)


async def test_theme_27_missing_usage_is_estimated(tmp_path: Path) -> None:
    script = send_frames((*HELLO_WORLD[:3], chunk({}, "stop"), DONE))
    async with checked_gateway(tmp_path, script) as setup:
        short = final_response(
            check_events(await setup.gateway.stream({"model": "m", "input": "Hi"}))
        )
        long = final_response(await setup.stream(input="Hi " * 4000))
        assert "usage.estimated" in str([entry.facts for entry in setup.gateway.log])
    assert 0 < short["usage"]["input_tokens"] < 200
    assert long["usage"]["input_tokens"] > 2500
