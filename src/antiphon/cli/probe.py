"""Asking a provider one small thing, through the whole gateway, to see whether it answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.config import CapsuleConfig, Config, StoreConfig, TraceConfig
from antiphon.core.faults.messages import describe
from antiphon.engine.engine import Engine
from antiphon.engine.services import Caller
from antiphon.errors import AntiphonError, UpstreamError
from antiphon.providers.registry import Provider
from antiphon.server.wiring import open_engine
from antiphon.store.redact import Redactor
from antiphon.wire.request import Request

LIMIT_S = 30.0
_REASON_LENGTH = 200


class Probe(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a provider answered. `ok` is None if there was nothing to ask it for."""

    provider: str
    model: str = ""
    ok: bool | None = None
    latency_ms: int | None = None
    fault: str = ""
    """Type and code of what went wrong."""
    message: str = ""
    reason: str = ""
    """What the provider, or the network, said itself; without keys."""


async def probe_all(
    config: Config, environment: Mapping[str, str], providers: Sequence[Provider]
) -> list[Probe]:
    """All at once, so it takes as long as the slowest. No file is written or read."""
    apart = msgspec.structs.replace(
        config,
        store=StoreConfig(url="memory://"),
        trace=TraceConfig(enabled=False),
        capsule=CapsuleConfig(keys=["of a probe"]),
    )
    async with open_engine(apart, environment, lambda entry: None) as engine:
        probes = (_probe(engine, each, _model(each, config)) for each in providers)
        return await asyncio.gather(*probes)


def _model(provider: Provider, config: Config) -> str:
    """A model of the provider that somebody has named: an alias leads to it, or its data has it."""
    prefix = f"{provider.name}/"
    targets = [target for target in config.models.values() if target.startswith(prefix)]
    named = [*(target.removeprefix(prefix) for target in targets), *provider.models()]
    return named[0] if named else ""


async def _probe(engine: Engine, provider: Provider, model: str) -> Probe:
    if not model:
        advice = f'no model is known: name one, as [providers.{provider.name}.models."NAME"]'
        return Probe(provider=provider.name, message=advice)
    began = time.monotonic()
    fault = message = reason = ""
    try:
        async with asyncio.timeout(LIMIT_S):
            await _ask(engine, f"{provider.name}/{model}")
    except UpstreamError as error:
        fault = f"{error.fault.type} · {error.fault.code}"
        message = describe(error.fault)
        reason = Redactor(provider.api_keys).redact_text(error.fault.message)[:_REASON_LENGTH]
    except TimeoutError:
        fault, message = "timeout · probe", f"No answer within {LIMIT_S:.0f} seconds."
    except AntiphonError as error:
        fault, message = error.code, error.message
    return Probe(
        provider=provider.name,
        model=model,
        ok=not fault,
        latency_ms=round((time.monotonic() - began) * 1000),
        fault=fault,
        message=message,
        reason=reason,
    )


async def _ask(engine: Engine, name: str) -> None:
    document: dict[str, Any] = {
        "model": name,
        "input": "Answer with the word OK.",
        "max_output_tokens": 16,
        "store": False,
    }
    caller = Caller("check", engine.services.runtime.new_id("req"))
    request = Request.parse(msgspec.json.encode(document))
    async with await engine.create(request, caller) as run:
        await run.response()
