"""Count the input tokens of a prepared request: by its provider's own counter, else by length.

Counting is free of side effects: a counter that fails says nothing about the provider's responses,
so it changes neither its health nor that of its keys, and the count is estimated instead.
"""

from __future__ import annotations

import asyncio
from functools import partial

from msgspec import Struct

from antiphon.core.diagnostic import Code, Diagnostic, degraded
from antiphon.core.plan.measure_input import measure_input
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.core.stream.usage import estimate_tokens
from antiphon.dialects.token_count import TokenCounter
from antiphon.engine.health import KeyLease
from antiphon.engine.routing import Target
from antiphon.engine.services import Prepared, Services
from antiphon.errors import UpstreamError

_TIMEOUT_S = 15.0


class InputTokens(Struct, frozen=True, kw_only=True):
    """The number of input tokens, and whether it is an estimate."""

    count: int
    is_estimate: bool = False
    diagnostics: tuple[Diagnostic, ...] = ()


async def count_input(services: Services, prepared: Prepared) -> InputTokens:
    """Count the input of a request for its first target."""
    target = prepared.targets[0]
    plan = prepared.first_plan
    counted = await _count_at_provider(services, target, plan)
    if isinstance(counted, int):
        return InputTokens(count=counted, diagnostics=plan.diagnostics)
    message = f"{counted}; `input_tokens` is an estimate by the length of the text."
    estimated = degraded(Code.USAGE_ESTIMATED, "input_tokens", message)
    measure = partial(measure_input, plan)
    length = await services.worker.run(measure) if plan.is_large else measure()
    diagnostics = (*plan.diagnostics, estimated)
    return InputTokens(count=estimate_tokens(length), is_estimate=True, diagnostics=diagnostics)


async def _count_at_provider(services: Services, target: Target, plan: Plan) -> int | str:
    """Ask the provider's counter: the count, or why there is none."""
    dialect = target.provider.dialect
    if isinstance(dialect, TokenCounter):
        encode = partial(dialect.count_request, plan)
        outbound = await services.worker.run(encode) if plan.is_large else encode()
        if outbound is not None:
            return await _send_to_counter(services, target, dialect, outbound)
    return f"There is no token counter for {'/'.join(target.name)}"


async def _send_to_counter(
    services: Services, target: Target, counter: TokenCounter, outbound: Outbound
) -> int | str:
    name = "/".join(target.name)
    health = services.health.of(target.provider)
    key = health.pick_key(target.model)
    if key is None:
        return (
            f"The token counter for {name} cannot be used: {health.explain_refusal(target.model)}"
        )
    lease = KeyLease(health, key)
    lease.acquire()
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            count = counter.read_count(await _send(services, target, outbound, key))
    except TimeoutError:
        return f"The token counter for {name} sent no response within {_TIMEOUT_S:g} seconds"
    except UpstreamError as error:
        return f"The token counter for {name} failed ({error.fault.type})"
    finally:
        lease.release()
    return f"The token counter for {name} sent no count" if count is None else count


async def _send(services: Services, target: Target, outbound: Outbound, key: str) -> bytes:
    provider = target.provider
    response = await services.http.open(provider, outbound, key)
    try:
        body = await response.read()
    finally:
        response.close()
    if response.status >= 300:
        raise UpstreamError(provider.dialect.classify(response.status, response.headers, body))
    return body
