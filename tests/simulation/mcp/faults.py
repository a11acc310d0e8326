"""Faults of MCP servers: how one reply goes wrong, at each step of the protocol.

A reply is a script for the connection of the request and, with the older transport, another one for
the stream on which the server sends its messages.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from tests.simulation.mcp.plan import TOOLS, Style, Tool
from tests.simulation.mcp.records import Document, Reply
from tests.simulation.upstream_faults import Script, Step, head

JSON = "application/json"
EVENTS = "text/event-stream"
_LARGE = 300_000  # bytes, more than the gateway reads of any reply
_STATUSES = (401, 403, 429, 500, 503)
_IMAGE = "iVBORw0KGgo="  # base64
_END = b"0\r\n\r\n"


@dataclass(frozen=True)
class McpDraft:
    """A request and its result without a fault."""

    rng: random.Random
    style: Style
    message: Document
    result: Document
    secrets: str
    idle_s: float
    total_s: float

    @property
    def id(self) -> Any:
        return self.message.get("id")

    @property
    def progress_token(self) -> Any:
        params = self.message.get("params") or {}
        return (params.get("_meta") or {}).get("progressToken")

    def delay(self) -> float:
        return self.rng.choice((0.0, 0.001, 0.05, 0.3))


class McpReply(NamedTuple):
    post: Script
    stream: Script = []  # noqa: RUF012 - never changed
    reply: Reply = "none"
    """What a client must get of a call."""
    executes: bool = True
    """Whether the server has carried out the call."""
    loses_session: bool = False


def http(status: int, body: bytes = b"", kind: str = JSON, **headers: str) -> bytes:
    return head(status, kind, content_length=str(len(body)), **headers) + body


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(document: object) -> bytes:
    """A message in a stream."""
    return chunk(b"event: message\ndata: " + msgspec.json.encode(document) + b"\n\n")


def begin_stream() -> bytes:
    return head(200, EVENTS, transfer_encoding="chunked")


def _result(draft: McpDraft, **more: object) -> Document:
    return {"jsonrpc": "2.0", "id": draft.id, "result": {**draft.result, **more}}


def _notify(method: str, **params: object) -> Document:
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}


# Good replies


def send(
    draft: McpDraft,
    document: Document,
    *,
    delay_s: float = 0.0,
    before: Script | None = None,
    reply: Reply = "result",
) -> McpReply:
    """Send a message as the server's transport does, after other messages (`before`)."""
    if draft.style == "sse":
        stream = [*(before or []), Step(delay_s, "send", event(document))]
        return McpReply([Step(draft.delay(), "send", http(202))], stream, reply)
    if before is None and draft.rng.random() < 0.6:
        body = http(200, msgspec.json.encode(document))
        return McpReply([Step(delay_s + draft.delay(), "send", body)], reply=reply)
    script = [
        Step(draft.delay(), "send", begin_stream()),
        *(before or []),
        Step(delay_s, "send", event(document)),
        Step(0.0, "send", _END),
    ]
    return McpReply(script, reply=reply)


def no_fault(draft: McpDraft) -> McpReply:
    return send(draft, _result(draft))


def late(draft: McpDraft) -> McpReply:
    """In time, but late."""
    return send(draft, _result(draft), delay_s=0.5 * draft.idle_s)


def too_late(draft: McpDraft) -> McpReply:
    return send(draft, _result(draft), delay_s=1.5 * draft.idle_s, reply="none")


def _progress(draft: McpDraft, times: int) -> Script:
    token = draft.progress_token
    reports = [_notify("progress", progressToken=token, progress=n) for n in range(times)]
    return [Step(0.6 * draft.idle_s, "send", event(each)) for each in reports]


def progress(draft: McpDraft) -> McpReply:
    return send(draft, _result(draft), before=_progress(draft, 2))


