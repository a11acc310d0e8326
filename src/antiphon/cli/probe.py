"""Live test of providers: send one small request to each through the whole gateway."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.config import CapsuleConfig, Config, StoreConfig, TraceConfig
from antiphon.dialects.responses.parse import parse_request
from antiphon.engine.engine import Engine
from antiphon.engine.fault_report import locate_fault
from antiphon.engine.services import Caller
from antiphon.errors import AntiphonError, UpstreamError
from antiphon.providers.registry import Provider
from antiphon.server.body import decode_body
from antiphon.server.wiring import open_engine
from antiphon.store.redact import Redactor

TIMEOUT_S = 30.0
_REASON_LENGTH = 200


class ProbeResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of the request to one provider; `ok` is None if no model is known to request."""

    provider: str
    model: str = ""
    ok: bool | None = None
    latency_ms: int | None = None
    fault: str = ""
    """Type and code of the fault."""
    message: str = ""
    reason: str = ""
    """Original message of the provider or the network, with API keys redacted."""


async def probe_providers(
    config: Config, environment: Mapping[str, str], providers: Sequence[Provider]
) -> list[ProbeResult]:
    """Probe all providers concurrently, without reading or writing the store and the trace."""
    isolated = msgspec.structs.replace(
        config,
        store=StoreConfig(url="memory://"),
        trace=TraceConfig(enabled=False),
        capsule=CapsuleConfig(keys=["key of a probe"]),
    )
    async with open_engine(isolated, environment, lambda entry: None) as engine:
        probes = (_probe(engine, each, _choose_model(each, config)) for each in providers)
        return await asyncio.gather(*probes)


def _choose_model(provider: Provider, config: Config) -> str:
    """Choose a model of the provider: the target of an alias, else the first of its data."""
    prefix = f"{provider.name}/"
    targets = [target for target in config.models.values() if target.startswith(prefix)]
    candidates = [*(target.removeprefix(prefix) for target in targets), *provider.models()]
    return candidates[0] if candidates else ""


async def _probe(engine: Engine, provider: Provider, model: str) -> ProbeResult:
    if not model:
        message = (
            f"skipped: no model of {provider.name} is known;"
            f' declare one as [providers.{provider.name}.models."NAME"]'
        )
        return ProbeResult(provider=provider.name, message=message)
    name = f"{provider.name}/{model}"
    began = time.monotonic()
    fault = message = reason = ""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await _send_request(engine, name)
    except UpstreamError as error:
        fault = f"{error.fault.type} · {error.fault.code}"
        message = provider.dialect.describe(error.fault, provider=provider.name)
        text = locate_fault(error.fault, provider)
        reason = Redactor(provider.api_keys).redact_text(text)[:_REASON_LENGTH]
    except TimeoutError:
        fault = "timeout · probe"
        message = f"{name} did not respond within {TIMEOUT_S:g} seconds."
    except AntiphonError as error:
        fault = error.code
        message = error.message
    return ProbeResult(
        provider=provider.name,
        model=model,
        ok=not fault,
        latency_ms=round((time.monotonic() - began) * 1000),
        fault=fault,
        message=message,
        reason=reason,
    )


async def _send_request(engine: Engine, model: str) -> None:
    document: dict[str, Any] = {
        "model": model,
        "input": "Answer with the word OK.",
        "max_output_tokens": 16,
        "store": False,
    }
    caller = Caller("check", engine.services.runtime.new_id("req"))
    request = parse_request(decode_body(msgspec.json.encode(document)))
    async with await engine.create(request, caller) as run:
        await run.response()
