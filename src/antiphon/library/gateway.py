"""Gateway: every configured model behind `create` and `stream`, within the caller's process.

The engine, its errors and its events are those of the server. A failure before any output raises an
`UpstreamError`; a later one ends the response with status `failed`, as on the wire.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from antiphon.core.diagnostic import Diagnostic
from antiphon.core.items import Document
from antiphon.core.request import Request
from antiphon.core.response import Response, text_of_output
from antiphon.core.stream.sequencer import join_output_text
from antiphon.dialects.responses.parse import parse_request
from antiphon.engine.engine import Engine
from antiphon.engine.run import Run
from antiphon.engine.services import Caller
from antiphon.errors import InvalidRequest
from antiphon.library.response_stream import ResponseStream
from antiphon.library.settings import ConfigLike, resolve_config, write_log
from antiphon.library.typed_errors import typed_errors
from antiphon.server.body import decode_body
from antiphon.server.model_catalog import model_list
from antiphon.server.wiring import open_engine
from antiphon.stages.stage import StageFactory

_CLIENT = "local"
_DIAGNOSED_RESPONSES = 1000


@asynccontextmanager
async def open_gateway(
    config: ConfigLike = None,
    *,
    environment: Mapping[str, str] | None = None,
    stages: Sequence[StageFactory] = (),
) -> AsyncIterator[Gateway]:
    """Open a gateway in this process: `async with antiphon.open() as gateway`.

    `config` is a `Config` or the path of an `antiphon.toml`. Without one, the providers are those
    whose keys are in the environment. Nothing is written to the disk unless the configuration names
    a store, a trace or keys. `stages` make the caller's own stages, which every response passes.
    """
    environment = os.environ if environment is None else environment
    resolved = resolve_config(config, environment)
    async with open_engine(resolved, environment, write_log, stages=stages) as engine:
        yield Gateway(engine)


class Gateway:
    """An open gateway. Make one with `antiphon.open`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._diagnostics: OrderedDict[str, tuple[Diagnostic, ...]] = OrderedDict()

    async def create(
        self, request: Mapping[str, Any] | None = None, /, **fields: Any
    ) -> dict[str, Any]:
        """Create a response and wait for it; the request is a document, keywords, or both."""
        run = await self._prepare(request, fields, stream=False)
        with typed_errors():
            async with run:
                response = msgspec.to_builtins(await run.response())
                self._note_diagnostics(response["id"], run.diagnostics)
        return dict(response)

    def stream(self, request: Mapping[str, Any] | None = None, /, **fields: Any) -> ResponseStream:
        """Create a response and read its events: `async with gateway.stream(…) as stream`."""

        async def prepare() -> Run:
            return await self._prepare(request, fields, stream=True)

        return ResponseStream(prepare, self._note_diagnostics)

    def models(self) -> list[dict[str, Any]]:
        """Return the models that requests can name."""
        document = model_list(
            self._engine.router, describes_images=self._engine.preparer.describes_images
        )
        return [dict(model) for model in document["data"]]

    def diagnostics(self, response: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return what was degraded or dropped for a response of this gateway."""
        found = self._diagnostics.get(response["id"], ())
        return [msgspec.to_builtins(diagnostic) for diagnostic in found]

    async def _prepare(
        self, request: Mapping[str, Any] | None, fields: Document, *, stream: bool
    ) -> Run:
        document = {**(request or {}), **fields}
        if document.get("stream", stream) is not stream:
            method = "stream" if document["stream"] else "create"
            raise InvalidRequest(f"`stream` decides the method: call {method}().", param="stream")
        parsed = parse_request(decode_body(_encode({**document, "stream": stream})))
        _reject_background(parsed)
        caller = Caller(_CLIENT, self._engine.services.runtime.new_id("req"))
        return await self._engine.create(parsed, caller)

    def _note_diagnostics(self, response_id: str, diagnostics: Sequence[Diagnostic]) -> None:
        if diagnostics:
            self._diagnostics[response_id] = tuple(diagnostics)
            if len(self._diagnostics) > _DIAGNOSED_RESPONSES:
                self._diagnostics.popitem(last=False)


def _encode(document: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(document)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"The request cannot be encoded as JSON: {error}.") from error


def output_text(response: Mapping[str, Any] | Response) -> str:
    """Return the text of a response, or of the snapshot of a machine: all its `output_text` parts,
    joined."""
    if isinstance(response, Response):
        return join_output_text(response.output)
    return text_of_output(response["output"])


def _reject_background(request: Request) -> None:
    if request.background:
        raise InvalidRequest(
            "`background` is not supported without a server: leave it out, and use `stream` for a"
            " long response.",
            param="background",
            code="unsupported_parameter",
        )
