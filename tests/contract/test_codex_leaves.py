"""No leaf of a Codex request is lost without a diagnostic, in any dialect.

Each leaf is changed, one at a time. Either the change shows in what the provider is sent or in what
the client is answered, or a diagnostic says what became of it, or it stands in the short list of
what the gateway does itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec
import pytest

from antiphon.config import Config, ProviderConfig
from antiphon.core.history.capsule import Unopened
from antiphon.core.plan.plan import Plan
from antiphon.core.request import Request
from antiphon.dialects.responses.create_response import create_response
from antiphon.errors import InvalidRequest
from antiphon.providers.registry import Provider, build_providers
from tests.support import captured_requests as captured
from tests.support.plans import make_plan
from tests.support.request_body import parse_body
from tests.support.tables import table

Steps = tuple[str | int, ...]

BODIES = captured.bodies()
pytestmark = pytest.mark.skipif(not BODIES, reason=captured.ABSENT)

TARGETS: Mapping[str, tuple[str, str]] = {
    "chat": ("deepseek", "deepseek-v4-pro"),
    "anthropic": ("anthropic", "claude-opus-4-6"),
    "gemini": ("gemini", "gemini-3-pro"),
    "responses": ("openai", "gpt-5.5"),
    "ollama": ("ollama", "qwen3"),
    "cohere": ("cohere", "command-a-03-2025"),
    "bedrock": ("bedrock", "anthropic.claude-opus-4-6"),
}
"""A provider and a model of every dialect."""

OWN: Mapping[str, str] = {
    "type": "what a WebSocket frame asks for; over HTTP the path says it",
    "generate": "warming up a connection, which HTTP does not need",
    "stream": "decides whether we answer in events",
    "store": "decides whether we keep the turn",
    "model": "is routed, and repeated in the response",
    "include[]": "decides what the response holds; reasoning is always sealed into it",
    "previous_response_id": "is looked up before anything is planned",
    "client_metadata": "labels of the client's own, which no provider gets",
    "input[].role": "tools that come with the input are everybody's",
    "input[].tools[].tools[].defer_loading": "what a search has found is declared at once",
    "input[].tools[].tools[].parameters.type": "arguments are an object in every format",
    "input[].id": "names an item for references to it",
    "input[].status": "a call with a result is over, whatever it says",
    "input[].execution": "says who searches for tools: the client",
    "input[].content[].type": "a part is known by what it holds",
    "input[].summary[].type": "a part is known by what it holds",
    "input[].output[].type": "a part is known by what it holds",
    "input[].internal_chat_message_metadata_passthrough": "a label of the client's own",
}
"""What the gateway itself does with a leaf, or with all below it."""


@cache
def provider(dialect: str) -> Provider:
    kind, _ = TARGETS[dialect]
    entry = ProviderConfig(api_keys=["AKIA:secret"])
    return build_providers(Config(providers={kind: entry}), {})[kind]


def planned(body: Mapping[str, Any], dialect: str) -> tuple[Request, Plan]:
    request = parse_body(json.dumps(body).encode())
    model = TARGETS[dialect][1]
    return request, make_plan(
        request,
        (),
        provider="p",
        model=model,
        capabilities=provider(dialect).capabilities(model),
        issuer="i",
        unseal=lambda _: Unopened.FOREIGN,
    )


def effect(body: Mapping[str, Any], dialect: str) -> tuple[bytes, ...]:
    """The provider's request, the client's response and diagnostics, and the decoding plan."""
    request, plan = planned(body, dialect)
    outbound = provider(dialect).dialect.encode(plan, stream=True)
    response = create_response(request, response_id="resp_1", created_at=1)
    others = [plan.contract, plan.effective_effort, plan.include_logprobs, plan.diagnostics]
    parts = outbound.body, msgspec.json.encode(response), msgspec.json.encode(others)
    return outbound.path.encode(), *parts


@cache
def captured_effect(name: str, dialect: str) -> tuple[bytes, ...]:
    """The effect of a request as it was captured."""
    return effect(BODIES[name], dialect)


def leaves(value: Any, path: Steps = ()) -> Iterator[Steps]:
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    if not inner:
        yield path
    for step, child in inner:
        yield from leaves(child, (*path, step))


def spell_path(path: Steps, *, indexed: bool = True) -> str:
    place = "".join(
        (f"[{step}]" if indexed else "[]") if isinstance(step, int) else f".{step}" for step in path
    )
    return place.removeprefix(".")


def change_leaf(body: Mapping[str, Any], path: Steps) -> dict[str, Any]:
    """The same request with another value at one place."""
    document: dict[str, Any] = json.loads(json.dumps(body))
    parent: Any = document
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = _other(parent[path[-1]])
    return document


def _other(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value}x"
        case list():
            return [*value, "x"]
        case dict():
            return {**value, "x": "x"}
    return "x"


def is_own(path: Steps) -> bool:
    place = spell_path(path, indexed=False)
    return any(place == own or place.startswith((f"{own}.", f"{own}[")) for own in OWN)


def has_diagnostic(path: Steps, plan: Plan) -> bool:
    """Whether a diagnostic is about this leaf or its parents."""
    place = spell_path(path)
    return any(
        place == each.param or place.startswith((f"{each.param}.", f"{each.param}["))
        for each in plan.diagnostics
    )


def is_mapped(name: str, path: Steps, dialect: str) -> bool:
    try:
        return effect(change_leaf(BODIES[name], path), dialect) != captured_effect(name, dialect)
    except InvalidRequest:  # another value is refused, so this one was read
        return True


@cache
def kinds() -> dict[str, tuple[str, Steps]]:
    """Every kind of leaf, each with one path where it occurs."""
    found: dict[str, tuple[str, Steps]] = {}
    for name, body in BODIES.items():
        for path in leaves(body):
            found.setdefault(
                f"{_types(body, path)} {spell_path(path, indexed=False)}", (name, path)
            )
    return found


def _types(body: Any, path: Steps) -> str:
    """The types of a leaf's parents: the same field means different things in them."""
    types = []
    for step in path:
        if isinstance(body, dict) and isinstance(body.get("type"), str):
            types.append(body["type"])
        body = body[step]
    return "/".join(types)


def test_there_are_leaves_of_many_kinds() -> None:
    assert len(kinds()) > 200


@table("dialect", TARGETS)
def test_every_leaf_of_a_codex_request_is_accounted_for(dialect: str) -> None:
    lost = [
        f"{kind} ({name})"
        for kind, (name, path) in kinds().items()
        if not is_own(path)
        and not is_mapped(name, path, dialect)
        and not has_diagnostic(path, planned(BODIES[name], dialect)[1])
    ]
    assert lost == []


def test_what_the_gateway_does_itself_is_seen_in_some_request() -> None:
    places = {spell_path(path, indexed=False) for _, path in kinds().values()}
    unused = [own for own in OWN if not any(place.startswith(own) for place in places)]
    assert unused == []
