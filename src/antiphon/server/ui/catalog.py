"""Models and providers of the page's API: what each can do, and how each provider is."""

from __future__ import annotations

import math
from typing import Any

from antiphon.core.capabilities import Capabilities
from antiphon.engine.engine import Engine
from antiphon.engine.health import ProviderHealth
from antiphon.engine.routing import Router
from antiphon.providers.registry import Provider
from antiphon.server.http import HTTPResponse, json_response
from antiphon.server.ui.page_request import PageRequest

_RECENT_S = 300.0  # a fault this recent is shown at the provider's light


async def list_models(request: PageRequest) -> HTTPResponse:
    """The listed names, the default first."""
    router = request.engine.router
    default = router.default_name()
    found = request.process.setup.discovered_models()
    names = dict.fromkeys([default, *router.listed_names(found)])
    models = [_describe_model(router, name) for name in names]
    known = {default, *router.names()}
    for model in models:
        model["discovered"] = model["name"] not in known
    return json_response({"default": default, "models": models})


async def list_providers(request: PageRequest) -> HTTPResponse:
    providers = describe_providers(request.engine)
    found = request.process.setup.discovered_models()
    for each in providers:  # one without models of its own is tested with one of its list
        listed = (name for name in found if name.startswith(f"{each['name']}/"))
        each["test_model"] = each["test_model"] or next(listed, None)
    return json_response({"providers": providers})


def describe_providers(engine: Engine) -> list[dict[str, Any]]:
    """All providers with their health, the built-in test provider last."""
    providers = sorted(engine.router.providers.values(), key=lambda each: each.spec.in_process)
    known = engine.services.health
    return [
        _describe_provider(each, None if each.spec.in_process else known.find(each.name))
        for each in providers
    ]


def _describe_model(router: Router, name: str) -> dict[str, Any]:
    targets = router.targets(name)
    first = targets[0]
    return {
        "name": name,
        "alias_of": "/".join(first.name) if name in router.aliases else None,
        "provider": first.provider.name,
        "model": first.model,
        "title": first.provider.spec.title,
        "test": first.provider.spec.in_process,
        "fallbacks": ["/".join(target.name) for target in targets[1:]],
        "price": first.price,
        **_describe_capabilities(first.capabilities),
    }


def _describe_capabilities(can: Capabilities) -> dict[str, Any]:
    return {
        "context_window": can.context_window,
        "max_output_tokens": can.max_output_tokens,
        "inputs": sorted(can.inputs - {"file_url"}, key=("text", "image", "file", "audio").index),
        "efforts": list(can.efforts),
        "tools": can.tools,
        "strict": can.tools and can.strict_tools,
        "formats": sorted(can.formats),
        "web_search": can.web_search,
    }


def _describe_provider(provider: Provider, health: ProviderHealth | None) -> dict[str, Any]:
    models = provider.models()
    is_test = provider.spec.in_process  # its models fail on purpose
    light, reason = ("ok", "built in, for tests") if is_test else describe_light(health)
    return {
        "name": provider.name,
        "title": provider.spec.title,
        "dialect": provider.spec.dialect,
        "address": "in this process" if provider.spec.in_process else provider.address,
        "test": provider.spec.in_process,
        "models": len(models),
        "test_model": f"{provider.name}/{models[0]}" if models else None,
        "keys": len(provider.api_keys),
        "light": light,
        "reason": reason,
        **(_describe_health(health) if health else {}),
    }


def _describe_health(health: ProviderHealth) -> dict[str, Any]:
    now = health.clock()
    breaker = health.breaker
    return {
        "active": sum(health.keyring.active.values()),
        "resting": [
            {"key": number, "model": model or None, "for_s": _finite(seconds)}
            for number, model, seconds in health.keyring.resting()
        ],
        "breaker": _describe_breaker(health),
        "trial_in_s": round(breaker.opens_in_s, 1),
        "last_success_s": _age(now, health.last_success_at),
        "last_fault_s": _age(now, health.last_fault_at),
        "last_fault": [*filter(None, health.last_fault)],
        "missing": [model for model, until in health.missing.items() if until > now],
    }


def _describe_breaker(health: ProviderHealth) -> str:
    if health.breaker.is_closed:
        return "closed"
    return "half-open" if health.breaker.opens_in_s == 0 else "open"


def describe_light(health: ProviderHealth | None) -> tuple[str, str]:
    """The colour of a provider's light, and the reason for it."""
    if health is None:
        return "idle", "not used since the gateway started"
    if not health.breaker.is_closed:
        wait = math.ceil(health.breaker.opens_in_s)
        when = f"next attempt in {wait} s" if wait else "the next request is a trial"
        return "down", f"circuit breaker {_describe_breaker(health)} after repeated faults; {when}"
    resting = {number for number, model, _ in health.keyring.resting() if not model}
    if resting:
        everything = len(resting) == len(health.keyring)
        listed = ", ".join(f"key {number}" for number in sorted(resting))
        return "down" if everything else "warn", f"{listed} cannot be used now"
    return _describe_last_answer(health)


def _describe_last_answer(health: ProviderHealth) -> tuple[str, str]:
    fault_s = _age(health.clock(), health.last_fault_at)
    success_s = _age(health.clock(), health.last_success_at)
    if fault_s is not None and fault_s < _RECENT_S and (success_s is None or fault_s < success_s):
        kind, code = health.last_fault
        return "warn", f"the last attempt failed: {(code or kind).replace('_', ' ')}"
    if success_s is not None:
        return "ok", "the last attempt succeeded"
    return "idle", "no recent answer"


def _age(now: float, at: float | None) -> float | None:
    return None if at is None else round(now - at, 1)


def _finite(seconds: float) -> float | None:
    """Seconds; None for ever."""
    return round(seconds, 1) if math.isfinite(seconds) else None
