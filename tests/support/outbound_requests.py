"""Encode a Responses request for a provider, without a network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from antiphon.config import Config, ProviderConfig
from antiphon.core.plan.hosted_tools import REFUSE, HostedToolPolicy
from antiphon.core.plan.plan import Plan
from antiphon.providers.registry import SPECS, Provider, build_providers
from tests.support.plans import make_plan
from tests.support.request_body import parse_body

Document = dict[str, Any]

TOOL: Document = {
    "type": "function",
    "name": "get_weather",
    "description": "Looks up the forecast of a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
CALLED: list[Document] = [
    {"role": "user", "content": "What is the forecast?"},
    {
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Let me look."}],
    },
    {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call_1", "output": "Rain."},
]
"""A turn in its tool loop: reasoning, a call and its output."""


def configured(name: str, environment: Mapping[str, str] | None = None, **entry: Any) -> Provider:
    """A built-in provider with a key and a URL, and with this configuration."""
    entry = {"kind": name, "api_keys": ["k"], "base_url": SPECS[name].base_url, **entry}
    entry["base_url"] = entry["base_url"] or "https://chat.example/v1"
    config = Config(providers={"it": ProviderConfig(**entry)})
    return build_providers(config, environment or {})["it"]


def first_model(provider: Provider) -> str:
    return (provider.models() or ["some-model"])[0]


def make_request_plan(
    provider: Provider,
    model: str | None = None,
    *,
    hosted_tools: HostedToolPolicy = REFUSE,
    **request: Any,
) -> Plan:
    model = model or first_model(provider)
    document = {"model": "m", "input": "hello", **request}
    return make_plan(
        parse_body(json.dumps(document).encode()),
        [],
        provider=provider.name,
        model=model,
        capabilities=provider.capabilities(model),
        hosted_tools=hosted_tools,
    )


def encode_request(
    provider: Provider, model: str | None = None, *, stream: bool = False, **request: Any
) -> Document:
    """Encode a request; return the body for the provider."""
    outbound = provider.dialect.encode(make_request_plan(provider, model, **request), stream=stream)
    body: Document = json.loads(outbound.body)
    return body
