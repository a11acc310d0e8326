"""Upstream actors: simulated provider servers that answer in their dialect, or fail."""

from __future__ import annotations

import asyncio
import random
import re

from tests.simulation.answers import UpstreamResponse, cut_short, draw_recording, generate
from tests.simulation.mcp.calls import draw_mcp_calls
from tests.simulation.memory_transport import MemoryTransport
from tests.simulation.records import QUESTION, History, UpstreamCall
from tests.simulation.upstream_faults import (
    FAULT_NAMES,
    FAULT_WEIGHTS,
    FAULTS,
    Draft,
    Script,
    no_fault,
    pause_after_item,
    read_sent,
)
from tests.simulation.virtual_loop import Address, Host, VirtualLoop
from tests.support.scripted_providers.session import Call

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_KEY = re.compile(
    rb"(?:authorization|x-api-key|x-goog-api-key|api-key): *(?:bearer +)?"
    rb"(?:AWS4-HMAC-SHA256 Credential=)?([^/,\r ]+)",
    re.IGNORECASE,
)
_RETRY_AFTER = re.compile(rb"retry-after: (\d+)")
_RATE_LIMIT_REST_S = 60.0  # of a key, where the provider names no longer time
_PERMISSION_REST_S = 300.0
_CUT_SHORT_RATE = 0.1  # of the answers without a fault


class UpstreamHost(Host):
    """One provider's server."""

    def __init__(
        self,
        loop: VirtualLoop,
        history: History,
        rng: random.Random,
        name: str,
        address: Address,
        *,
        fault_rate: float,
        idle_s: float,
        use_corpus: bool,
        pauses_in_background: bool,
    ) -> None:
        self.loop = loop
        self.history = history
        self.rng = rng
        self.name = name
        self.address = address
        self.dialect = name
        self.fault_rate = fault_rate
        self.idle_s = idle_s
        self.dead_keys: set[str] = set()
        self.is_down = False
        self.open_connections = 0
        self._use_corpus = use_corpus
        self._pauses_in_background = pauses_in_background
        loop.hosts[address] = self

    def heal(self) -> None:
        """Work without a fault from now on."""
        self.fault_rate = 0.0
        self.is_down = False
        self.dead_keys.clear()

    def accept_delay(self) -> float | None:
        roll = self.rng.random()
        if self.is_down or roll < 0.04 * self.fault_rate:
            self.history.count("connection refused")
            raise ConnectionRefusedError(111, "connection refused")
        if roll < 0.06 * self.fault_rate:
            self.history.count("connection never accepted")
            return None
        return self.rng.choice((0.0, 0.001, 0.02))

    def make_protocol(self) -> asyncio.BaseProtocol:
        return UpstreamConnection(self)

    def receive(self, request_head: bytes, body: bytes) -> tuple[UpstreamCall, Script]:
        """Record a request and decide how it is answered."""
        found = QUESTION.findall(body)
        question = int(found[-1][0]) if found else -1
        exchange = self.history.senders.get(question, question)
        key = _KEY.search(request_head)
        call = UpstreamCall(
            number=len(self.history.calls),
            provider=self.name,
            key=key[1].decode() if key else "",
            exchange=exchange,
            tenants=tuple(sorted({tenant.decode() for _, tenant in found})),
            began=self.loop.time(),
            path=request_head.split(b" ", 2)[1].decode(),
            body=body,
        )
        self.history.calls.append(call)
        script = self._decide(call, stream=b"tream" in request_head + body)
        call.sent = read_sent(script)
        self._note_rest(call, script)
        line = f"call {call.number} for {exchange}: {call.fault or 'answers'}"
        self.history.lines.append((call.began, self.name, line))
        return call, script

    def _decide(self, call: UpstreamCall, *, stream: bool) -> Script:
        rng = self.rng
        answer = self._answer(call, stream)
        call.status, call.data, call.content = answer.status, answer.data, answer.content
        draft = Draft(rng, self.dialect, answer, call.key, self.idle_s)
        if call.key in self.dead_keys:
            call.fault = "status 401"
        elif self._pauses(call, stream):
            return pause_after_item(draft)
        elif rng.random() < self.fault_rate:
            call.fault = rng.choices(FAULT_NAMES, FAULT_WEIGHTS)[0]
        if not call.fault:
            return no_fault(draft)
        self.history.count(call.fault)
        if call.fault == "status 401":
            self.dead_keys.add(call.key)
        return FAULTS[call.fault][1](draft)

    def _pauses(self, call: UpstreamCall, stream: bool) -> bool:
        """Whether a call is answered with reasoning, and a pause after it."""
        is_asked = stream and self._pauses_in_background and call.exchange >= 0
        return is_asked and self.history.exchanges[call.exchange].is_background

    def _answer(self, call: UpstreamCall, stream: bool) -> UpstreamResponse:
        rng, pauses = self.rng, self._pauses(call, stream)
        asked = self.history.exchanges[call.exchange] if call.exchange >= 0 else None
        is_json = asked is not None and asked.wants_json
        uses_mcp = asked is not None and asked.mcp is not None
        recorded = rng.random() < 0.3 and not pauses and not is_json and not uses_mcp
        if recorded and self._use_corpus and self.fault_rate:
            answer = draw_recording(rng, self.dialect, stream=stream)
            if answer is not None:
                call.is_recorded = True
                return answer
        tenant = call.tenants[-1] if call.tenants else "nobody"
        label = f"ax{call.exchange}-{tenant}-{call.number}x"
        calls = self._draw_mcp_calls(call, label) if uses_mcp else None
        generated = generate(
            rng,
            self.dialect,
            label,
            number=call.number,
            stream=stream,
            is_thoughtful=pauses,
            is_agents=asked is not None and asked.format != "responses",
            is_json=is_json,
            calls=calls,
        )
        is_short = bool(self.fault_rate) and rng.random() < _CUT_SHORT_RATE and not is_json
        return cut_short(self.dialect, generated) if is_short else generated

    def _draw_mcp_calls(self, call: UpstreamCall, label: str) -> tuple[Call, ...]:
        made = sum(each.exchange == call.exchange for each in self.history.calls) - 1
        is_chat = self.dialect == "chat"
        return draw_mcp_calls(self.rng, call.body, label, made=made, takes_text=is_chat)

    def _note_rest(self, call: UpstreamCall, script: Script) -> None:
        """Note how long the answer forbids the use of its key."""
        call.may_rest = call.is_recorded and call.status == "failed"
        data = script[0].data if script else b""
        if data.startswith(b"HTTP/1.1 401"):
            call.rests_until = float("inf")
        elif data.startswith(b"HTTP/1.1 403"):
            call.rests_until = call.began + _PERMISSION_REST_S
        elif data.startswith(b"HTTP/1.1 429"):
            given = _RETRY_AFTER.search(data)
            wait_s = max(_RATE_LIMIT_REST_S, float(given[1]) if given else 0.0)
            call.rests_until = call.began + wait_s


