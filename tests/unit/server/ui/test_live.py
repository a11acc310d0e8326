"""Live updates: rows that match the filter, snapshots, keep-alives, and the end of the process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from msgspec import Struct

from antiphon.server.ui.live import LiveBody, LiveNow
from tests.support.applications import OpenApplication, error_of, open_application
from tests.support.pages.api import ask, ask_json, traced_application


def read_event(frame: bytes) -> tuple[str, Any]:
    name, data = frame.decode().strip().split("\n")
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


async def read_events(opened: OpenApplication, query: str, count: int) -> list[tuple[str, Any]]:
    """The first events of a live stream; the application is used while it is read."""
    response = await ask(opened, "/ui/api/live", query=query)
    assert response.headers["content-type"] == "text/event-stream"
    body = response.body
    assert isinstance(body, LiveBody)
    found: list[tuple[str, Any]] = []
    async with aclosing(aiter(body)) as frames:
        assert (await anext(frames)).startswith(b":")
        await opened.create()
        async for frame in frames:
            found.append(read_event(frame))
            if len(found) == count:
                break
    return found


async def test_the_state_of_now_is_sent(tmp_path: Path) -> None:
    async with traced_application(tmp_path) as opened:
        [(name, event)] = await read_events(opened, "view=now", 1)
    assert (name, event["type"], event["now"]["traced"]) == ("now", "now", True)


async def test_rows_arrive_if_they_match_the_filter(tmp_path: Path) -> None:
    async with traced_application(tmp_path) as opened:
        [(name, event)] = await read_events(opened, "client=local&status=completed", 1)
    assert (name, event["missed"]) == ("rows", False)
    [row] = event["rows"]
    assert (row["client"], row["model"], row["status"]) == ("local", "echo/echo", "completed")


async def test_a_row_that_matches_no_longer_is_gone(tmp_path: Path) -> None:
    async with traced_application(tmp_path) as opened:
        [(_, event)] = await read_events(opened, "status=running", 1)
        shown = await ask_json(opened, "requests")
    assert (event["rows"], event["gone"]) == ([], [shown["rows"][0]["seq"]])


async def test_an_unknown_view_is_refused() -> None:
    async with open_application() as opened:
        response = await ask(opened, "/ui/api/live", query="view=later")
    assert (response.status, error_of(response)["param"]) == (400, "view")


def poll_of(events: list[Struct | None], stopping: asyncio.Event) -> Callable[[], Awaitable[Any]]:
    async def poll() -> Struct | None:
        event = events.pop(0)
        if not events:
            stopping.set()
        return event

    return poll


async def test_silence_is_broken_by_comments_and_the_process_ends_the_stream() -> None:
    stopping = asyncio.Event()
    events: list[Struct | None] = [LiveNow({}), *[None] * 15]
    body = LiveBody(poll_of(events, stopping), stopping, every_s=0.001)
    written: list[bytes] = []

    async def write(data: bytes) -> None:
        written.append(data)

    await body.write_to(write)
    await body.close()
    assert [frame[:1] for frame in written] == [b":", b"e", b":"]


async def test_a_gateway_that_stops_accepting_ends_live_updates(tmp_path: Path) -> None:
    async with traced_application(tmp_path) as opened:
        response = await ask(opened, "/ui/api/live")
        opened.application.process.stop_accepting()
        assert isinstance(response.body, LiveBody)
        frames = [frame async for frame in response.body]
    assert len(frames) == 1
