"""aiohttp server around the application: reads requests, writes responses, manages the port."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader

from antiphon.config import ServerConfig
from antiphon.errors import InvalidRequest
from antiphon.server.application import Application
from antiphon.server.errors import body_too_large
from antiphon.server.http import HTTPRequest, HTTPResponse

# aiohttp logs requests that it cannot parse literally, which would put prompts into the log.
_SILENT_LOGGER = logging.Logger("antiphon.http", logging.CRITICAL + 1)
_CLOSE_TIMEOUT_S = 1.0  # for connections that are still open when the server is closed


async def handle(
    application: Application, request: web.BaseRequest, path: str | None = None
) -> web.StreamResponse:
    """Answer one aiohttp request; `path` is for an application that is mounted below another."""
    response = await application.handle(
        HTTPRequest(
            method=request.method,
            path=request.path if path is None else path,
            headers=request.headers,
            remote=request.remote or "",
            read_body=partial(_read_body, request),
        )
    )
    if isinstance(response.body, bytes):
        return _whole_response(response, response.body)
    try:
        streamed = web.StreamResponse(status=response.status, headers=response.headers)
        await streamed.prepare(request)
        await response.body.write_to(streamed.write)
        await streamed.write_eof()
        return streamed
    finally:
        await response.body.close()


def _whole_response(response: HTTPResponse, body: bytes) -> web.Response:
    whole = web.Response(status=response.status, headers=response.headers, body=body)
    if response.close_connection:
        whole.force_close()
    return whole


async def _read_body(request: web.BaseRequest) -> bytes:
    await _send_continue(request)
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise body_too_large(request.client_max_size) from None
    except web.RequestPayloadError as error:
        encoding = "Content-Encoding" if hdrs.CONTENT_ENCODING in request.headers else "framing"
        raise InvalidRequest(
            f"The request body could not be decoded: it does not match its {encoding}."
        ) from error


async def _send_continue(request: web.BaseRequest) -> None:
    """Let a client send its body that waits for permission, as curl does with a large one."""
    expect = request.headers.get(hdrs.EXPECT)
    if expect is None or request.version < (1, 1):
        return
    if expect.lower() != "100-continue":
        raise InvalidRequest(
            f"The header `Expect: {expect}` is not supported. Leave it out.",
            status=417,
        )
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0  # the response itself has not begun


class AiohttpServer:
    """The application on a TCP port."""

    def __init__(self, application: Application, config: ServerConfig) -> None:
        self._application = application
        self._config = config
        self._runner: web.ServerRunner | None = None
        self._site: web.TCPSite | None = None

    @property
    def port(self) -> int:
        """The port that is bound; if 0 was configured, the system chose it."""
        assert self._runner is not None
        return int(self._runner.addresses[0][1])

    async def start(self) -> None:
        server = web.Server(
            partial(handle, self._application),
            request_factory=partial(_make_request, self._config.max_body_bytes),
            handler_cancellation=True,
            access_log=None,
            max_field_size=64 * 1024,
            logger=_SILENT_LOGGER,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=_CLOSE_TIMEOUT_S)
        await self._runner.setup()
        host, port = self._config.host, self._config.port
        self._site = web.TCPSite(self._runner, host, port, backlog=2048)
        await self._site.start()

    async def stop_listening(self) -> None:
        """Accept no further connections; those that are open go on."""
        site, self._site = self._site, None
        if site is not None:
            await site.stop()

    async def close(self) -> None:
        """Close every connection."""
        if self._runner is not None:
            await self._runner.cleanup()


def _make_request(
    max_body_bytes: int,
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: web.RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(
        message, payload, protocol, writer, task, loop, client_max_size=max_body_bytes
    )