class UpstreamConnection(asyncio.Protocol):
    """One connection of the gateway to a provider."""

    def __init__(self, host: UpstreamHost) -> None:
        self._host = host
        self._buffer = bytearray()
        self._transport: MemoryTransport | None = None
        self._call: UpstreamCall | None = None
        self._script: Script = []
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, MemoryTransport)
        self._transport = transport
        self._host.open_connections += 1

    def connection_lost(self, error: Exception | None) -> None:
        self._host.open_connections -= 1
        if self._timer is not None:
            self._timer.cancel()
        if self._call is not None and self._call.lost_at is None:
            self._call.lost_at = self._host.loop.time()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        request_head, separator, body = bytes(self._buffer).partition(b"\r\n\r\n")
        length = _LENGTH.search(request_head)
        if not separator or length is None or len(body) < int(length[1]):
            return
        self._buffer.clear()
        self._call, script = self._host.receive(request_head, body)
        assert self._transport is not None
        self._call.process = self._transport.peer.process_name
        self._script = script[::-1]
        self._next()

    def _next(self) -> None:
        if self._script:
            delay_s = self._script[-1].delay_s
            self._timer = self._host.loop.call_later(delay_s, self._act)

    def _act(self) -> None:
        transport, call = self._transport, self._call
        assert transport is not None
        assert call is not None
        step = self._script.pop()
        now = self._host.loop.time()
        if call.answered_at is None:
            call.answered_at = now
        if not self._script:
            call.finished_at = now
        if step.action == "send":
            transport.write(step.data)
        elif step.action == "close":
            transport.close()
        else:
            transport.abort()
        self._next()
