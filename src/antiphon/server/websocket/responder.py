"""Responder: answers the `response.create` frames of one connection, each as `POST /v1/responses`
with `stream` would be answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from typing import TypeAlias

import msgspec
from msgspec import structs

from antiphon.core.diagnostic import Diagnostic, diagnostics_header
from antiphon.core.events import TERMINAL_EVENTS, Event, Failed, Terminal
from antiphon.core.items import Document
from antiphon.core.response import Response
from antiphon.dialects.client_dialect import EventBatch
from antiphon.dialects.responses.render import encode_document
from antiphon.engine.attempts import Attempts
from antiphon.engine.output import RunOutput
from antiphon.engine.run import translate
from antiphon.engine.services import Prepared, Services
from antiphon.engine.tracing import RunTrace
from antiphon.errors import InvalidRequest
from antiphon.server.create import prepare_request
from antiphon.server.exchange import Exchange
from antiphon.server.websocket.client_frames import CreateFrame
from antiphon.server.websocket.recent_turns import RecentTurns
from antiphon.server.websocket.server_frames import encode_fields, error_frame, with_fields
from antiphon.store.turn import Turn, encode_response_object

Send: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Sends one text frame; returns when the client is ready for more. Raises `ConnectionError`."""


class Responder:
    """Answers requests of one client. `turns` is what its connection remembers."""

    def __init__(self, handshake: Exchange, turns: RecentTurns, send: Send) -> None:
        self._handshake = handshake
        self._turns = turns
        self._send = send

    def new_exchange(self, document: Document | None, *, is_large: bool = False) -> Exchange:
        """Begin the exchange of one frame, by the setup that is in effect now."""
        process = self._handshake.process
        caller = structs.replace(self._handshake.caller, request_id=process.new_request_id())
        return Exchange(
            process,
            process.setup,
            self._handshake.http,
            caller,
            document=document,
            is_large=is_large,
        )

    async def respond(self, frame: CreateFrame, size: int, *, is_large: bool) -> None:
        """Send the events of a response, or the error envelope that takes their place."""
        exchange = self.new_exchange(frame.body, is_large=is_large)
        reply = _Reply(frame, size, self._turns, self._send)
        try:
            frame.check()
            await self._create(exchange, reply)
        except Exception as error:
            if isinstance(error, ConnectionError) and reply.has_begun:
                return  # the client is gone
            reply.evict_parent()
            await self.reject(error, exchange, frame.stream_id)

    async def reject(self, error: Exception, exchange: Exchange, lane: str | None) -> None:
        """Send the error envelope of a frame."""
        envelope = error_frame(exchange.fail(error), exchange.caller.request_id, lane)
        with suppress(ConnectionError):
            await self._send(envelope)

    async def _create(self, exchange: Exchange, reply: _Reply) -> None:
        generate = reply.frame.read_generate()
        request = await exchange.read_request()
        if request.conversation is not None and not generate:
            raise InvalidRequest(
                "'generate': false prepares input for 'previous_response_id'; it cannot be used"
                " with 'conversation'.",
                param="generate",
                code="mutually_exclusive_parameters",
            )
        with ExitStack() as held:
            prepared = await prepare_request(exchange, request, held, self._turns)
            if generate:
                await self._stream(exchange, prepared, reply, held)
                return
        events = await warm_up(exchange.services, prepared)
        reply.begin(prepared, ())
        await reply.send(EventBatch(0, events), is_last=True)

    async def _stream(
        self, exchange: Exchange, prepared: Prepared, reply: _Reply, held: ExitStack
    ) -> None:
        live = exchange.process.live.create(exchange.services, prepared)
        live.run.hold(held.pop_all())
        try:
            await live.open(exchange.setup.server.commit_after_s)
            reply.begin(prepared, live.run.diagnostics)
            await live.follow(reply)
        finally:
            await live.leave()


class _Reply:
    """The reader of one run, or of a warm-up: sends its events to the client."""

    def __init__(self, frame: CreateFrame, size: int, turns: RecentTurns, send: Send) -> None:
        self.frame = frame
        self._prepared: Prepared | None = None
        self._size = size
        self._turns = turns
        self._parent = turns.find(frame.parent_id)
        self._send = send
        self._fields = self._first_fields = encode_fields(frame.stream_id, {})

    @property
    def has_begun(self) -> bool:
        """Whether events are being sent: before, a lost connection is not that of the client."""
        return self._prepared is not None

    def begin(self, prepared: Prepared, diagnostics: Sequence[Diagnostic]) -> None:
        """Take the events of a response from now on. The first event has the diagnostics, which
        HTTP has in a header."""
        self._prepared = prepared
        if diagnostics:
            headers = {"antiphon-diagnostics": diagnostics_header(diagnostics)}
            self._first_fields = encode_fields(self.frame.stream_id, headers)

    async def send(self, batch: EventBatch, is_last: bool) -> None:
        """Send each event as one text frame."""
        for number, event in enumerate(batch.events, batch.first):
            data = encode_document(event, number)
            if isinstance(event, TERMINAL_EVENTS):
                self._end(event, len(data))
            fields, self._first_fields = self._first_fields, self._fields
            await self._send(with_fields(data, fields))

    def _end(self, event: Terminal, size: int) -> None:
        """Remember the turn before its client learns that it is over."""
        assert self._prepared is not None
        if isinstance(event, Failed):
            self.evict_parent()
        if not event.response.store:  # the others are found in the store, until they are deleted
            turn = _make_turn(self._prepared, event.response)
            size += self._size
            has_history = turn.previous_response_id is None  # in its input, if there is any
            parent = None if has_history else self._parent
            self._turns.add(turn, size, self.frame.stream_id, parent)

    def evict_parent(self) -> None:
        if self.frame.parent_id is not None:
            self._turns.evict(self.frame.parent_id, self.frame.stream_id)


def _make_turn(prepared: Prepared, response: Response) -> Turn:
    request = prepared.request
    return Turn(
        id=response.id,
        previous_response_id=request.previous_response_id,
        created_at=response.created_at,
        status=response.status,
        model=response.model,
        provider=prepared.targets[0].provider.name,
        client=prepared.caller.client,
        input=request.input,
        output=tuple(msgspec.to_builtins(response.output)),
        conversation_end=prepared.conversation_end,
        # A connection reads nothing else of the response object.
        encoded=encode_response_object({"conversation": response.conversation}, ()),
    )


async def warm_up(services: Services, prepared: Prepared) -> list[Event]:
    """Complete a response without output, whose input later ones continue (`generate: false`), and
    return its events. No provider is called; the request is checked, planned, traced, logged and
    stored like any other."""
    trace = RunTrace(services.tracer, prepared.facts(), services.runtime.monotonic)
    trace.start_clock()
    trace.begin(prepared.skipped, software=prepared.caller.profile.software)
    attempts = Attempts(services, prepared, trace)
    output = RunOutput(services, prepared, trace, attempts, None)
    output.open()
    translation = translate(services, prepared, prepared.targets[0], prepared.first_plan)
    try:
        return await output.pass_on_or_fail(translation.finish("stop"), translation)
    finally:
        output.close(translation)
