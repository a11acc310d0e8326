"""Gateway: every configured model behind `create` and `stream`, within the caller's process.

The engine, its errors and its events are those of the server. A failure before any output raises an
`UpstreamError`; a later one ends the response with status `failed`, as on the wire.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from difflib import get_close_matches
from typing import Any, Self, Unpack

import msgspec

from antiphon import types
from antiphon.core.diagnostic import Diagnostic
from antiphon.core.items import Document
from antiphon.core.request import Request
from antiphon.core.response import Response, text_of_output
from antiphon.core.stream.sequencer import join_output_text
from antiphon.dialects.responses.parse import parse_request
from antiphon.engine.engine import Engine
from antiphon.engine.run import Run
from antiphon.engine.services import Caller
from antiphon.errors import ConfigError, InvalidRequest
from antiphon.library.response_stream import ResponseStream
from antiphon.library.settings import ConfigLike, resolve_config, write_log
from antiphon.library.typed_errors import typed_errors
from antiphon.server.body import decode_body
from antiphon.server.model_catalog import model_list
from antiphon.server.wiring import open_engine
from antiphon.stages.pipeline import StageFactory
from antiphon.types import CreateRequest

_CLIENT = "local"
_DIAGNOSED_RESPONSES = 1000


class Gateway:
    """A gateway in this process: `async with antiphon.Gateway() as gateway`.

    `config` is a `Config` or the path of an `antiphon.toml`. Without one, the providers are those
    whose keys are in the environment. Nothing is written to the disk unless the configuration names
    a store, a trace or keys. `stages` make the caller's own stages, which every response passes.

    Without `async with`, the first request opens the gateway, and `await gateway.close()` closes
    it: a notebook can keep one over many cells. It belongs to the event loop that opens it.
    """

    def __init__(
        self,
        config: ConfigLike = None,
        *,
        environment: Mapping[str, str] | None = None,
        stages: Sequence[StageFactory] = (),
    ) -> None:
        self._environment = os.environ if environment is None else environment
        self._config = resolve_config(config, self._environment)
        for stage in stages:
            if not callable(stage):
                raise ConfigError(f"stages: pass classes or functions, not {stage!r}.")
        self._stages = stages
        self._opening = asyncio.Lock()
        self._resources = AsyncExitStack()
        self._engine: Engine | None = None
        self._is_closed = False
        self._diagnostics: OrderedDict[str, tuple[Diagnostic, ...]] = OrderedDict()

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection and file; a closed gateway takes no further requests."""
        async with self._opening:
            self._is_closed = True
            self._engine = None
            await self._resources.aclose()

    async def _open(self) -> Engine:
        async with self._opening:
            if self._is_closed:
                raise RuntimeError("This gateway is closed. Open another one: antiphon.Gateway(…).")
            if self._engine is None:
                opening = open_engine(
                    self._config, self._environment, write_log, stages=self._stages
                )
                self._engine = await self._resources.enter_async_context(opening)
            return self._engine

    async def create(
        self, request: Mapping[str, Any] | None = None, /, **fields: Unpack[CreateRequest]
    ) -> types.Response:
        """Create a response and wait for it; the request is a document, keywords, or both."""
        run = await self._prepare(request, fields, stream=False)
        with typed_errors():
            async with run:
                response: types.Response = msgspec.to_builtins(await run.response())
                self._note_diagnostics(response["id"], run.diagnostics)
        return response

    def stream(
        self, request: Mapping[str, Any] | None = None, /, **fields: Unpack[CreateRequest]
    ) -> ResponseStream:
        """Create a response and read its events: `async with gateway.stream(…) as stream`."""

        async def prepare() -> Run:
            return await self._prepare(request, fields, stream=True)

        return ResponseStream(prepare, self._note_diagnostics)

    def models(self) -> list[dict[str, Any]]:
        """Return the models that requests can name."""
        engine = self._engine
        if engine is None:
            raise RuntimeError("Open the gateway first: async with antiphon.Gateway() as gateway.")
        document = model_list(engine.router, describes_images=engine.preparer.describes_images)
        return [dict(model) for model in document["data"]]

    def diagnostics(self, response: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return what was degraded or dropped for a response of this gateway."""
        found = self._diagnostics.get(response["id"], ())
        return [msgspec.to_builtins(diagnostic) for diagnostic in found]

    async def _prepare(
        self, request: Mapping[str, Any] | None, fields: CreateRequest, *, stream: bool
    ) -> Run:
        _reject_misspelled(fields)
        if not isinstance(request, Mapping | None):
            raise InvalidRequest(
                "The request must be a mapping or keywords, such as create(model=…, input=…), not"
                f" {type(request).__name__!r}."
            )
        document: Document = {**(request or {}), **fields}
        if document.get("stream", stream) is not stream:
            method = "stream" if document["stream"] else "create"
            raise InvalidRequest(f"`stream` decides the method: call {method}().", param="stream")
        parsed = parse_request(decode_body(_encode({**document, "stream": stream})))
        _reject_background(parsed)
        engine = await self._open()
        caller = Caller(_CLIENT, engine.services.runtime.new_id("req"))
        return await engine.create(parsed, caller)

    def _note_diagnostics(self, response_id: str, diagnostics: Sequence[Diagnostic]) -> None:
        if diagnostics:
            self._diagnostics[response_id] = tuple(diagnostics)
            if len(self._diagnostics) > _DIAGNOSED_RESPONSES:
                self._diagnostics.popitem(last=False)


def _reject_misspelled(names: Iterable[str]) -> None:
    """Reject a keyword that is nearly a field of a request. Any other keyword is passed on: it may
    be a field that only the provider knows."""
    known = CreateRequest.__annotations__
    for name in names:
        near = [] if name in known else get_close_matches(name, known, n=1, cutoff=0.75)
        if near:
            problem = f"'{name}' is no field of a request; did you mean '{near[0]}'?"
            raise InvalidRequest(problem, param=name, code="unknown_parameter")


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
