"""A replay gives the events that the client of the gateway gets, for every recording.

The gateway calls a provider that answers with the recorded bytes; `antiphon.replay` reads the same
bytes with the same request. Ids are numbered in both, and capsules are compared as capsules.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

import antiphon
from antiphon.config import AttemptConfig, CompatibilityConfig, ProviderConfig
from antiphon.core.stream.numbered_ids import number_ids
from antiphon.engine.runtime import Runtime
from antiphon.providers.registry import SPECS
from tests.support.client_answers import Answer, post_request
from tests.support.corpus import ABSENT, Case, cases
from tests.support.gateways import Running, replaced, running, settings
from tests.support.upstream import Connection, ReceivedRequest, upstream

CASES = [case for case in cases() if case.meta["http_status"] == 200]
PROTOCOLS = ("anthropic", "bedrock", "chat", "cohere", "gemini", "ollama", "responses")
TYPES = {
    "sse": "text/event-stream",
    "ndjson": "application/x-ndjson",
    "eventstream": "application/vnd.amazon.eventstream",
}
CAPSULE = re.compile(r"ap2\.[A-Za-z0-9_=-]+")
# The gateway knows these: a replay has no store, and does not queue.
STATEFUL = ("previous_response_id", "conversation", "background", "store", "stream_options")

pytestmark = pytest.mark.anyio


@dataclass
class Turn:
    """The recording at hand, and the ids of its response."""

    case: Case | None = None
    new_id: Callable[[str], str] = field(default_factory=number_ids)


@asynccontextmanager
async def gateway_for(protocol: str, turn: Turn, tmp_path: Path) -> AsyncIterator[Running]:
    """Run a gateway before a provider that answers with the recording at hand."""

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        case = turn.case
        assert case is not None
        await connection.head(content_type=TYPES.get(case.meta["wire"], "application/json"))
        await connection.send(case.data)
        await connection.end()

    async with upstream(script) as server:
        names = {provider_of(case) for case in CASES if case.meta["protocol"] == protocol}
        search: Literal["native"] | None = "native" if protocol == "responses" else None
        provider = ProviderConfig(base_url=server.url, api_keys=["k"], web_search=search)
        config = replaced(
            settings(tmp_path),
            providers=dict.fromkeys(names, provider),
            compatibility=CompatibilityConfig(hosted_tools="ignore"),
            attempts=AttemptConfig(max_attempts=1, reminders=False, breaker_threshold=10_000),
        )
        runtime = Runtime(new_id=lambda prefix: turn.new_id(prefix), now=lambda: 0)
        async with running(config, runtime) as gateway:
            yield gateway


def provider_of(case: Case) -> str:
    """The provider of a recording, or else the one that stands for any server of its protocol."""
    vendor: str = case.meta["vendor"]
    protocol: str = case.meta["protocol"]
    return vendor if vendor in SPECS and SPECS[vendor].dialect == protocol else protocol


def client_request(case: Case) -> dict[str, Any]:
    """The recorded request of a Responses client; of another one, its tools."""
    recorded = case.request if isinstance(case.request, dict) else {}
    model = recorded.get("model") or case.meta.get("model") or "m"
    model = f"{provider_of(case)}/{model}"
    if "input" in recorded:
        kept = {name: value for name, value in recorded.items() if name not in STATEFUL}
        given = without_references(recorded["input"])
        return {**kept, "model": model, "input": given, "store": False, "stream": is_streamed(case)}
    tools = [
        {"type": "function", "name": name, "parameters": {"type": "object"}, "strict": False}
        for name in dict.fromkeys(re.findall(r'"name": "([A-Za-z0-9_-]+)"', json.dumps(recorded)))
    ]
    request = {"model": model, "input": "Hi", "store": False, "stream": is_streamed(case)}
    return {**request, "tools": tools} if tools else request


def without_references(given: Any) -> Any:
    """The input without references to items that only the recorded provider has."""
    if isinstance(given, list):
        given = [item for item in given if item.get("type") != "item_reference"]
    return given or "Hi"


def is_streamed(case: Case) -> bool:
    return case.meta["wire"] in TYPES


def comparable(value: Any) -> Any:
    return json.loads(CAPSULE.sub("sealed", json.dumps(value)))


def check_case(case: Case, request: Mapping[str, Any], answer: Answer) -> None:
    protocol = case.meta["protocol"]
    recorded = antiphon.replay(case.data, dialect=protocol, request=case.request)
    events = antiphon.replay(case.data, dialect=protocol, request=request)
    assert recorded[-1]["type"] == events[-1]["type"], "the recorded request itself"
    final = events[-1]["response"]
    if answer.status != 200:  # nothing was sent before the failure: an HTTP error
        assert final["status"] == "failed", answer.error
        assert final["error"]["message"] == answer.error["message"]
        assert not any(item["type"] != "message" for item in final["output"])
    elif answer.is_stream:
        assert comparable(events) == comparable(answer.events)
    else:
        assert comparable(final) == comparable(answer.response)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_replay_gives_the_events_of_the_client(protocol: str, tmp_path: Path) -> None:
    if not CASES:
        pytest.skip(ABSENT)
    failures = {}
    turn = Turn()
    async with gateway_for(protocol, turn, tmp_path) as gateway:
        for case in (case for case in CASES if case.meta["protocol"] == protocol):
            request = client_request(case)
            turn.case = case
            turn.new_id = number_ids()
            try:
                check_case(case, request, await post_request(gateway, request))
            except (AssertionError, antiphon.AntiphonError) as error:
                failures[case.id] = str(error)
    assert failures == {}
