"""Responder: answers the `response.create` frames of one connection, each as `POST /v1/responses`
with `stream` would be answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeAlias

import msgspec
from msgspec import structs

from antiphon.core.diagnostic import Diagnostic, diagnostics_header
from antiphon.core.faults.fault import shutdown_fault
from antiphon.core.faults.messages import describe
from antiphon.engine.run import Run
from antiphon.engine.services import Caller, PreparedRequest
from antiphon.errors import InvalidRequest, UpstreamError
from antiphon.runs.driver import RunDriver
from antiphon.server.endpoints.context import Received, Service
from antiphon.server.errors import (
    adapt_status,
    fault_response,
    internal_error_response,
    invalid_request_response,
)
from antiphon.server.http import HTTPResponse
from antiphon.server.rejections import record_rejection
from antiphon.server.websocket.client_frames import CreateFrame
from antiphon.server.websocket.recent_turns import RecentTurns
from antiphon.server.websocket.server_frames import (
    EventFrame,
    encode_fields,
    error_frame,
    read_events,
)
from antiphon.server.websocket.warm_up import warm_up
from antiphon.store.chain import build_history, without_truncated_calls
from antiphon.store.conversation import load_items_before
from antiphon.store.turn import Turn
from antiphon.wire.body import check_input_items, check_settings
from antiphon.wire.items import Document
from antiphon.wire.request import Request
from antiphon.wire.sse import SSEEncoder

Send: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Sends one text frame; returns when the client is ready for more. Raises `ConnectionError`."""


class Responder:
    """Answers requests of one client. `turns` is what its connection remembers."""

    def __init__(self, service: Service, caller: Caller, turns: RecentTurns, send: Send) -> None:
        self._service = service
        self._caller = caller
        self._turns = turns
        self._send = send

    async def answer(self, frame: CreateFrame, size: int, *, is_large: bool) -> None:
        """Send the events of a response, or the error envelope that takes their place."""
        caller = self._new_caller()
        received = Received(caller.client, frame.document, is_large)
        reply = _Reply(frame, size, self._turns, self._send)
        try:
            received.document = frame.read_body()
            await self._respond(caller, received, reply)
        except ConnectionError:
            return  # the client is gone: there is nobody to answer
        except Exception as error:
            reply.evict_parent()
            await self._send_error(error, caller, received, frame.stream_id)

    async def reject(self, error: InvalidRequest, received: Received, lane: str | None) -> None:
        """Send the error envelope of a frame that is not a request."""
        await self._send_error(error, self._new_caller(), received, lane)

    def _new_caller(self) -> Caller:
        new_id = self._service.engine.services.runtime.new_id
        return structs.replace(self._caller, request_id=new_id("req"))

    async def _respond(self, caller: Caller, received: Received, reply: _Reply) -> None:
        engine = self._service.engine
        generate = reply.frame.read_generate()
        request = await self._read_request(received)
        if not self._service.state.ready:
            fault = shutdown_fault()
            raise UpstreamError(fault, describe(fault, caller.locale))
        if request.conversation is not None:
            await self._continue_conversation(request, caller, reply)
            return
        prepared = await engine.prepare(request, caller, self._turns)
        prepared = reply.prepared = await self._join_history(prepared)
        if generate:
            await self._stream(Run(engine.services, prepared), reply)
        else:
            events, encoder = await warm_up(engine.services, prepared), SSEEncoder()
            await reply.send(encoder.feed(events), encoder.sequence_number - 1, is_last=True)

    async def _continue_conversation(self, request: Request, caller: Caller, reply: _Reply) -> None:
        """Answer a request with a conversation, which one response at a time continues."""
        if not reply.frame.read_generate():
            raise InvalidRequest(
                "'generate': false prepares input for 'previous_response_id'; it cannot be used"
                " with 'conversation'.",
                param="generate",
                code="mutually_exclusive_parameters",
            )
        run = await self._service.conversation_locks.create(self._service.engine, request, caller)
        reply.prepared = run.prepared
        await self._stream(run, reply)

    async def _join_history(self, prepared: PreparedRequest) -> PreparedRequest:
        """Have a response that is stored contain the turns before it that are not: its chain must
        not have a gap."""
        request, client = prepared.request, prepared.caller.client
        parent_id = request.previous_response_id
        if not request.store or parent_id is None or self._turns.find(parent_id) is None:
            return prepared
        chain = await self._turns.chain(parent_id, client=client)
        conversations = self._service.engine.services.store.conversations
        before = await load_items_before(conversations, chain[0], client=client)
        history = [*without_truncated_calls(before), *build_history(chain)]
        request = structs.replace(
            request, previous_response_id=None, input=(*history, *request.input)
        )
        return structs.replace(prepared, request=request)

    async def _read_request(self, received: Received) -> Request:
        document, limits = received.document, self._service.body_limits
        assert document is not None
        check_input_items(document, limits)
        if not received.is_large:
            return Request.read(document)
        worker = self._service.engine.services.worker
        await worker.run(partial(check_settings, document, limits))
        return await worker.run(partial(Request.read, document, is_large=True))

    async def _stream(self, run: Run, reply: _Reply) -> None:
        live = self._service.live
        driver = RunDriver(run, drivers=live.drivers, record_start=live.record_start)
        try:
            await driver.open(self._service.config.commit_after_s)
            reply.begin(run.diagnostics)
            await reply.send(*driver.first)
            await driver.follow(reply)
        finally:
            await driver.leave()

    async def _send_error(
        self, error: Exception, caller: Caller, received: Received, lane: str | None
    ) -> None:
        services, profile = self._service.engine.services, caller.profile
        response = self._error_response(error, caller, received)
        adapt_status(response, profile)
        if not isinstance(error, UpstreamError):
            record_rejection(services, caller, received, response)
        response.headers["x-request-id"] = caller.request_id
        try:
            await self._send(error_frame(response, lane))
        except ConnectionError:
            return

    def _error_response(self, error: Exception, caller: Caller, received: Received) -> HTTPResponse:
        if isinstance(error, InvalidRequest):
            return invalid_request_response(error)
        if isinstance(error, UpstreamError):
            return fault_response(error.fault, caller.profile, error.description)
        self._service.report_failure(error, caller.request_id, received)
        return internal_error_response(error, caller.locale)