def endless_progress(draft: McpDraft) -> McpReply:
    times = int(draft.total_s / (0.6 * draft.idle_s)) + 2
    return send(draft, _result(draft), before=_progress(draft, times), reply="none")


def list_changed(draft: McpDraft) -> McpReply:
    changed = event(_notify("tools/list_changed"))
    return send(draft, _result(draft), before=[Step(0.0, "send", changed)])


def error_result(draft: McpDraft) -> McpReply:
    return send(draft, _result(draft, isError=True), reply="error")


def large_result(draft: McpDraft) -> McpReply:
    text = draft.result["content"][0]["text"] + " again" * 2000
    return send(draft, _result(draft, content=[{"type": "text", "text": text}]))


def many_parts(draft: McpDraft) -> McpReply:
    more = {"type": "text", "text": "more"}
    return send(draft, _result(draft, content=[*draft.result["content"], *[more] * 9]))


def image(draft: McpDraft) -> McpReply:
    more = {"type": "image", "mimeType": "image/png", "data": _IMAGE}
    return send(draft, _result(draft, content=[*draft.result["content"], more]))


# Faults of any request


def silence(draft: McpDraft) -> McpReply:
    return McpReply([])


def close(draft: McpDraft) -> McpReply:
    return McpReply([Step(draft.delay(), draft.rng.choice(("close", "reset")))])


def status(draft: McpDraft) -> McpReply:
    """An error status; the server has carried out nothing, or everything."""
    code = draft.rng.choice(_STATUSES)
    return McpReply([Step(draft.delay(), "send", http(code))], executes=code >= 500)


def html(draft: McpDraft) -> McpReply:
    return McpReply([Step(0.0, "send", http(200, b"<html>It works!</html>", "text/html"))])


def nonsense(draft: McpDraft) -> McpReply:
    said = draft.rng.choice((b"nonsense", b"[]", b"{}", b"", b"\xff\xfe", b"[" * 5000))
    kind = draft.rng.choice((JSON, JSON, EVENTS))
    return McpReply([Step(0.0, "send", http(200, said, kind))])


def cut_body(draft: McpDraft) -> McpReply:
    whole = http(200, msgspec.json.encode(_result(draft)))
    data = whole[: -draft.rng.randrange(1, 20)]
    return McpReply([Step(0.0, "send", data), Step(draft.delay(), "close")])


def flood(draft: McpDraft) -> McpReply:
    kind = draft.rng.choice((JSON, EVENTS))
    return McpReply([Step(0.0, "send", http(200, b" " * _LARGE, kind))])


def wrong_id(draft: McpDraft) -> McpReply:
    """A reply to a request that was not made; the package accepts it in the stream of a request."""
    return send(draft, {**_result(draft), "id": 987_654}, reply="any")


def protocol_error(draft: McpDraft) -> McpReply:
    """An error of the protocol, which repeats the credential."""
    error = {"code": -32602, "message": f"No such thing for {draft.secrets}"}
    document = {"jsonrpc": "2.0", "id": draft.id, "error": error}
    return send(draft, document, reply="none")._replace(executes=False)


def early_end(draft: McpDraft) -> McpReply:
    """A stream without a result."""
    steps = [Step(0.0, "send", begin_stream()), Step(draft.delay(), "send", _END)]
    return McpReply(steps)


def compressed(draft: McpDraft) -> McpReply:
    return McpReply([Step(0.0, "send", http(200, b"x" * 50, content_encoding="gzip"))])


def redirect(draft: McpDraft) -> McpReply:
    data = http(307, location="http://203.0.113.9/elsewhere")
    return McpReply([Step(0.0, "send", data)], executes=False)


# Faults of sessions


def session_lost(draft: McpDraft) -> McpReply:
    """Other calls of the session may go on."""
    return McpReply([Step(0.0, "send", http(404))], executes=False, loses_session=True)


