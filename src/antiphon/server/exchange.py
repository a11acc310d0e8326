"""Exchange: one request from its head to the end of its response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import msgspec
from msgspec import structs

from antiphon.core.diagnostic import Diagnostic, diagnostics_header
from antiphon.core.faults.fault import internal_fault
from antiphon.core.items import Document
from antiphon.core.request import Request
from antiphon.dialects.client_dialect import ClientDialect, Problem
from antiphon.dialects.own_names import rename_diagnostic, rename_problem
from antiphon.dialects.responses.client import RESPONSES
from antiphon.engine.fault_report import clean_own_text, is_bug, report_fault
from antiphon.engine.services import Caller, Services
from antiphon.errors import AntiphonError, InvalidRequest, ToolsNotUsable, UpstreamError
from antiphon.server.body import BodyReader, check_input_items, check_settings
from antiphon.server.errors import describe_error, is_expected
from antiphon.server.gateway import GatewayProcess
from antiphon.server.http import HTTPRequest, HTTPResponse
from antiphon.server.setup import Setup
from antiphon.stages.log import Entry
from antiphon.store.quoted_text import RequestTexts, read_texts
from antiphon.store.trace.rows import TraceError, TraceFinish, TraceRequest

_MAX_NAME = 200
_JSON = "application/json"


class Exchange:
    """One request: the setup by which it is served, its sender, and what was received of it."""

    __slots__ = (
        "caller",
        "dialect",
        "document",
        "http",
        "ids",
        "is_large",
        "process",
        "request",
        "setup",
    )

    def __init__(
        self,
        process: GatewayProcess,
        setup: Setup,
        http: HTTPRequest,
        caller: Caller,
        *,
        dialect: ClientDialect = RESPONSES,
        ids: Mapping[str, str] = {},
        document: Document | None = None,
        is_large: bool = False,
    ) -> None:
        """`http` is the request, or the handshake of a WebSocket on which it was sent. `document`
        is its decoded body, if it was received already."""
        self.process = process
        self.setup = setup
        self.http = http
        self.caller = caller
        self.dialect = dialect
        """The format of the client."""
        self.ids = ids
        """Ids in the path, by their names in `server/routes.py`."""
        self.document = document
        """The decoded body; None if it was not received, or could not be decoded."""
        self.is_large = is_large
        """Whether the body takes so long to handle that it is done in a thread."""
        self.request: Request | None = None
        """The canonical request; None if it was not parsed, or is not one for a response."""

    @property
    def services(self) -> Services:
        return self.setup.engine.services

    def identify(self, client: str) -> None:
        """Note whose key the request was sent with."""
        self.caller = structs.replace(self.caller, client=client)

    # The body

    async def read_document(self) -> Document:
        """Read and decode a JSON body. Web pages of other origins cannot send its content type
        without a CORS preflight, which is not answered."""
        content_type = self.http.headers.get("content-type", "")
        if content_type != _JSON:
            _check_content_type(content_type)
        reader = BodyReader(self.setup.body_limits)
        await self.http.read_body(reader.feed)
        self.document = reader.close()
        self.is_large = reader.is_large
        return self.document

    async def read_request(self, *, is_count: bool = False) -> Request:
        """Read the body, if that was not done, and validate it in the format of the client."""
        document = self.document if self.document is not None else await self.read_document()
        check_input_items(document, self.setup.body_limits)
        if self.is_large:
            parse = partial(self._parse_large, document, is_count)
            self.request = await self.services.worker.run(parse)
        else:
            headers = self.http.headers
            self.request = self.dialect.parse(document, headers=headers, is_count=is_count)
        return self.request

    def _parse_large(self, document: Document, is_count: bool) -> Request:
        """Validate a large body, in a thread because it would delay other requests."""
        check_settings(document, self.setup.body_limits)
        return self.dialect.parse(
            document, headers=self.http.headers, is_large=True, is_count=is_count
        )

    @property
    def model(self) -> str:
        """The model that was asked for, as far as the trace keeps its name."""
        name = (self.document or {}).get("model")
        return name[:_MAX_NAME] if isinstance(name, str) else ""

    def texts(self) -> RequestTexts:
        """Return the texts of the request, which messages must not quote. The name of the model is
        none of them: the trace has it."""
        if self.is_large:
            return RequestTexts(too_large=True)
        document = dict(self.document or {})
        if document.get("model") == self.model:
            del document["model"]
        return read_texts(msgspec.json.encode(document), names=True)

    # Errors

    def fail(self, error: Exception, *, is_recorded: bool = True) -> Problem:
        """Return the problem of an error that ends the request. A failure of the gateway is logged,
        and a request that was rejected before a run began is recorded in the trace."""
        if not is_expected(error):
            self.report_failure(error)
        problem = describe_error(error, self.caller)
        if isinstance(error, InvalidRequest):
            problem = self._in_own_names(problem)
        if is_recorded and not isinstance(error, UpstreamError | ToolsNotUsable):
            self._record_rejection(problem, is_logged=not is_expected(error))
        return problem

    def _in_own_names(self, problem: Problem) -> Problem:
        """Return an error about the canonical request with the names of the client's format. Those
        of a parser have them already."""
        if self.request is None:
            return problem
        return rename_problem(problem, partial(self.dialect.own_name, request=self.request))

    def diagnostics_headers(self, diagnostics: Sequence[Diagnostic]) -> dict[str, str]:
        """The header that tells the client what was degraded or ignored, in its own names."""
        if not diagnostics:
            return {}
        assert self.request is not None
        own_name = partial(self.dialect.own_name, request=self.request)
        renamed = (rename_diagnostic(each, own_name) for each in diagnostics)
        return {"antiphon-diagnostics": diagnostics_header(renamed)}

    def report_failure(self, error: Exception) -> None:
        """Log a failure of the gateway itself: a known error with its reason, or a bug without what
        its message quotes of the request."""
        services = self.services
        request_id = self.caller.request_id
        if isinstance(error, AntiphonError):
            facts = {"request_id": request_id, "code": error.code, "reason": error.message}
            services.emit(Entry("request.failed", "error", facts))
            return
        fault = internal_fault(error)
        report = report_fault(fault, services.redactor, self.texts())
        event = "gateway.bug" if is_bug(fault) else "gateway.out_of_threads"
        services.emit(Entry(event, "error", {"request_id": request_id, **report.facts}))

    def _record_rejection(self, problem: Problem, *, is_logged: bool) -> None:
        """Count the problem; record it in the trace, and in the log if it is not there yet, unless
        there are too many of this client."""
        services = self.services
        caller = self.caller
        record = services.tracer.record
        code = problem.code or problem.kind
        services.accounting.record_rejection(code)
        if not is_logged and not self.process.rejections.admits(caller.client):
            return
        message = clean_own_text(problem.message, services.redactor)
        if not is_logged:
            self._log_rejection(problem, code, message)
        record(
            TraceRequest(
                request_id=caller.request_id,
                received_at_ms=services.runtime.now_ms(),
                client=caller.client or None,
                software=caller.profile.software,
                format=self.dialect.name,
                model=self.model,
                stream=(self.document or {}).get("stream") is True,
                session=caller.session or None,
            )
        )
        record(
            TraceError(
                request_id=caller.request_id,
                code=code,
                message=message,
                param=clean_own_text(problem.param or "", services.redactor) or None,
            )
        )
        record(
            TraceFinish(
                request_id=caller.request_id,
                status="rejected",
                http_status=problem.status,
                duration_ms=0,
            )
        )

    def _log_rejection(self, problem: Problem, code: str, message: str) -> None:
        facts = {
            "request_id": self.caller.request_id,
            "client": self.caller.client,
            "model": self.model,
            "http_status": problem.status,
            "code": code,
            "reason": message,
        }
        self.process.rejections.log(self.services.emit, facts)


def _check_content_type(header: str) -> None:
    content_type = header.partition(";")[0].strip().lower()
    if content_type != _JSON:
        raise InvalidRequest(
            f"The content type must be application/json, not {content_type!r}.",
            code="unsupported_media_type",
            status=415,
        )


Endpoint: TypeAlias = Callable[[Exchange], Awaitable[HTTPResponse]]
