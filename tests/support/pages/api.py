"""Requests to the page's API of an application without a socket."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from antiphon.config import TraceConfig
from antiphon.server.gateway import GatewayProcess
from antiphon.server.http import HTTPRequest, HTTPResponse
from antiphon.store.trace.rows import TraceRow
from tests.support.applications import (
    LOCAL,
    OpenApplication,
    document_of,
    echo_config,
    open_application,
)
from tests.support.traces import trace_at, write_rows

HOST = {"host": "localhost:8484"}


async def ask(
    opened: OpenApplication,
    path: str,
    *,
    method: str = "GET",
    query: str = "",
    headers: Mapping[str, str] = HOST,
    body: Any = None,
    remote: str = "127.0.0.1",
) -> HTTPResponse:
    """Send a request; a body is sent as JSON."""
    data = b"" if body is None else json.dumps(body).encode()
    sent = dict(headers) if body is None else {**LOCAL, **headers}
    http = HTTPRequest.with_body(method, path, sent, data, remote, query)
    return await opened.application.handle(http)


async def ask_json(opened: OpenApplication, path: str, query: str = "") -> Any:
    response = await ask(opened, f"/ui/api/{path}", query=query)
    assert response.status == 200, response.body
    return document_of(response)


@asynccontextmanager
async def traced_application(
    directory: Path, *rows: TraceRow, payloads: bool = True, **server: Any
) -> AsyncIterator[OpenApplication]:
    """An application whose trace has these rows."""
    path = directory / "trace.db"
    if rows:
        write_rows(trace_at(path, payloads=True), *rows)
    trace = TraceConfig(path=str(path), payloads=payloads, max_age_s=10**9)
    config = msgspec.structs.replace(echo_config(**server), trace=trace)
    async with open_application(config, environment=own_files(directory)) as opened:
        yield opened


def own_files(directory: Path) -> dict[str, str]:
    """Environment of a gateway whose own files are below a directory."""
    names = {"XDG_DATA_HOME": "data", "XDG_CONFIG_HOME": "config"}
    return {name: str(directory / value) for name, value in names.items()}


def with_token(process: GatewayProcess) -> dict[str, str]:
    """Headers of a request with the token that changes need."""
    return {**HOST, "authorization": f"Bearer {process.page.token}"}
