"""aiohttp server around the application: reads requests, writes responses, manages the port."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import HttpVersion11, StreamWriter, WebSocketReader
from aiohttp.http_exceptions import (
    BadStatusLine,
    InvalidHeader,
    LineTooLong,
    TransferEncodingError,
)

from antiphon.config import ServerConfig
from antiphon.dialects.client_dialect import request_problem
from antiphon.dialects.responses.client import RESPONSES
from antiphon.errors import InvalidRequest, Refused
from antiphon.server.application import Application
from antiphon.server.content_encoding import PIECE_BYTES, ContentDecoder
from antiphon.server.errors import (
    body_timeout,
    error_response,
    head_timeout,
    header_too_large,
    malformed_request,
    too_many_connections,
)
from antiphon.server.http import HTTPRequest, HTTPResponse
from antiphon.server.websocket.aiohttp_socket import PROTOCOL_ERROR, FrameHeads, serve_websocket

SERVER_NAME = "antiphon"  # without a version, which would tell attackers what to try
_PARSER_ERRORS = {
    BadStatusLine: "the request line is malformed",
    InvalidHeader: "a header is malformed",
    TransferEncodingError: "its chunked body is malformed",
}
_OK = HTTPStatus.OK.value
_NO_PIECES: deque[bytes] = deque()
"""The buffer of bodies that have arrived and were taken; nothing is added to it."""
_STATUS_LINE = "HTTP/1.1 200 OK"
_LINE_LIMIT = 8190
_HEADER_LIMIT = 64 * 1024

# aiohttp logs requests that it cannot parse literally, which would put prompts into the log.
_SILENT_LOGGER = logging.Logger("antiphon.http", logging.CRITICAL + 1)
_BACKLOG = 2048
_WRITE_BUFFER_BYTES = 64 * 1024  # written and not sent; more waits for the client
_ACCEPT_PASSES = 10  # of the event loop, from accept to connection_made; it takes at most four
_CLOSE_TIMEOUT_S = 1.0  # for connections that are still open when the server is closed


async def handle(
    application: Application, request: web.BaseRequest, path: str | None = None
) -> web.StreamResponse:
    """Respond to an aiohttp request; `path` is for an application that is mounted below another,
    whose server has decompressed the body already."""
    response = await application.handle(
        HTTPRequest(
            request.method,
            request.path if path is None else path,
            request.headers,
            request.remote or "",
            partial(
                _read_body,
                application.process.setup.server.body_timeout_s,
                request,
                path is None,
            ),
            request.rel_url.raw_query_string,
        )
    )
    response.headers["server"] = SERVER_NAME
    is_plain = path is None and _EncodedResponse.can_send(response, request)
    keep_alive = request.keep_alive and not response.close_connection
    if isinstance(response.body, bytes):
        if response.session is not None:
            return await serve_websocket(request, response.headers, response.session)
        if is_plain:
            return _EncodedResponse(response.headers, keep_alive, response.body)
        return _whole_response(response, response.body)
    try:
        if is_plain:
            streamed: web.StreamResponse = _EncodedResponse(response.headers, keep_alive)
        else:
            streamed = web.StreamResponse(status=response.status, headers=response.headers)
            if response.close_connection:
                streamed.force_close()
        # It cancels the timer for an idle connection, which is made anew after the response.
        request.protocol.keep_alive(True)
        writer = await streamed.prepare(request)
        assert isinstance(writer, StreamWriter)
        write = _ChunkWriter(writer).write if writer.chunked else writer.write
        await response.body.write_to(write)
        await streamed.write_eof()
        return streamed
    finally:
        await response.body.close()


class _ChunkWriter:
    """Writer of a streamed body: each piece at once, as one HTTP chunk, or a large one in several,
    so that no more than the write buffer is copied for a client that reads slowly.

    aiohttp runs four times as many bytecodes for it, per event of a stream. It writes the head,
    together with the first piece.
    """

    __slots__ = ("_transport", "_writer")

    def __init__(self, writer: StreamWriter) -> None:
        self._writer = writer
        self._transport: asyncio.Transport | None = None

    async def write(self, data: bytes) -> None:
        transport = self._transport
        if transport is None:
            await self._writer.write(data)
            self._transport = self._writer.transport
        elif transport.is_closing():
            raise ConnectionResetError("the client has closed the connection")
        elif len(data) > _WRITE_BUFFER_BYTES:
            await self._write_pieces(transport, data)
        elif data:
            transport.write(b"%x\r\n%b\r\n" % (len(data), data))
            if transport.get_write_buffer_size() > _WRITE_BUFFER_BYTES:
                await self._writer.drain()

    async def _write_pieces(self, transport: asyncio.Transport, data: bytes) -> None:
        for start in range(0, len(data), _WRITE_BUFFER_BYTES):
            piece = data[start : start + _WRITE_BUFFER_BYTES]
            transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await self._writer.drain()


def _whole_response(response: HTTPResponse, body: bytes) -> web.Response:
    whole = web.Response(status=response.status, headers=response.headers, body=body)
    if response.close_connection:
        whole.force_close()
    return whole


class _EncodedResponse(web.StreamResponse):
    """A successful response to a request of HTTP/1.1.

    The bytes are those of a `web.Response` or a `web.StreamResponse`, which pass their headers
    through many more steps: they may be changed until they are sent. Nothing changes these, so the
    base class, which would copy them, is not initialized: the server asks for no more than what is
    defined here.
    """

    def __init__(
        self, headers: dict[str, str], keep_alive: bool, whole: bytes | None = None
    ) -> None:
        """`whole` is the body; None: it is written to the writer that `prepare` returns."""
        self._head = headers
        self._stays_open = keep_alive
        self._whole = whole
        self._writer: AbstractStreamWriter | None = None

    @staticmethod
    def can_send(response: HTTPResponse, request: web.BaseRequest) -> bool:
        """Whether the response has a body of a known type, and a head that does not depend on the
        request."""
        return (
            response.status == _OK
            and bool(response.body)
            and "content-type" in response.headers
            and request.version == HttpVersion11
            and request.method != hdrs.METH_HEAD
        )

    @property
    def keep_alive(self) -> bool:
        return self._stays_open

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter:
        """Encode the head; that of a whole response is sent together with its body."""
        if self._writer is not None:
            return self._writer
        writer = self._writer = request.writer
        if self._whole is not None:
            self._head[hdrs.CONTENT_LENGTH] = str(len(self._whole))
        else:
            self._head[hdrs.TRANSFER_ENCODING] = "chunked"
            writer.enable_chunking()
        if not self._stays_open:
            self._head[hdrs.CONNECTION] = "close"
        await writer.write_headers(_STATUS_LINE, self._head)  # type: ignore[arg-type]
        self._head.clear()  # it would be kept as long as the stream
        if self._whole is None:
            writer.send_headers()
        return writer

    async def write_eof(self, data: bytes = b"") -> None:
        """End the body. The server calls this once more: then nothing happens."""
        assert self._writer is not None
        await self._writer.write_eof(self._whole or b"")


async def _read_body(
    timeout_s: float, request: web.BaseRequest, decompress: bool, feed: Callable[[bytes], None]
) -> None:
    """Pass on the pieces of a body as they arrive; other requests have their turn between them."""
    if (body := _take_arrived(request)) is not None:
        feed(body)
        return
    await _send_continue(request)
    try:
        if request.content.is_eof():
            await _read_pieces(request, decompress, feed)
        else:
            async with asyncio.timeout(timeout_s):
                await _read_pieces(request, decompress, feed)
    except TimeoutError:
        raise body_timeout(timeout_s) from None
    except web.RequestPayloadError as error:
        raise InvalidRequest(
            "The request body could not be decoded: it does not match its framing."
        ) from error


def _take_arrived(request: web.BaseRequest) -> bytes | None:
    """Return a short body that has arrived already, as most bodies have; None if this one must be
    waited for, or decompressed."""
    content = request.content
    if not content.is_eof() or not 0 < content.total_bytes <= PIECE_BYTES:
        return None
    headers = request.headers
    if hdrs.CONTENT_ENCODING in headers or hdrs.EXPECT in headers or content.exception():
        return None
    # `read_nowait` would also have the connection read on, which has not stopped for a short body.
    # And an empty deque is not small: it would be kept as long as the response.
    pieces, content._buffer = content._buffer, _NO_PIECES
    return b"".join(pieces)


async def _read_pieces(
    request: web.BaseRequest, decompress: bool, feed: Callable[[bytes], None]
) -> None:
    content = request.content
    encoding = request.headers.get(hdrs.CONTENT_ENCODING, "identity") if decompress else "identity"
    decoder = None if encoding == "identity" else ContentDecoder(encoding)
    while data := await content.readany():
        for piece in _split(data) if decoder is None else decoder.feed(data):
            feed(piece)
            if len(piece) == PIECE_BYTES:
                await asyncio.sleep(0)
    if decoder is not None:
        decoder.close()


def _split(data: bytes) -> Iterable[bytes]:
    if len(data) <= PIECE_BYTES:
        return (data,)
    return (data[start : start + PIECE_BYTES] for start in range(0, len(data), PIECE_BYTES))


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


class _Server(web.Server):
    """Makes the connections of a port, and counts them by address."""

    def __init__(self, application: Application, config: ServerConfig, **options: Any) -> None:
        super().__init__(partial(handle, application), **options)
        self.new_request_id = application.process.new_request_id
        self._options = options
        self.header_timeout_s = config.header_timeout_s
        self.max_per_address = config.max_connections_per_address
        self.by_address: Counter[str] = Counter()
        self.idle = asyncio.Event()
        """Set while no connection is open."""
        self.idle.set()

    def __call__(self) -> web.RequestHandler:
        return _Connection(self, asyncio.get_running_loop(), self._options)


class _Heads(list[Any]):
    """The requests of a connection that have not begun: an empty deque takes 600 bytes."""

    __slots__ = ()

    def popleft(self) -> Any:
        return self.pop(0)


class _Connection(web.RequestHandler):
    """One connection: its head must arrive in time, and its errors have the shape of the API."""

    __slots__ = ("_address", "_head_timer", "_received", "_server")

    def __init__(
        self, server: _Server, loop: asyncio.AbstractEventLoop, options: Mapping[str, Any]
    ) -> None:
        options = {name: each for name, each in options.items() if name != "handler_cancellation"}
        super().__init__(server, loop=loop, **options)
        self._messages: Any = _Heads()
        self._server = server
        self._address = ""
        self._head_timer: asyncio.TimerHandle | None = None
        self._received = False
        self._force_close = False  # of aiohttp, which stops reading once it is set

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        self._address = str(peer[0]) if peer else ""
        by_address = self._server.by_address
        limit = self._server.max_per_address
        by_address[self._address] += 1
        self._server.idle.clear()
        super().connection_made(transport)
        if limit and by_address[self._address] > limit:
            self._reject(too_many_connections(self._address, limit))
        else:
            self._start_head_timer()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_head_timer()
        by_address = self._server.by_address
        by_address[self._address] -= 1
        if not by_address[self._address]:
            del by_address[self._address]
        if not by_address:
            self._server.idle.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._messages or self._request_in_progress:
            self._stop_head_timer()
        elif self._head_timer is None and not self._force_close:
            self._start_head_timer()
        self._received = True

    def set_parser(
        self, parser: WebSocketReader, data_received_cb: Callable[[], None] | None = None
    ) -> None:
        """Read frames from now on: the connection is a WebSocket."""
        checked: Any = _MaskedFrames(parser, self._reject_unmasked)
        super().set_parser(checked, data_received_cb)

    def _reject_unmasked(self) -> None:
        assert self.transport is not None
        self.transport.write(PROTOCOL_ERROR)
        self.transport.close()

    def _start_head_timer(self) -> None:
        limit_s = self._server.header_timeout_s
        self._head_timer = asyncio.get_running_loop().call_later(limit_s, self._on_head_timeout)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _on_head_timeout(self) -> None:
        """Close the connection; a client that has sent nothing at all expects no response."""
        if self._received:
            self._reject(head_timeout(self._server.header_timeout_s))
        else:
            self.force_close()

    def _reject(self, refused: Refused) -> None:
        """Respond without a request, read no more, and close once the client has the response."""
        transport = self.transport
        assert transport is not None
        self._force_close = True
        response = self._make_response(refused)
        transport.write(_encode_response(response))
        if transport.can_write_eof():
            transport.write_eof()
        asyncio.get_running_loop().call_later(_CLOSE_TIMEOUT_S, transport.close)

    def _make_response(self, refused: Refused) -> HTTPResponse:
        """Make a response that the application has not made: the route is not known."""
        response = error_response(request_problem(refused), RESPONSES)
        response.headers["server"] = SERVER_NAME
        response.headers["x-request-id"] = self._server.new_request_id()
        return response

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Respond to invalid HTTP in the shape of the API, and close the connection."""
        if request.writer.output_size > 0:
            raise ConnectionError("the response has begun")
        response = self._make_response(_describe_parser_error(exc))
        response.close_connection = True
        assert isinstance(response.body, bytes)
        return _whole_response(response, response.body)


