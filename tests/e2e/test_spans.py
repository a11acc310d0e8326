"""OpenTelemetry spans of the real gateway, as a real OTLP receiver gets them."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from antiphon.config import AttemptConfig, OtelConfig, ProviderConfig
from antiphon.engine.report import RunReport
from tests.support.failing_providers import ScriptQueue, error
from tests.support.gateways import running, settings
from tests.support.otlp_receiver import Span, otlp_receiver
from tests.support.rounds import (
    SEARCH,
    call_delta,
    round_script,
    rounds_gateway,
    search_call,
    text_delta,
)
from tests.support.upstream import HELLO_WORLD, send_frames, upstream

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
SERVER, CLIENT = 2, 3
BODY = {"model": "up/m", "input": "a secret prompt"}


def children(spans: list[Span], parent_id: str) -> list[Span]:
    return [each for each in spans if each.parent_id == parent_id]


async def test_one_trace_reaches_from_the_client_to_every_attempt(tmp_path: Path) -> None:
    scripts = ScriptQueue(error(500), send_frames(HELLO_WORLD))
    with otlp_receiver() as receiver:
        async with upstream(scripts) as provider:
            config = structs.replace(
                settings(tmp_path, provider.url),
                attempts=AttemptConfig(max_attempts=2, backoff_s=0.001),
                otel=OtelConfig(endpoint=receiver.url, headers={"x-key": "k"}, service_name="gw"),
            )
            async with running(config) as gateway:
                headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "v=1"}
                status, _, response = await gateway.post(BODY, **headers)
    assert status == 200
    spans = receiver.spans
    assert {each.trace_id for each in spans} == {TRACE}
    [request] = children(spans, PARENT)
    assert (request.name, request.kind) == ("chat up/m", SERVER)
    assert (
        request.attributes.items()
        >= {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "up/m",
            "gen_ai.response.model": "m",
            "gen_ai.response.id": response["id"],
            "gen_ai.usage.output_tokens": response["usage"]["output_tokens"],
            "antiphon.client": "local",
        }.items()
    )
    [first_round] = children(spans, request.span_id)
    attempts = children(spans, first_round.span_id)
    assert [(each.name, each.kind) for each in attempts] == [("chat m", CLIENT)] * 2
    assert [each.attributes["http.response.status_code"] for each in attempts] == [500, 200]
    assert [each.is_error for each in attempts] == [True, False]
    sent = [asked.headers["traceparent"] for asked in provider.requests]
    assert sent == [f"00-{TRACE}-{each.span_id}-01" for each in attempts]
    assert {asked.headers["tracestate"] for asked in provider.requests} == {"v=1"}
    assert receiver.resources[0]["service.name"] == "gw"
    assert receiver.headers[0]["x-key"] == "k"
    assert "secret" not in str(spans)


async def test_a_provider_that_a_reload_adds_is_known_by_its_kind(tmp_path: Path) -> None:
    with otlp_receiver() as receiver:
        async with upstream(send_frames(HELLO_WORLD)) as provider:
            before = structs.replace(
                settings(tmp_path, provider.url), otel=OtelConfig(endpoint=receiver.url)
            )
            added = ProviderConfig(kind="mistral", base_url=provider.url, api_keys=["k"])
            after = structs.replace(before, providers={**before.providers, "second": added})
            async with running(before, load=lambda: after) as gateway:
                await gateway.gateway.process.reload()
                assert (await gateway.post({"model": "second/m", "input": "Hi"}))[0] == 200
    names = {each.attributes.get("gen_ai.provider.name") for each in receiver.spans}
    assert "mistral_ai" in names


async def test_without_an_endpoint_nothing_is_passed_on(tmp_path: Path) -> None:
    async with (
        upstream(send_frames(HELLO_WORLD)) as provider,
        running(settings(tmp_path, provider.url)) as gateway,
    ):
        await gateway.post(BODY, traceparent=f"00-{TRACE}-{PARENT}-01")
    assert "traceparent" not in provider.requests[0].headers


async def test_an_attempt_is_known_by_its_round(tmp_path: Path) -> None:
    ended: list[RunReport] = []
    looked = round_script(call_delta(search_call()))
    answer = round_script(text_delta("It rains [1]."))
    async with rounds_gateway(tmp_path, looked, answer) as opened:
        accounting = opened.gateway.engine.services.accounting
        accounting.observers.append(ended.extend)
        await opened.post_request(tools=[SEARCH])
        accounting.drain()
    [request] = ended
    assert len(request.rounds) == 2
    assert [each.round for each in request.attempts] == [0, 1]
