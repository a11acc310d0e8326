"""A gateway without `[mcp]` loads nothing of it; a request without servers runs nothing of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import antiphon
from antiphon.config import McpConfig, TraceConfig
from tests.support.gateways import replaced, running, settings

PROGRAM = """
import asyncio, json, sys
from pathlib import Path
from antiphon.config import McpConfig
from tests.support.gateways import replaced, running, settings

ALLOWED = {allowed!r}
QUESTION = [{{"role": "user", "content": "Hello?"}}]
REQUESTS = [
    ("responses", {{"input": QUESTION}}),
    ("messages", {{"messages": QUESTION, "max_tokens": 99}}),
    ("chat/completions", {{"messages": QUESTION}}),
    ("responses", {{"input": QUESTION, "tools": [{{"type": "mcp", "server_label": "a"}}]}}),
]

async def main():
    config = replaced(settings(Path(sys.argv[1])), mcp=McpConfig(allow=ALLOWED))
    async with running(config) as gateway:
        for path, body in REQUESTS:
            for stream in (False, True):
                document = {{"model": "echo/echo", "stream": stream, **body}}
                url = f"{{gateway.base_url}}/{{path}}"
                async with gateway.client.post(url, json=document) as response:
                    await response.read()
                    print(response.status)

asyncio.run(main())
print(json.dumps([*sys.modules]))
"""
OF_THE_CLIENT = ("mcp", "mcp_types", "httpx2", "httpcore2", "pydantic", "anyio")


@pytest.mark.parametrize("allowed", [[], ["https://sky.example/mcp"]], ids=["without", "with"])
def test_only_a_gateway_with_servers_loads_their_client(tmp_path: Path, allowed: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(allowed=allowed), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    *statuses, modules = done.stdout.splitlines()
    assert statuses == ["200"] * 6 + ["400"] * 2
    own = {name for name in json.loads(modules) if name.startswith("antiphon.mcp.")}
    others = {name for name in json.loads(modules) if name.partition(".")[0] in OF_THE_CLIENT}
    if allowed:
        assert own > {"antiphon.mcp.session", "antiphon.mcp.client"}
        assert "mcp" in others
    else:
        assert (own, others) == ({"antiphon.mcp.open_client"}, set())


SOURCE = Path(antiphon.__file__).parent


@contextmanager
def functions_called() -> Iterator[set[str]]:
    """The functions of the gateway that run within the block, each with its file."""
    called: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(SOURCE)):
            called.add(f"{path.removeprefix(f'{SOURCE}/')} {frame.f_code.co_name}")

    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(None)


QUESTION = [{"role": "user", "content": "Hello?"}]
SCHEMA = {"type": "object", "properties": {}}
FUNCTION: dict[str, Any] = {"name": "read", "parameters": SCHEMA}
REQUESTS: dict[str, dict[str, Any]] = {
    "responses": {"input": QUESTION, "tools": [{"type": "function", **FUNCTION}]},
    "messages": {
        "messages": QUESTION,
        "max_tokens": 99,
        "tools": [{"name": "read", "input_schema": SCHEMA}],
    },
    "chat/completions": {
        "messages": QUESTION,
        "tools": [{"type": "function", "function": FUNCTION}],
    },
}


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("path", REQUESTS)
async def test_a_request_without_servers_runs_nothing_for_them(
    tmp_path: Path, path: str, stream: bool
) -> None:
    config = replaced(
        settings(tmp_path),
        mcp=McpConfig(allow=["https://sky.example/mcp"]),
        trace=TraceConfig(enabled=False),
    )
    async with running(config) as gateway:
        document = {"model": "echo/echo", "stream": stream, **REQUESTS[path]}
        with functions_called() as called:
            async with gateway.client.post(f"{gateway.base_url}/{path}", json=document) as response:
                assert response.status == 200, await response.text()
                await response.read()
    assert "core/plan/declare_tools.py declare_tools" in called
    assert [each for each in called if "mcp" in each] == []