def session_unknown(draft: McpDraft) -> McpReply:
    error = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error})
    data = http(400, body)
    return McpReply([Step(draft.delay(), "send", data)], executes=False, loses_session=True)


# Faults of lists


def list_tools(tools: tuple[Tool, ...]) -> list[Document]:
    return [
        {
            "name": tool.name,
            "description": f"Does {tool.name}.",
            "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}},
            "annotations": {"readOnlyHint": tool.is_read_only},
        }
        for tool in tools
    ]


def too_many_tools(draft: McpDraft) -> McpReply:
    tools = tuple(Tool(f"tool{n}") for n in range(9))
    return send(draft, _result(draft, tools=list_tools(tools)))


def large_list(draft: McpDraft) -> McpReply:
    tools = [{**each, "description": "long " * 2000} for each in list_tools(TOOLS)]
    return send(draft, _result(draft, tools=tools))


def endless_list(draft: McpDraft) -> McpReply:
    return send(draft, _result(draft, tools=[], nextCursor="more"))


def wrong_list(draft: McpDraft) -> McpReply:
    return send(draft, _result(draft, tools="many"))


def odd_tools(draft: McpDraft) -> McpReply:
    """A tool of the same name, and one whose schema is too deep: both are left out."""
    deep: Document = {}
    for _ in range(60):
        deep = {"properties": deep}
    odd = [{**list_tools(TOOLS)[0], "description": "Another."}]
    odd += [{"name": "deep", "inputSchema": {"type": "object", **deep}}]
    return send(draft, _result(draft, tools=[*draft.result["tools"], *odd]))


McpFault = Callable[[McpDraft], McpReply]
_ANY: Mapping[str, tuple[int, McpFault]] = {
    "MCP: no reply": (2, silence),
    "MCP: closed without a reply": (3, close),
    "MCP: error status": (3, status),
    "MCP: an HTML page": (1, html),
    "MCP: nonsense": (2, nonsense),
    "MCP: reply cut": (2, cut_body),
    "MCP: reply too large": (1, flood),
    "MCP: reply to another request": (1, wrong_id),
    "MCP: protocol error": (3, protocol_error),
    "MCP: stream without a result": (2, early_end),
    "MCP: compressed": (1, compressed),
    "MCP: redirect": (1, redirect),
    "MCP: late": (2, late),
    "MCP: too late": (2, too_late),
}
_SESSION: Mapping[str, tuple[int, McpFault]] = {
    "MCP: session lost": (12, session_lost),
    "MCP: session unknown": (2, session_unknown),
}
_LIST: Mapping[str, tuple[int, McpFault]] = {
    "MCP: too many tools": (2, too_many_tools),
    "MCP: large list": (2, large_list),
    "MCP: endless list": (1, endless_list),
    "MCP: list of another form": (1, wrong_list),
    "MCP: odd tools": (2, odd_tools),
}
_CALL: Mapping[str, tuple[int, McpFault]] = {
    "MCP: error of a tool": (8, error_result),
    "MCP: large result": (3, large_result),
    "MCP: many parts": (2, many_parts),
    "MCP: image": (2, image),
    "MCP: progress": (3, progress),
    "MCP: progress without end": (2, endless_progress),
    "MCP: list changes": (4, list_changed),
}
_OPEN = {name: _ANY[name] for name in _ANY if name != "MCP: late"}
FAULT_NAMES = frozenset({*_ANY, *_SESSION, *_LIST, *_CALL})


def draw_fault(rng: random.Random, step: str, style: Style) -> tuple[str, McpFault]:
    """Draw a fault of a step: `open`, `list`, `call` or `close`."""
    tables = {"list": {**_ANY, **_LIST}, "call": {**_ANY, **_CALL}}
    table = tables.get(step, _OPEN)
    if style == "session" and step in tables:
        table = {**table, **_SESSION}
    names = [*table]
    name = rng.choices(names, [table[each][0] for each in names])[0]
    return name, table[name][1]
