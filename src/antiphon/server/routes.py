"""The endpoints. Each parses, calls the engine, encodes."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from aiohttp import web

from antiphon.config import ServerConfig
from antiphon.core.client_profile import Profile, keepalive_as_comment
from antiphon.core.faults.fault import FaultType, shutdown_fault
from antiphon.core.planning.make_plan import diagnostics_header
from antiphon.engine.engine import Engine
from antiphon.engine.run import Run
from antiphon.engine.services import Caller
from antiphon.engine.timer import InactivityTimer
from antiphon.errors import InvalidRequest, UpstreamError
from antiphon.server.app_keys import CLIENT, PROFILE, REQUEST_ID
from antiphon.server.errors import error_response, faulted, json_response
from antiphon.server.event_stream import EventStream
from antiphon.server.model_catalog import entity_tag, model_list
from antiphon.wire.request import Request


@dataclass
class Routes:
    engine: Engine
    config: ServerConfig
    ready: bool = True

    def add_to(self, app: web.Application) -> None:
        app.router.add_post("/v1/responses", self.create)
        app.router.add_get("/v1/responses", self.upgrade)
        app.router.add_get("/v1/models", self.models)
        for path in ("/health", "/health/live"):
            app.router.add_get(path, self.live)
        app.router.add_get("/health/ready", self.readiness)

    async def live(self, http: web.Request) -> web.StreamResponse:
        return json_response({"status": "ok", "ready": self.ready})

    async def readiness(self, http: web.Request) -> web.StreamResponse:
        status = "ok" if self.ready else "shutting down"
        return json_response({"status": status}, status=200 if self.ready else 503)

    async def models(self, http: web.Request) -> web.StreamResponse:
        document = model_list(self.engine.router, sees=self.engine.describe_images is not None)
        headers = {"etag": entity_tag(document)}
        if headers["etag"] in http.headers.get("if-none-match", ""):
            return web.Response(status=304, headers=headers)
        return json_response(document, headers=headers)

    async def upgrade(self, http: web.Request) -> web.StreamResponse:
        """WebSockets are not spoken here; 426 makes clients fall back to HTTP at once."""
        if http.headers.get("upgrade", "").lower() == "websocket":
            return error_response(426, "Use HTTP: POST /v1/responses with stream: true.")
        return error_response(
            405, "Use POST /v1/responses.", code="method_not_allowed", headers={"allow": "POST"}
        )

    async def create(self, http: web.Request) -> web.StreamResponse:
        request = Request.parse(await _json_body(http))
        profile = http[PROFILE]
        if not self.ready:  # asked now and not before: the body may have been long in coming
            return _going_down(profile)
        caller = Caller(http[CLIENT], http[REQUEST_ID], profile)
        async with await self.engine.create(request, caller) as run:
            try:
                if request.stream:
                    return await self._stream(http, run)
                response = await run.response()
                return json_response(response, headers=_headers(http, run))
            except UpstreamError as error:
                return faulted(error.fault, profile)

    async def _stream(self, http: web.Request, run: Run) -> web.StreamResponse:
        # What is told of the plan waits for the first event: until then, the plan may change.
        headers = partial(_headers, http, run)
        commented = partial(run.add_diagnostic, keepalive_as_comment(http[PROFILE]))
        stream = EventStream(
            http,
            headers,
            keepalive_s=self.config.keepalive_s,
            commented=commented if http[PROFILE].keepalive == "comment" else None,
        )
        patience = _Patience(self.config.commit_after_s, run, stream)
        try:
            try:
                await run.open()
            except UpstreamError as error:
                await patience.over()
                if not stream.begun and error.fault.type is not FaultType.context_length:
                    raise
                # Clients compact a thread only if they hear of the overflow inside a stream.
                await stream.send(await run.fail(error.fault))
                return await stream.end()
            await patience.over()
            async with aclosing(run.events()) as batches:
                async for events in batches:
                    await stream.send(events)
            return await stream.end()
        finally:
            stream.close()
            patience.close()


class _Patience:
    """Begins the answer for an upstream that is slow to speak, so that the client is not left
    without a byte. Until then, a fault can still be an HTTP error."""

    def __init__(self, limit_s: float, run: Run, stream: EventStream) -> None:
        self._run = run
        self._stream = stream
        self._task: asyncio.Task[None] | None = None
        self._timer = InactivityTimer(limit_s, self._ring)

    def _ring(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._begin())

    async def _begin(self) -> None:
        await self._stream.send(self._run.start())

    async def over(self) -> None:
        self._timer.cancel()
        if self._task is not None:
            await self._task

    def close(self) -> None:
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()


async def _json_body(http: web.Request) -> bytes:
    """The body, if it says it is JSON: a web page of another origin cannot say so unasked."""
    if http.content_type != "application/json":
        raise InvalidRequest(
            f"The content type must be application/json, not {http.content_type!r}.",
            code="unsupported_media_type",
            status=415,
        )
    try:
        return await http.read()
    except web.RequestPayloadError as error:
        raise InvalidRequest("The request body cannot be read: it is not what it says.") from error


def _going_down(profile: Profile) -> web.StreamResponse:
    """Whoever comes back on a line that was left open is sent elsewhere."""
    response = faulted(shutdown_fault(), profile)
    response.force_close()
    return response


def _headers(http: web.Request, run: Run) -> dict[str, str]:
    headers = {"x-request-id": http[REQUEST_ID]}
    if run.diagnostics:
        headers["antiphon-diagnostics"] = diagnostics_header(run.diagnostics)
    return headers