class _Reply:
    """The reader of one run, or of a warm-up: sends its events to the client."""

    def __init__(self, frame: CreateFrame, size: int, turns: RecentTurns, send: Send) -> None:
        self.frame = frame
        self.prepared: PreparedRequest | None = None
        self._size = size
        self._turns = turns
        self._parent = turns.find(frame.parent_id)
        self._send = send
        self._fields = self._first_fields = encode_fields(frame.stream_id, {})

    def begin(self, diagnostics: Sequence[Diagnostic]) -> None:
        """Add the diagnostics, which HTTP has in a header, to the first event."""
        if diagnostics:
            headers = {"antiphon-diagnostics": diagnostics_header(diagnostics)}
            self._first_fields = encode_fields(self.frame.stream_id, headers)

    async def send(self, frames: bytes, last_seq: int, is_last: bool) -> None:
        """Send each event as one text frame."""
        for event in read_events(frames):
            if event.is_terminal:
                self._end(event)
            fields, self._first_fields = self._first_fields, self._fields
            await self._send(event.with_fields(fields))

    def _end(self, event: EventFrame) -> None:
        """Remember the turn before its client learns that it is over."""
        assert self.prepared is not None
        if event.is_failure:
            self.evict_parent()
        response = msgspec.json.decode(event.data)["response"]
        if not response["store"]:  # the others are found in the store, until they are deleted
            turn = _make_turn(self.prepared, response)
            size = self._size + len(event.data)
            has_history = turn.previous_response_id is None  # in its input, if there is any
            parent = None if has_history else self._parent
            self._turns.add(turn, size, self.frame.stream_id, parent)

    def evict_parent(self) -> None:
        if self.frame.parent_id is not None:
            self._turns.evict(self.frame.parent_id, self.frame.stream_id)


def _make_turn(prepared: PreparedRequest, response: Document) -> Turn:
    request = prepared.request
    return Turn(
        id=response["id"],
        previous_response_id=request.previous_response_id,
        created_at=response["created_at"],
        status=response["status"],
        model=response["model"],
        provider=prepared.targets[0].provider.name,
        client=prepared.caller.client,
        input=request.input,
        output=tuple(response["output"]),
        conversation_end=prepared.conversation_end,
        response={"conversation": response["conversation"]},  # a connection reads nothing else
    )
