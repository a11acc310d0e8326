"""Codex CLI: a connection that is lost within a stream; its retry gets the rest of the response."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.codex import CODEX, Codex
from tests.support.clients.gateway import client_gateway
from tests.support.clients.scripted_model import Dialect, RecordedReply
from tests.support.clients.stream_proxy import stream_proxy
from tests.support.corpus import ABSENT, Case, cases, root
from tests.support.recordings import answers
from tests.support.upstream import DONE, chunk, usage

WORDS = [f"{word} " for word in "one two three four five six seven eight nine ten".split()]
SYNTHETIC = [*(chunk({"content": word}) for word in WORDS), chunk({}, "stop"), usage(), DONE]
COUNT = 10
_OTHER_OUTPUT = ("tool_calls", "reasoning_content", "reasoning")


def frames_of(case: Case) -> list[bytes]:
    return [frame + b"\n\n" for frame in case.data.split(b"\n\n") if frame.strip()]


def text_of(frames: list[bytes]) -> list[str]:
    """The texts of a recording, one per frame; empty where it is anything but plain text."""
    texts = []
    for frame in frames:
        data = frame.partition(b"data:")[2].strip()
        if not data.startswith(b"{"):
            continue
        for choice in json.loads(data).get("choices", ()):
            delta = choice.get("delta") or {}
            text = delta.get("content") or ""
            if not isinstance(text, str) or any(map(delta.get, _OTHER_OUTPUT)):
                return []
            texts.append(text)
    return [text for text in texts if text]


def _select() -> list[Any]:
    """Three recordings of plain text with enough pieces, of different models."""
    if root() is None:
        return [pytest.param(SYNTHETIC, id=ABSENT)]
    found = [
        case for case in answers(cases("chat", wire="sse")) if 20 <= len(frames_of(case)) <= 60
    ]
    usable = [case for case in found if len(text_of(frames_of(case))) > COUNT + 4]
    return [pytest.param(frames_of(case), id=case.id) for case in usable[:: len(usable) // 3][:3]]


@CODEX.does("dropped connection, re-attached", "chat")
@pytest.mark.parametrize("frames", _select())
async def test_a_lost_connection_does_not_bill_twice(
    tmp_path: Path, dialect: Dialect, frames: list[bytes]
) -> None:
    """Cut after each of ten events, with the provider still generating: it is asked once a turn."""
    text = "".join(text_of(frames))

    async def wait() -> None:
        await proxy.is_attached.wait()

    script = [RecordedReply(frames, wait) for _ in range(COUNT)]
    async with client_gateway(tmp_path, dialect, script) as setup, stream_proxy(setup) as proxy:
        codex = await Codex.at(proxy.gateway)
        for number in range(COUNT):
            proxy.cut_next(1 + number * (len(text_of(frames)) + 2) // COUNT)
            ran = await codex.exec("Hello?")
            assert (ran.status, ran.messages) == (0, [text])
            [complaint] = ran.complaints
            assert complaint.startswith("Reconnecting... 1/5")
            cut, whole = proxy.streams[-2:]
            assert whole[: len(cut)] == cut
            assert proxy.attached[-2:] == ["", cut[0]["response"]["id"]]
        assert len(setup.requests) == COUNT
