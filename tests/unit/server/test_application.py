"""The application without a socket: authentication, routing, request ids and error shapes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn, TypeVar

import pytest

from antiphon.core.plan.plan import Outbound
from antiphon.engine.runtime import Runtime, WorkerThread
from antiphon.engine.upstream import UpstreamResponse
from antiphon.providers.registry import Provider
from antiphon.server.application import Application
from antiphon.server.gateway import GatewayProcess
from antiphon.server.http import HTTPRequest
from antiphon.server.wiring import open_setup
from antiphon.stages.log import Entry
from tests.support.applications import (
    LOCAL,
    GatedUpstream,
    document_of,
    echo_config,
    error_of,
    open_application,
    read_stream,
    use_upstream,
)
from tests.support.gateways import events_of
from tests.support.tables import table

T = TypeVar("T")
KEYS = {"alice": "sk-alice"}


async def read_nothing(feed: Callable[[bytes], None]) -> NoReturn:
    raise AssertionError("the body was read")


async def test_a_response_is_created_whole() -> None:
    async with open_application() as opened:
        response = await opened.create()
        assert (response.status, response.headers["content-type"]) == (200, "application/json")
        assert document_of(response)["status"] == "completed"
        assert not opened.engine.active
    [entry] = opened.log
    assert entry.facts["request_id"] == response.headers["x-request-id"]
    assert entry.facts["client"] == "local"


async def test_a_response_is_created_as_a_stream() -> None:
    async with open_application() as opened:
        response = await opened.create(stream=True)
        assert (response.status, response.headers["content-type"]) == (200, "text/event-stream")
        assert response.headers["x-request-id"].startswith("req_")
        data = await read_stream(response)
        assert not opened.engine.active
    assert data.endswith(b"data: [DONE]\n\n")
    types = [event["type"] for event in events_of(data)]
    assert (types[0], types[-1]) == ("response.created", "response.completed")


@table(
    ("method", "path", "status"),
    [
        ("GET", "/v1/models", 200),
        ("HEAD", "/v1/models", 200),
        ("GET", "/health", 200),
        ("GET", "/health/live", 200),
        ("HEAD", "/health/ready", 200),
        ("GET", "/", 404),
        ("POST", "/v1/responses/", 404),
        ("GET", "/healthy", 404),
        ("PUT", "/v1/responses", 405),
        ("GET", "/v1/responses", 405),
        ("POST", "/v1/models", 405),
        ("POST", "/health", 405),
    ],
)
async def test_a_path_and_a_method_select_an_endpoint(method: str, path: str, status: int) -> None:
    async with open_application() as opened:
        response = await opened.request(method, path)
    assert response.status == status
    assert ("allow" in response.headers) == (status == 405)
    if status >= 400:
        assert error_of(response)["type"] == "invalid_request_error"


async def test_unknown_paths_and_methods_are_named() -> None:
    async with open_application() as opened:
        missing = await opened.request("GET", "/x")
        wrong = await opened.request("DELETE", "/v1/models")
    assert error_of(missing)["message"].startswith("No route for GET /x. This gateway serves POST ")
    assert error_of(wrong)["message"] == "DELETE is not allowed for /v1/models; use GET, HEAD."
    assert wrong.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/models", "/nowhere"])
async def test_without_a_valid_key_nothing_is_read_and_no_path_is_revealed(path: str) -> None:
    async with open_application(echo_config(api_keys=KEYS)) as opened:
        http = HTTPRequest("POST", path, LOCAL, "127.0.0.1", read_nothing)
        response = await opened.application.handle(http)
    assert (response.status, error_of(response)["code"]) == (401, "invalid_api_key")


async def test_a_key_admits_its_client_and_health_needs_none() -> None:
    async with open_application(echo_config(api_keys=KEYS)) as opened:
        created = await opened.create({"authorization": "Bearer sk-alice"})
        health = await opened.request("GET", "/health/ready", headers={})
    assert (created.status, health.status) == (200, 200)
    assert [entry.facts["client"] for entry in opened.log] == ["alice"]


async def test_without_keys_a_remote_client_is_a_403() -> None:
    async with open_application() as opened:
        response = await opened.request("GET", "/v1/models", remote="203.0.113.5")
    assert (response.status, error_of(response)["code"]) == (403, "forbidden")


async def test_every_response_has_a_request_id_of_its_own() -> None:
    async with open_application() as opened:
        paths = ("/health", "/v1/models", "/nowhere")
        responses = [await opened.request("GET", path) for path in paths]
    ids = {response.headers["x-request-id"] for response in responses}
    assert len(ids) == 3


async def test_the_date_of_a_response_is_read_from_the_injected_clock() -> None:
    log: list[Entry] = []
    runtime = Runtime(epoch_s=lambda: 784_111_777.5)
    async with open_setup(echo_config(), {}, log.append, runtime) as setup:
        http = HTTPRequest.with_body("GET", "/health", LOCAL)
        response = await Application(GatewayProcess(setup)).handle(http)
    assert response.headers["date"] == "Sun, 06 Nov 1994 08:49:37 GMT"


async def test_a_fault_of_the_provider_is_an_http_error_whole_or_streamed() -> None:
    async with open_application() as opened:
        for stream in (False, True):
            response = await opened.create(model="echo/error-429", stream=stream)
            assert (response.status, error_of(response)["type"]) == (429, "rate_limit_error")
        assert not opened.engine.active


async def test_a_permanent_error_is_a_400_for_codex() -> None:
    async with open_application() as opened:
        response = await opened.request("GET", "/x", headers={**LOCAL, "originator": "codex"})
    assert response.status == 400
    assert "404" in response.headers["antiphon-diagnostics"]


async def test_a_crash_is_a_500_and_is_logged_as_a_bug_without_secrets() -> None:
    async def fail(feed: Callable[[bytes], None]) -> NoReturn:
        raise RuntimeError("bad key sk-secret-0123456789")

    async with open_application() as opened:
        http = HTTPRequest("POST", "/v1/responses", LOCAL, "127.0.0.1", fail)
        response = await opened.application.handle(http)
    assert (response.status, error_of(response)["code"]) == (500, "server_error")
    [entry] = opened.log
    assert (entry.event, entry.facts["error"]) == ("gateway.bug", "RuntimeError")
    assert entry.facts["message"] == "bad key «redacted»"
    assert entry.facts["traceback"][-1].endswith(".fail")
    assert entry.facts["request_id"] == response.headers["x-request-id"]
    assert "sk-secret" not in str(response.body) + str(entry)


class NoThreads(WorkerThread):
    """A worker in a process that may start no further thread."""

    async def run(self, function: Callable[[], T]) -> T:
        raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/responses/input_tokens"])
async def test_no_thread_to_be_had_is_a_503_and_says_which_limit_to_raise(path: str) -> None:
    large = {"model": "echo/echo", "input": "x" * 600_000}
    async with open_application() as opened:
        opened.engine.services = replace(opened.engine.services, worker=NoThreads())
        response = await opened.request("POST", path, json.dumps(large).encode())
    assert (response.status, error_of(response)["code"]) == (503, "server_error")
    assert "threads" in error_of(response)["message"]
    assert response.headers["retry-after"] == "1"
    assert [entry.event for entry in opened.log] == ["gateway.out_of_threads"]
    assert opened.log[0].facts["request_id"] == response.headers["x-request-id"]


async def test_no_thread_to_be_had_during_a_run_is_a_503() -> None:
    class NoResolver(GatedUpstream):
        async def open(self, provider: Provider, outbound: Outbound, key: str) -> UpstreamResponse:
            raise RuntimeError("can't start new thread")

    async with open_application() as opened:
        use_upstream(opened.engine, NoResolver())
        response = await opened.create()
    assert (response.status, error_of(response)["code"]) == (503, "server_error")
    assert [entry.event for entry in opened.log] == ["attempt.failed", "gateway.out_of_threads"]


async def test_a_client_that_disconnects_gets_no_response() -> None:
    async def disconnect(feed: Callable[[bytes], None]) -> NoReturn:
        raise ConnectionResetError

    async with open_application() as opened:
        http = HTTPRequest("POST", "/v1/responses", LOCAL, "127.0.0.1", disconnect)
        with pytest.raises(ConnectionResetError):
            await opened.application.handle(http)
    assert opened.log == []


async def test_during_shutdown_new_responses_are_rejected_and_readiness_fails() -> None:
    async with open_application() as opened:
        opened.application.process.stop_accepting()
        created = await opened.create()
        ready = await opened.request("GET", "/health/ready")
        live = await opened.request("GET", "/health/live")
    assert (created.status, created.close_connection) == (503, True)
    assert (ready.status, document_of(ready)["status"]) == (503, "shutting down")
    assert (live.status, document_of(live)["ready"]) == (200, False)
