"""A gateway for tests and pictures of the page: two scripted providers, and payloads are kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from antiphon.config import parse_config
from tests.support.gateways import Running, running
from tests.support.pages.api import own_files
from tests.support.upstream import Connection, ReceivedRequest, upstream

ANSWER = "A canon is a melody that several voices sing one after another, each a little later."
THINKING = "The question is about music. A short definition is enough."
LISTED = "preview-model"
"""A model that only the providers' own lists name."""
BUSY = "The engine is currently overloaded, please try again later"

_CONFIG = """\
default_provider = "deepseek"

[server]
port = 0
{server}
[providers.deepseek]
base_url = "{url}"
api_keys = ["${{DEEPSEEK_API_KEY}}", "sk-second-key"]

[providers.zhipu]
base_url = "{url}/zhipu"
api_keys = ["sk-zhipu"]

[models]
smart = "zhipu/glm-5.3"
fast = "deepseek/deepseek-flash"

[fallbacks]
smart = ["deepseek/deepseek-v4-pro"]

[prices."deepseek/deepseek-v4-pro"]
input = 0.6
cached_input = 0.06
output = 2.2

[prices."zhipu/glm-5.3"]
input = 0.9
output = 3.1

[attempts]
max_attempts = 5
backoff_s = 0.05

[store]
url = "sqlite:///{directory}/turns.db"

[trace]
path = "{directory}/trace.db"
payloads = {payloads}

[capsule]
keys = ["a key that only tests use"]
"""
ENVIRONMENT = {"DEEPSEEK_API_KEY": "sk-deepseek"}


def _chunk(delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    document = {"id": "chatcmpl-1", "model": "deepseek-v4-pro", "choices": [choice], **more}
    return b"data: " + json.dumps(document).encode() + b"\n\n"


async def answer(request: ReceivedRequest, connection: Connection) -> None:
    """Answer as a chat provider; the second provider is always busy."""
    await connection.pause(0.06)
    if "/zhipu" in request.path:
        await connection.head(503, content_type="application/json")
        await connection.send(json.dumps({"error": {"message": BUSY}}).encode())
        return await connection.end()
    await connection.head()
    for word in THINKING.split(" "):
        await connection.send(_chunk({"reasoning_content": word + " "}))
        await connection.pause(0.02)
    for word in _words(request):
        await connection.send(_chunk({"content": word}))
        await connection.pause(0.04)
    usage = {"prompt_tokens": 812, "completion_tokens": 64, "total_tokens": 876}
    usage["prompt_cache_hit_tokens"] = 640
    await connection.send(_chunk({}, "stop", usage=usage) + b"data: [DONE]\n\n")
    return await connection.end()


TOOL: Mapping[str, Any] = {
    "type": "function",
    "name": "exec_command",
    "parameters": {
        "type": "object",
        "properties": {"cmd": {"type": "string"}, "cwd": {"type": "string"}},
        "required": ["cmd"],
    },
}
"""The tool that `act` calls."""
GOOD_CALL = '{"cmd": "ls -la"}'
WRONG_CALL = '{"command": "ls -la"}'


async def act(request: ReceivedRequest, connection: Connection) -> None:
    """Answer by what the request says: `call` and `wrong call` call the tool, `cut` ends in the
    middle of a sentence, `long` is cut off by the model's limit; everything else as `answer`."""
    text = str(request.body["messages"][-1]["content"])
    if "/zhipu" in request.path or not any(word in text for word in ("call", "cut", "long")):
        return await answer(request, connection)
    await connection.head()
    if "call" in text:
        await _send_call(connection, WRONG_CALL if "wrong" in text else GOOD_CALL)
        return await connection.end()
    for word in ANSWER.split(" ")[:9]:
        await connection.send(_chunk({"content": f"{word} "}))
        await connection.pause(0.02)
    if "long" in text:
        await connection.send(_chunk({}, "length") + b"data: [DONE]\n\n")
        return await connection.end()
    connection.cut()
    return None


async def _send_call(connection: Connection, arguments: str) -> None:
    await connection.send(_chunk({"reasoning_content": THINKING}))
    function = {"name": TOOL["name"], "arguments": ""}
    begin = {"index": 0, "id": "call_1", "type": "function", "function": function}
    await connection.send(_chunk({"tool_calls": [begin]}))
    for start in range(0, len(arguments), 4):
        await connection.pause(0.02)
        piece = {"index": 0, "function": {"arguments": arguments[start : start + 4]}}
        await connection.send(_chunk({"tool_calls": [piece]}))
    usage = {"prompt_tokens": 900, "completion_tokens": 30, "total_tokens": 930}
    await connection.send(_chunk({}, "tool_calls", usage=usage) + b"data: [DONE]\n\n")


class HeldAnswers:
    """Answers as `answer` does; what says `wait` is answered when the test allows it, however slow
    the page is to show that it runs."""

    def __init__(self) -> None:
        self._go_on = asyncio.Event()
        self._go_on.set()

    async def __call__(self, request: ReceivedRequest, connection: Connection) -> None:
        if "wait" in str(request.body["messages"][-1]["content"]):
            await self._go_on.wait()
        await answer(request, connection)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the answers until the block ends, so that no request stays behind for other
        tests."""
        self._go_on.clear()
        try:
            yield
        finally:
            self._go_on.set()


def _words(request: ReceivedRequest) -> list[str]:
    """The words of the answer; a request may say which with `say: …`."""
    last = str(request.body["messages"][-1]["content"])
    text = last.partition("say: ")[2] or ANSWER
    return [f"{word} " for word in text.split(" ")]


@asynccontextmanager
async def sample_gateway(
    directory: Path,
    *,
    payloads: bool = True,
    server: str = "",
    script: Any = answer,
    name: str = "",
    models: Sequence[str] = (LISTED,),
) -> AsyncIterator[Running]:
    """Run it; `models` is what the list of each provider names."""
    async with upstream(script, models) as provider:
        path = directory / "antiphon.toml"
        kept = "true" if payloads else "false"
        text = _CONFIG.format(url=provider.url, directory=directory, payloads=kept, server=server)
        path.write_text(text)
        config = parse_config(text, ENVIRONMENT, name=name or str(path))
        async with running(config, environment=own_files(directory)) as gateway:
            yield gateway


REQUEST: Mapping[str, Any] = {
    "model": "smart",
    "input": "What is a canon in music?",
    "instructions": "Answer in one sentence.",
    "reasoning": {"effort": "minimal"},
    "presence_penalty": 0.5,
    "text": {"verbosity": "low"},
}
"""A request whose first provider fails, and that is answered with diagnostics."""
