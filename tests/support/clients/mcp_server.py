"""A server of the Model Context Protocol with one tool, on standard input and output."""

from __future__ import annotations

import json
import sys
from typing import Any

ADD = {
    "name": "add",
    "description": "Adds two numbers.",
    "inputSchema": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "sums", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [ADD]}
    if method == "tools/call":
        given = params["arguments"]
        text = f"the sum is {given['a'] + given['b']}"
        return {"content": [{"type": "text", "text": text}], "isError": False}
    return {}


def serve() -> None:
    """Serve one JSON-RPC message a line; notifications (without id) get no answer."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            result = answer(message["method"], message.get("params", {}))
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    serve()