class _MaskedFrames:
    """Parser of a WebSocket that is given no bytes after an unmasked frame."""

    def __init__(self, parser: WebSocketReader, reject: Callable[[], None]) -> None:
        self._parser = parser
        self._reject = reject
        self._heads = FrameHeads()

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        if self._heads.are_masked(data):
            return self._parser.feed_data(data)
        self._reject()
        return True, b""

    def feed_eof(self) -> None:
        self._parser.feed_eof()


def _describe_parser_error(error: BaseException | None) -> Refused:
    if isinstance(error, LineTooLong):
        return header_too_large(_HEADER_LIMIT)
    problems = (text for kind, text in _PARSER_ERRORS.items() if isinstance(error, kind))
    return malformed_request(next(problems, "it cannot be parsed"))


def _encode_response(response: HTTPResponse) -> bytes:
    """Encode a whole response for a connection that has no request."""
    assert isinstance(response.body, bytes)
    phrase = HTTPStatus(response.status).phrase
    headers = {**response.headers, "content-length": str(len(response.body))}
    headers["connection"] = "close"
    lines = [f"HTTP/1.1 {response.status} {phrase}", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + response.body


class AiohttpServer:
    """The application on a TCP port."""

    def __init__(
        self,
        application: Application,
        config: ServerConfig,
        listeners: Sequence[socket.socket] = (),
    ) -> None:
        """`listeners` are bound sockets, which replace host and port of the configuration."""
        self._application = application
        self._config = config
        self._listeners = listeners
        self._runner: web.ServerRunner | None = None
        self._server: _Server | None = None
        self._sites: list[web.BaseSite] = []

    @property
    def port(self) -> int:
        """The port that is bound; if 0 was configured, the system chose it."""
        assert self._runner is not None
        return int(self._runner.addresses[0][1])

    async def start(self) -> None:
        server = self._server = _Server(
            self._application,
            self._config,
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,
            max_line_size=_LINE_LIMIT,
            max_field_size=_HEADER_LIMIT,
            logger=_SILENT_LOGGER,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=_CLOSE_TIMEOUT_S)
        await self._runner.setup()
        host = self._config.host
        port = self._config.port
        if self._listeners:
            self._sites = [
                web.SockSite(self._runner, each, backlog=_BACKLOG) for each in self._listeners
            ]
        else:
            self._sites = [web.TCPSite(self._runner, host, port, backlog=_BACKLOG)]
        for site in self._sites:
            await site.start()

    async def stop_listening(self) -> None:
        """Accept no further connections; those that are open go on."""
        sites, self._sites = self._sites, []
        for site in sites:
            await site.stop()

    async def wait_disconnected(self) -> None:
        """Wait until no connection is open, and none is on its way: a connection that the event
        loop has accepted becomes one of the server's some passes of the loop later."""
        assert self._server is not None
        passes = 0
        while passes < _ACCEPT_PASSES:
            await self._server.idle.wait()
            await asyncio.sleep(0)
            passes = passes + 1 if self._server.idle.is_set() else 0

    async def close(self) -> None:
        """Close every connection."""
        if self._runner is not None:
            await self._runner.cleanup()
