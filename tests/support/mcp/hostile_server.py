"""An MCP server, and a model, whose every text attacks the page and the terminal that show it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.mcp.raw_servers import Request, http, raw_server, result, session_of
from tests.support.mcp.sessions import configure
from tests.support.rounds import RoundsGateway, call_delta, round_script, rounds_gateway, text_delta
from tests.support.upstream import Connection, ReceivedRequest, Script

MARKUP = '"\'><img src=x onerror="window.attacked=1"><script>window.attacked=1</script>'
ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\r\x08"
"""Clear the screen, set the title of the window, change the colour."""
HOSTILE = f"{MARKUP}<svg onload=window.attacked=1>{ESCAPES}"
NAME = "<img src=x onerror=window.attacked=1>"
"""Of a tool: a name with control characters is not accepted."""
TOOL: dict[str, Any] = {"type": "mcp", "server_label": "tests", "require_approval": "never"}


def serve(request: Request) -> Iterable[bytes]:
    """One tool; its first result is a text, the second an error, the third one of the protocol."""
    if request.message["method"] == "tools/list":
        schema = {"type": "object", "properties": {HOSTILE: {"description": HOSTILE}}}
        return result(
            request, {"tools": [{"name": NAME, "description": HOSTILE, "inputSchema": schema}]}
        )
    number = request.message["params"]["arguments"]["number"]
    if number == 3:
        error = {"code": -32000, "message": HOSTILE}
        document = {"jsonrpc": "2.0", "id": request.message["id"], "error": error}
        return http(200, json.dumps(document).encode())
    return result(request, {"content": [{"type": "text", "text": HOSTILE}], "isError": number == 2})


def call_all() -> Script:
    """A model that calls the tool three times, by the name that the gateway has given it."""

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        name = request.body["tools"][0]["function"]["name"]
        calls = [
            (f"call_{number}", name, json.dumps({"number": number, "city": HOSTILE}))
            for number in (1, 2, 3)
        ]
        await round_script(call_delta(*calls))(request, connection)

    return script


@asynccontextmanager
async def hostile_gateway(directory: Path) -> AsyncIterator[tuple[RoundsGateway, str]]:
    """A gateway that keeps payloads, and the id of a request with three such calls."""
    answer = round_script(text_delta(HOSTILE))
    async with (
        raw_server(session_of(serve)) as server,
        rounds_gateway(
            directory, call_all(), answer, mcp=configure(server.url), payloads=True
        ) as setup,
    ):
        seen = await setup.post_request(stream=True, tools=[TOOL])
        assert seen.response["status"] == "completed"
        yield setup, seen.headers["x-request-id"]
