"""Limits of clients: refuse a request before its provider is called, count it after.

Requests and running streams are exact. Tokens and cost are known when a response ends: they exceed
their limit by at most the requests that were admitted before it was reached.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from antiphon.config import ClientLimitConfig, Config, raise_problems, suggest
from antiphon.engine.accounting import DOLLAR
from antiphon.engine.report import RunReport
from antiphon.engine.services import INTERNAL_CLIENT
from antiphon.errors import LimitExceeded
from antiphon.observe.counters import LimitCounters, LimitName, LimitState
from antiphon.stages.log import Entry

EVERY_CLIENT = "*"
"""Every client but `INTERNAL_CLIENT`."""
_BUSY_RETRY_S = 1.0  # when a running stream ends is unknown


class ClientLimiter:
    """Applies the limits of the configuration; see `RequestLimiter`."""

    def __init__(
        self,
        limits: Mapping[str, ClientLimitConfig],
        counters: LimitCounters,
        epoch_s: Callable[[], float],
        emit: Callable[[Entry], None],
    ) -> None:
        self._limits = limits
        self._counters = counters
        self._epoch_s = epoch_s
        self._emit = emit
        self._reported: set[tuple[str, str]] = set()

    async def admit(self, client: str, request_id: str) -> Mapping[str, str]:
        table, limits = self._find(client)
        if limits is None:
            return {}
        try:
            state = await self._counters.acquire(client, request_id, limits)
            headers = _format_state(state, limits)
        except BaseException:  # it may have been counted just before
            self._counters.release(client, request_id, 0, 0)
            raise
        if state.refused_by is not None:
            raise self._refuse(state.refused_by, client, table, limits, state, headers)
        return headers

    def release(self, report: RunReport) -> None:
        _, limits = self._find(report.client)
        if limits is None:
            return
        tokens = 0 if report.usage is None else report.usage.total_tokens
        self._counters.release(report.client, report.request_id, tokens, report.cost or 0)
        if report.cost is None and limits_cost(limits):
            self._report_unknown_price(report)

    def withdraw(self, client: str, request_id: str) -> None:
        if self._find(client)[1] is not None:
            self._counters.release(client, request_id, 0, 0)

    def _find(self, client: str) -> tuple[str, ClientLimitConfig | None]:
        """Return the limits of a client, and the name of their table."""
        if client in self._limits:
            return client, self._limits[client]
        if client == INTERNAL_CLIENT:
            return client, None
        return EVERY_CLIENT, self._limits.get(EVERY_CLIENT)

    def _report_unknown_price(self, report: RunReport) -> None:
        """Log once for each model that its cost does not count towards a limit."""
        model = (report.provider, report.model)
        if model in self._reported or len(self._reported) >= 1000:
            return
        self._reported.add(model)
        name = "/".join(model)
        reason = f'the price of {name} is unknown: set it in [prices."{name}"]'
        facts = {"client": report.client, "model": name, "reason": reason}
        self._emit(Entry("limits.cost_not_counted", "warning", facts))

    def _refuse(
        self,
        name: LimitName,
        client: str,
        table: str,
        limits: ClientLimitConfig,
        state: LimitState,
        headers: Mapping[str, str],
    ) -> LimitExceeded:
        limit = getattr(limits, name)
        if name in ("cost_per_day", "cost_per_month"):
            message = _describe_cost(name, client, table, limit, state.spent, self._epoch_s())
            kind = "insufficient_quota"
            headers = {**headers, "x-should-retry": "false"}
            return LimitExceeded(message, code=kind, kind=kind, headers=headers, permanent=True)
        if name == "max_streams":
            wait_s = _BUSY_RETRY_S
            advice = "when one of its running responses has ended"
        else:
            is_tokens = name == "tokens_per_minute"
            wait_s = state.tokens_reset_s if is_tokens else state.requests_reset_s
            advice = f"in {max(1, math.ceil(wait_s))} s"
        message = (
            f"Client {client!r} has reached {name} = {limit} of [limits.{_quote(table)}]."
            f" Try again {advice}."
        )
        return LimitExceeded(
            message,
            code="rate_limit_exceeded",
            kind="rate_limit_error",
            headers={**headers, **_retry_after(wait_s)},
            permanent=False,
        )


def check_limits(config: Config) -> None:
    """Raise `ConfigError` for limits of a client that does not exist: they would have no effect.
    And for a client with the name of the gateway, to which those of every client do not apply."""
    if INTERNAL_CLIENT in config.server.api_keys:
        raise config.error_at(
            ("server", "api_keys", INTERNAL_CLIENT),
            "this is the name of the gateway's own requests; give the key another name",
        )
    names = [*config.server.api_keys, "local", "admin", INTERNAL_CLIENT, EVERY_CLIENT]
    raise_problems(
        config.error_at(
            ("limits", name),
            f"there is no client key {name!r} in [server] api_keys; {suggest(name, names)}",
        )
        for name in config.limits.clients
        if name not in names
    )


def limits_cost(limits: ClientLimitConfig) -> bool:
    """Whether a client has a limit of cost."""
    return limits.cost_per_day is not None or limits.cost_per_month is not None


def _describe_cost(name: str, client: str, table: str, limit: float, spent: int, now: float) -> str:
    period = "day" if name == "cost_per_day" else "month"
    return (
        f"Client {client!r} has spent ${spent / DOLLAR:,.2f} this {period} and reached {name} ="
        f" {limit:g} of [limits.{_quote(table)}]. Requests are accepted again from"
        f" {_next_period(period, now)} UTC."
    )


def _next_period(period: str, now: float) -> str:
    at = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0)
    following = at + timedelta(days=1)
    if period == "month":
        following = (at.replace(day=1) + timedelta(days=32)).replace(day=1)
    return following.strftime("%Y-%m-%d %H:%M")


def _format_state(state: LimitState, limits: ClientLimitConfig) -> dict[str, str]:
    """Format the headers by which clients of the API see their limits."""
    headers: dict[str, str] = {}
    rows = (
        ("requests", limits.requests_per_minute, state.requests, state.requests_reset_s),
        ("tokens", limits.tokens_per_minute, state.tokens, state.tokens_reset_s),
    )
    for name, limit, used, reset_s in rows:
        if limit is not None:
            headers[f"x-ratelimit-limit-{name}"] = str(limit)
            headers[f"x-ratelimit-remaining-{name}"] = str(max(0, limit - used))
            headers[f"x-ratelimit-reset-{name}"] = f"{reset_s:.3f}s"
    return headers


def _retry_after(wait_s: float) -> dict[str, str]:
    return {
        "retry-after": str(max(1, math.ceil(wait_s))),
        "retry-after-ms": str(max(1, math.ceil(wait_s * 1000))),
    }


def _quote(name: str) -> str:
    """Quote a key of TOML where it needs quotes."""
    return name if name.replace("-", "").replace("_", "").isalnum() else f'"{name}"'
