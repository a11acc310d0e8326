"""Records of a world: what clients sent and received, what upstreams saw, and the time line."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from tests.simulation.answers import Content
from tests.simulation.formats import chat_reader, messages_reader
from tests.simulation.formats.reading import PATHS, UNREADABLE, Format, Reading
from tests.simulation.mcp.records import McpAsk, McpHistory

Document = dict[str, Any]
Outcome = Literal["", "complete", "vanished", "cut", "unreachable"]
"""`vanished`: the client closed; `cut`: the gateway closed before the end of its answer."""

QUESTION = re.compile(rb"Question qx(\d+)-(\w+?)x")
"""The number and the tenant of an exchange, in the text of its request. With the word before it:
encrypted content is base64, and contains the rest of the pattern by chance."""
ANSWER = re.compile(r"ax(\d+)-(\w+?)-(\d+)x")
"""The exchange, its tenant and the number of the upstream call, in the text of an answer."""
_FORMATS = {path: name for name, path in PATHS.items()}
_MAY_ATTACH = ("codex", "claude-cli")
TERMINAL = ("response.completed", "response.failed", "response.incomplete")


@dataclass
class Exchange:
    """One request of a client and the answer to it."""

    number: int
    tenant: str
    process: str
    """The gateway process that it was sent to."""
    request: Document
    began: float
    method: str = "POST"
    path: str = "/v1/responses"
    agent: str = ""
    is_websocket: bool = False
    question: int = -1
    """The number in the text of the request: its own, or that of the request that it repeats."""
    after: int = -1
    """The sequence number after which a stream was asked for."""
    behaviour: str = "reads"
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    outcome: Outcome = ""
    ended: float = 0.0
    closed_at: float | None = None
    """When the client vanished."""
    stored: Document | None = None
    """What the store held when the client received the terminal event."""
    head_at: float | None = None
    """When the head of the answer arrived."""
    last_byte_at: float = 0.0
    longest_silence_s: float = 0.0
    """The longest time without a byte before the end of the body."""
    paused_s: float = 0.0
    """How long the client did not read."""
    is_probe: bool = False
    knows_foreign: bool = False
    """Whether the request names a response of another tenant, or is a copy of its request."""
    was_over: bool = False
    """Whether the response had ended when its client sent the request again."""
    wants_json: bool = False
    """Whether its response is to be JSON."""
    mcp: McpAsk | None = None
    """What it says of MCP servers, if it names any."""
    probes: str = ""
    """The label of the MCP server that it probes when everything works again."""
    echoed: list[int] = field(default_factory=list)
    """The numbers of the exchanges whose responses are in its history, as they were received."""
    _events: list[Document] | None = None
    _reading: Reading | None = None

    @property
    def format(self) -> Format:
        return _FORMATS.get(self.path, "responses")

    @property
    def is_stream(self) -> bool:
        return bool(self.request.get("stream"))

    @property
    def is_background(self) -> bool:
        return bool(self.request.get("background"))

    @property
    def may_attach(self) -> bool:
        """Whether the gateway keeps its response for a while if the connection is lost."""
        is_known = self.agent.startswith(_MAY_ATTACH)
        return is_known and self.is_stream and not self.is_websocket and not self.is_background

    @property
    def attached_to(self) -> str:
        """The id of the response that the gateway says it has joined."""
        return self.headers.get("antiphon-attached", "")

    @property
    def response_id(self) -> str:
        """The id of the response, as soon as the client knows it."""
        if self.status != 200:
            return ""
        if self.format != "responses":
            return f"resp_{self.reading.id}" if self.reading.id else ""
        if self.is_stream:
            ids = (event["response"]["id"] for event in self.events if "response" in event)
            return next(ids, "")
        return str(self.response["id"]) if self.response is not None else ""

    @property
    def numbered(self) -> list[Document]:
        """The events without keep-alives."""
        return [event for event in self.events if event["type"] != "keepalive"]

    @property
    def request_id(self) -> str:
        return self.headers.get("x-request-id", "")

    @property
    def events(self) -> list[Document]:
        """The events of a streamed answer, as far as they arrived."""
        if self._events is None or not self.ended:
            found = [frame.partition(b"data: ")[2] for frame in self.frames if b"data: " in frame]
            self._events = [msgspec.json.decode(each) for each in found if each != b"[DONE]"]
        return self._events

    @property
    def frames(self) -> list[bytes]:
        return [bytes(frame) for frame in self.body.split(b"\n\n")[:-1]]

    @property
    def response(self) -> Document | None:
        """The final response as the client was told; None if it was not."""
        if self.status != 200 or (not self.is_stream and self.outcome != "complete"):
            return None
        if self.format != "responses":
            return self.reading.as_response(store=self.is_stored)
        if not self.is_stream:
            document: Document = msgspec.json.decode(self.body)
            return document
        events = self.events
        if events and events[-1]["type"] in TERMINAL:
            response: Document = events[-1]["response"]
            return response
        return None

    @property
    def is_stored(self) -> bool:
        """Whether a request in another format than Responses asks for a stored response."""
        return self.request.get("store") is True or "thread" in self.request

    @property
    def reading(self) -> Reading:
        """What has been read of a response in another format than Responses."""
        if self._reading is None or not self.ended:
            self._reading = self._read()
        return self._reading

    def _read(self) -> Reading:
        is_complete = self.outcome == "complete"
        if self.status != 200 or not (self.is_stream or is_complete):
            return Reading()
        if self.format == "responses":
            return Reading()
        if self.is_stream and self.format == "messages":
            return messages_reader.MessagesReader().read(self.frames, is_complete=is_complete)
        if self.is_stream:
            reader = chat_reader.ChatReader(self.request)
            return reader.read(self.frames, is_complete=is_complete)
        try:
            if self.format == "messages":
                return messages_reader.read_whole(bytes(self.body))
            return chat_reader.read_whole(msgspec.json.decode(self.body))
        except UNREADABLE as error:
            return Reading(problems=[f"the body cannot be read: {error!r}"])

    @property
    def result(self) -> str:
        """The outcome in one word, for the summary."""
        if self.outcome != "complete":
            return self.outcome or "unfinished"
        if self.status != 200:
            return f"HTTP {self.status}"
        return str((self.response or {}).get("status", "no terminal event"))


def write_question(exchange: Exchange) -> str:
    """The text of a request, by which its upstream calls are found."""
    return f"Question qx{exchange.number}-{exchange.tenant}x, please."


@dataclass
class UpstreamCall:
    """One request that an upstream received."""

    number: int
    provider: str
    key: str
    exchange: int
    tenants: tuple[str, ...]
    """Every tenant whose text is in the request."""
    began: float
    path: str
    body: bytes
    data: bytes = b""
    """The body of the answer, if it has no fault."""
    content: Content | None = None
    """What a client must receive of it, if that is known."""
    sent: bytes = b""
    """The part of it that was sent, or was to be sent."""
    process: str = ""
    """The gateway process that has made it."""
    fault: str = ""
    is_recorded: bool = False
    """Whether the answer comes from the corpus."""
    status: str = "completed"
    """With which the answer reaches a client that reads it, if it has no fault."""
    answered_at: float | None = None
    """When the whole error answer, or the first byte of another one, was sent."""
    rests_until: float = 0.0
    """Until when the key must not be used after this answer."""
    may_rest: bool = False
    """Whether the gateway may have read a rate limit in a recorded answer."""
    finished_at: float | None = None
    """When the upstream had sent its answer, or had closed."""
    lost_at: float | None = None
    """When its connection was over."""


@dataclass
class History:
    """Everything that the oracles read."""

    exchanges: list[Exchange] = field(default_factory=list)
    """Requests for a response."""
    visits: list[Exchange] = field(default_factory=list)
    """Other requests: retrieve, resume, cancel, delete, and conversations."""
    calls: list[UpstreamCall] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    lines: list[tuple[float, str, str]] = field(default_factory=list)
    """The time line: time, actor, what happened."""
    log: list[tuple[str, Any]] = field(default_factory=list)
    """Log entries with the name of their process."""
    senders: dict[int, int] = field(default_factory=dict)
    """Of requests that were repeated after their end: the last exchange, by the first one."""
    repeats: dict[int, int] = field(default_factory=dict)
    """The first exchange of those that repeat a request after its end."""
    mcp: McpHistory = field(default_factory=McpHistory)

    def count(self, fault: str) -> None:
        self.faults[fault] = self.faults.get(fault, 0) + 1

    def calls_of(self) -> dict[int, list[UpstreamCall]]:
        """Upstream calls by exchange."""
        found: dict[int, list[UpstreamCall]] = {}
        for call in self.calls:
            found.setdefault(call.exchange, []).append(call)
        return found
