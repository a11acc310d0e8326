"""Misbehaving upstreams in every client format: exactly one end, and the same one for all.

Every scenario runs three times, once for a client of each format. Each sees a well-formed stream
with one end, or an HTTP error in the shape of its format; and all of them see the same content.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import anthropic
import openai
import pytest
from anthropic import AsyncAnthropic

from tests.e2e.test_known_defects_stream import NAMELESS, NOTHING_USABLE
from tests.e2e.test_upstream_disconnects import INVENTED, disconnect_after
from tests.support.format_judges import FORMATS, Seen
from tests.support.openai_client import openai_client
from tests.support.shared_gateway import UVLOOP, SharedGateway, open_shared_gateway
from tests.support.upstream import DONE, HELLO, Script, chunk, frame, send_frames, send_json, usage


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


@pytest.fixture(scope="module")
async def shared_gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedGateway]:
    async with open_shared_gateway(tmp_path_factory.mktemp("formats")) as shared_gateway:
        yield shared_gateway


async def see(shared: SharedGateway, script: Script, format: str, *, stream: bool = True) -> Seen:
    """Ask in a format; return what its client sees."""
    spoken = FORMATS[format]
    body = {"model": shared.add_script(script), "stream": stream, **spoken.body}
    gateway = shared.gateway
    async with gateway.client.post(gateway.base_url + spoken.path, json=body) as answer:
        data = await answer.read()
        if answer.content_type == "text/event-stream":
            assert stream
            return spoken.see(answer.status, data)
        error: dict[str, Any] = await answer.json()
        if answer.status == 200:
            assert not stream
            return spoken.see_whole(error)
        assert error["error"]["message"]
        assert (error.get("type") == "error") == (format == "messages")
        assert answer.status >= 400
        return Seen(0, "error")  # the status is that of the format


CALLS = INVENTED["calls"]
REFUSED = (chunk({"refusal": "I would"}), chunk({"refusal": " rather not."}), chunk({}, "stop"))
SCENARIOS: dict[str, Sequence[bytes]] = {
    **NOTHING_USABLE,
    "a nameless call": (*HELLO, chunk(NAMELESS), chunk({}, "tool_calls"), usage(), DONE),
    "a call that is cut by the limit": (*CALLS[:3], chunk({}, "length"), usage(), DONE),
    "a filtered answer": (*HELLO, chunk({}, "content_filter"), usage(), DONE),
    "calls that end with stop": (*CALLS[:6], chunk({}, "stop"), usage(), DONE),
    "an unknown finish reason": (*HELLO, chunk({}, "whatever"), usage(), DONE),
    "unreadable frames": (*HELLO, b"data: {nope}\n\n", chunk({}, "stop"), DONE),
    "no usage": (*HELLO, chunk({}, "stop"), DONE),
    "no end marker": (*HELLO, chunk({}, "stop"), usage()),
    "output after the finish reason": (*HELLO, chunk({}, "stop"), chunk({"content": "!"}), DONE),
    "a rate limit inside": (*HELLO, frame({"error": {"message": "slow down", "code": 429}})),
    "a refusal": (*REFUSED, usage(), DONE),
    "null everywhere": (chunk({"content": None, "tool_calls": None}), *HELLO, chunk({}, "stop")),
}


@pytest.mark.parametrize("name", SCENARIOS)
async def test_every_format_has_one_end_and_the_same(
    shared_gateway: SharedGateway, name: str
) -> None:
    script = send_frames(SCENARIOS[name])
    seen = {format: await see(shared_gateway, script, format) for format in FORMATS}
    assert seen["chat"] == seen["messages"] == seen["responses"]


@pytest.mark.parametrize("ending", ["end", "cut"])
@pytest.mark.parametrize("name", INVENTED)
async def test_an_upstream_cut_at_any_chunk_ends_alike_in_every_format(
    shared_gateway: SharedGateway, name: str, ending: str
) -> None:
    frames = INVENTED[name]
    for count in range(len(frames) + 1):
        script = disconnect_after(frames[:count], ending)
        seen = {format: await see(shared_gateway, script, format) for format in FORMATS}
        assert seen["chat"] == seen["messages"] == seen["responses"], count
    assert not shared_gateway.gateway.engine.active


STATUSES: dict[int, tuple[type[Exception], type[Exception]]] = {
    400: (openai.BadRequestError, anthropic.BadRequestError),
    401: (openai.InternalServerError, anthropic.InternalServerError),
    402: (openai.RateLimitError, anthropic.APIStatusError),
    403: (openai.InternalServerError, anthropic.InternalServerError),
    404: (openai.NotFoundError, anthropic.NotFoundError),
    429: (openai.RateLimitError, anthropic.RateLimitError),
    500: (openai.InternalServerError, anthropic.InternalServerError),
    503: (openai.InternalServerError, anthropic.InternalServerError),
    529: (openai.InternalServerError, anthropic.InternalServerError),
}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_failed_provider_is_the_exception_that_each_sdk_has_for_it(
    shared_gateway: SharedGateway, stream: bool
) -> None:
    gateway = shared_gateway.gateway
    url = gateway.base_url.removesuffix("/v1")
    messages: Any = [{"role": "user", "content": "Hello?"}]
    async with (
        openai_client(gateway) as chat,
        AsyncAnthropic(base_url=url, api_key="sk", max_retries=0) as anthropic_client,
    ):
        for status, (chat_error, messages_error) in STATUSES.items():
            model = shared_gateway.add_script(send_json(status, {"error": {"message": "No."}}))
            fields: Any = {"model": model, "messages": messages, "stream": stream}
            with pytest.raises(chat_error):
                await chat.chat.completions.create(**fields)
            with pytest.raises(messages_error):
                await anthropic_client.messages.create(max_tokens=10, **fields)
