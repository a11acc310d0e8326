"""MCP servers: simulated hosts that speak the protocol over HTTP, or fail at any step of it.

The client of the gateway is the official package, unchanged: it runs on the virtual loop.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

import msgspec

from antiphon.config import McpConfig
from tests.simulation.mcp.faults import (
    McpDraft,
    McpFault,
    McpReply,
    begin_stream,
    chunk,
    draw_fault,
    http,
    list_tools,
    no_fault,
)
from tests.simulation.mcp.plan import TOOLS, ServerPlan, Tool
from tests.simulation.mcp.records import (
    Document,
    Execution,
    McpHistory,
    ServerRequest,
    ServerSession,
    find_token,
    write_result,
)
from tests.simulation.memory_transport import MemoryTransport
from tests.simulation.records import History
from tests.simulation.upstream_faults import Script, Step
from tests.simulation.virtual_loop import Host, VirtualLoop

_RATES = {"open": 0.3, "list": 0.5, "call": 1.0, "close": 0.7}
"""Of the fault rate of a server, by step."""
_STEPS = {"tools/list": "list", "tools/call": "call"}
_CACHED = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_LATENCY_S = 0.002


@dataclass(frozen=True)
class Received:
    """An HTTP request, as it arrived."""

    verb: str
    path: str
    headers: dict[str, str]
    message: Document

    @property
    def method(self) -> str:
        return str(self.message.get("method", ""))


class McpHost(Host):
    """One MCP server."""

    def __init__(
        self,
        loop: VirtualLoop,
        history: History,
        rng: random.Random,
        plan: ServerPlan,
        config: McpConfig,
    ) -> None:
        self.loop = loop
        self.plan = plan
        self.fault_rate = plan.fault_rate
        self.open_connections = 0
        self._history = history
        self._rng = rng
        self._unreachable_at: list[float] = []
        self._end_rng = random.Random(rng.random())
        """For the end of sessions: several may end at once, in any order."""
        self._config = config
        self._tools: tuple[Tool, ...] = TOOLS
        self._sessions: dict[str, ServerSession] = {}
        self._streams: dict[str, McpConnection] = {}
        """Where the older transport sends its messages, by session."""
        loop.hosts[plan.address] = self

    @property
    def mcp(self) -> McpHistory:
        return self._history.mcp

    def heal(self) -> None:
        self.fault_rate = 0.0

    def accept_delay(self) -> float | None:
        roll = self._rng.random()
        if roll < 0.04 * self.fault_rate:
            self._history.count("MCP: connection refused")
            self._unreachable_at.append(self.loop.time())
            raise ConnectionRefusedError(111, "connection refused")
        if roll < 0.06 * self.fault_rate:
            self._history.count("MCP: connection never accepted")
            self._unreachable_at.append(self.loop.time())
            return None
        return 0.0

    def was_unreachable(self, since: float) -> bool:
        """Whether a connection was not accepted after a time."""
        return any(at >= since for at in self._unreachable_at)

    def latency(self) -> float | None:
        return _LATENCY_S

    def make_protocol(self) -> asyncio.BaseProtocol:
        return McpConnection(self)

    # Requests

    def receive(self, connection: McpConnection, received: Received) -> ServerRequest:
        """Record a request and reply to it."""
        request = ServerRequest(
            label=self.plan.label,
            verb=received.verb,
            method=received.method,
            session=received.headers.get("mcp-session-id", "") or received.path.partition("=")[2],
            secrets=" ".join(
                received.headers.get(name, "") for name in ("authorization", "x-client")
            ),
            began=self.loop.time(),
            process=connection.process_name,
            token=find_token(str(received.message.get("params"))),
        )
        self.mcp.requests.append(request)
        reply = self._reply(connection, received, request)
        what = f"{received.verb} {received.method}: {request.fault or 'replies'}"
        self._history.lines.append((request.began, self.plan.label, what))
        connection.play(reply.post)
        if reply.stream and (stream := self._streams.get(request.session)) is not None:
            stream.play(reply.stream)
        return request

    def _reply(
        self, connection: McpConnection, received: Received, request: ServerRequest
    ) -> McpReply:
        if received.verb == "GET":
            return self._open_stream(connection, request)
        if received.verb == "DELETE":
            return self._end_session(request)
        if self.plan.style == "sse" and not request.session:
            return _say(405)
        if self.plan.style != "modern" and received.method == "server/discover":
            return _say(400)
        if "id" not in received.message:
            return _say(202)
        if request.method in _STEPS and not self._knows(request):
            return _say(404)
        return self._reply_to_message(received, request)

    def _knows(self, request: ServerRequest) -> bool:
        """Whether a list or a call belongs to a session that the server knows, if it has any."""
        session = self._sessions.get(request.session)
        if session is not None:
            session.is_used = True
            session.last_used = self.loop.time()
        return self.plan.style == "modern" or (session is not None and not session.is_over)

    def _reply_to_message(self, received: Received, request: ServerRequest) -> McpReply:
        step = _STEPS.get(received.method, "open")
        headers: dict[str, str] = {}
        if received.method == "initialize" and self.plan.style == "session":
            headers["mcp_session_id"] = self._begin_session(request).id
        draft = McpDraft(
            rng=self._rng,
            style=self.plan.style,
            message=received.message,
            result=self._result(received),
            secrets=request.secrets,
            idle_s=self._config.idle_timeout_s,
            total_s=self._config.call_timeout_s,
        )
        make: McpFault = no_fault
        if self._rng.random() < self.fault_rate * _RATES[step]:
            request.fault, make = draw_fault(self._rng, step, self.plan.style)
            self._history.count(request.fault)
        reply = make(draft)
        if headers and make is no_fault:
            body = {"jsonrpc": "2.0", "id": draft.id, "result": draft.result}
            data = http(200, msgspec.json.encode(body), **headers)
            reply = McpReply([Step(draft.delay(), "send", data)])
        if reply.loses_session:
            self._sessions[request.session].is_over = True
        if step == "call" and reply.executes:
            self._execute(draft, reply, request)
        if request.fault == "MCP: list changes":
            self._tools = TOOLS[:-1] if self._tools == TOOLS else TOOLS
        return reply

    def _result(self, received: Received) -> Document:
        params = received.message.get("params") or {}
        match received.method:
            case "server/discover":
                return {**_CACHED, "supportedVersions": ["2026-07-28"], **_DESCRIPTION}
            case "initialize":
                return {"protocolVersion": "2025-06-18", **_DESCRIPTION}
            case "tools/list":
                return {**_CACHED, "tools": list_tools(self._tools)}
            case "tools/call":
                token = find_token(str(params.get("arguments")))
                text = write_result(self.plan.label, params["name"], token)
                return {"resultType": "complete", "content": [{"type": "text", "text": text}]}
        return {}

    def _execute(self, draft: McpDraft, reply: McpReply, request: ServerRequest) -> None:
        params = draft.message["params"]
        self.mcp.executions.append(
            Execution(
                label=self.plan.label,
                tool=params["name"],
                token=find_token(str(params.get("arguments"))),
                at=self.loop.time(),
                reply=reply.reply,
                text=draft.result["content"][0]["text"],
                fault=request.fault,
            )
        )

    # Sessions

    def _begin_session(self, request: ServerRequest) -> ServerSession:
        label = self.plan.label
        session = ServerSession(f"{label}{len(self.mcp.sessions)}", label, request.process)
        self._sessions[session.id] = session
        self.mcp.sessions.append(session)
        return session

    def _open_stream(self, connection: McpConnection, request: ServerRequest) -> McpReply:
        """Open the stream of a session; with the older transport, it is the session."""
        if self.plan.style == "sse":
            session = self._begin_session(request)
            self._streams[session.id] = connection
            connection.session = session
            endpoint = f"event: endpoint\ndata: /mcp?session={session.id}\n\n".encode()
            return McpReply([Step(0.0, "send", begin_stream() + chunk(endpoint))])
        if self._end_rng.random() < 0.5:
            return _say(405)
        return McpReply([Step(0.0, "send", begin_stream())])

    def _end_session(self, request: ServerRequest) -> McpReply:
        if (session := self._sessions.get(request.session)) is not None:
            session.is_over = True
        rng = self._end_rng
        if rng.random() < self.fault_rate * _RATES["close"]:
            request.fault = rng.choice(
                ("MCP: end not confirmed", "MCP: closed at the end", "MCP: error at the end")
            )
            self._history.count(request.fault)
        if request.fault == "MCP: end not confirmed":
            return McpReply([])
        if request.fault == "MCP: closed at the end":
            return McpReply([Step(0.0, rng.choice(("close", "reset")))])
        return _say(500 if request.fault else 200)


_DESCRIPTION: Document = {
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "simulated", "version": "1"},
}


def _say(status: int) -> McpReply:
    return McpReply([Step(0.0, "send", http(status))], executes=False)


class McpConnection(asyncio.Protocol):
    """One connection of the gateway to a server."""

    def __init__(self, host: McpHost) -> None:
        self.session: ServerSession | None = None
        """The session that ends with this connection."""
        self._host = host
        self._buffer = bytearray()
        self._transport: MemoryTransport | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._requests: list[ServerRequest] = []

    @property
    def process_name(self) -> str:
        assert self._transport is not None
        return self._transport.peer.process_name

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, MemoryTransport)
        self._transport = transport
        self._host.open_connections += 1

    def connection_lost(self, error: Exception | None) -> None:
        self._host.open_connections -= 1
        for timer in self._timers:
            timer.cancel()
        for request in self._requests:
            request.lost_at = self._host.loop.time()
        if self.session is not None:
            self.session.is_over = True

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (received := self._read_request()) is not None:
            self._requests.append(self._host.receive(self, received))

    def _read_request(self) -> Received | None:
        request_head, separator, body = bytes(self._buffer).partition(b"\r\n\r\n")
        first, *lines = request_head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        length = int(headers.get("content-length", "0"))
        if not separator or len(body) < length:
            return None
        self._buffer = bytearray(body[length:])
        verb, path, _ = first.split(" ")
        return Received(verb, path, headers, msgspec.json.decode(body[:length] or b"{}"))

    def play(self, script: Script) -> None:
        """Carry out the steps of a script, one after the other."""
        if script:
            timer = self._host.loop.call_later(script[0].delay_s, self._act, script)
            self._timers.append(timer)

    def _act(self, script: Script) -> None:
        assert self._transport is not None
        step = script[0]
        if step.action == "send":
            self._transport.write(step.data)
        elif step.action == "close":
            self._transport.close()
        else:
            self._transport.abort()
        self.play(script[1:])
