"""Scripts and history items shared by the tests of demands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.scripted_providers.scripted_provider import ScriptedProvider
from tests.support.upstream import Connection, ReceivedRequest, Script

Document = dict[str, Any]


def scripts_in_turn(*scripts: Script) -> Script:
    """Make a script that runs the next script for each request, and then repeats the last."""
    left = list(scripts)

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(request, connection)

    return script


def native_turns(scripted: ScriptedProvider, turns: Sequence[Any]) -> Script:
    """Make a script that streams these turns in the native format, one for each request."""
    left = iter(turns)

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head(content_type=scripted.content_type)
        await connection.send(scripted.stream_bytes(next(left)))
        await connection.end()

    return script


def user(text: str) -> Document:
    return {"type": "message", "role": "user", "content": text}


def function(name: str, **properties: str) -> Document:
    """A tool whose arguments are of these types."""
    typed = {each: {"type": kind} for each, kind in properties.items()}
    parameters = {"type": "object", "properties": typed}
    return {"type": "function", "name": name, "parameters": parameters}


def function_call(call_id: str, name: str, arguments: str = "{}") -> Document:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def function_call_output(call_id: str, output: Any = "done") -> Document:
    return {"type": "function_call_output", "call_id": call_id, "output": output}
