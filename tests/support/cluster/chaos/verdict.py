"""The rules of a chaos run, and its report.

A response may fail if its gateway was killed or the store was away while it ran, and only then.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import aiohttp

from antiphon.runs.recovery import PROCESS_LOST
from tests.support.cluster.chaos.disturbance import Disturbance
from tests.support.cluster.chaos.records import Outcome, Records
from tests.support.cluster.http_client import send

MARGIN_S = 0.5
"""Between a kill and the moment at which its clients notice."""
GRACE_S = 3.0
"""How long after the store was away no response is taken over."""
_AT_ONCE = 16


@dataclass
class Verdict:
    """Counts of what became of the responses."""

    lease_s: float
    kinds: Counter[tuple[bool, str]] = field(default_factory=Counter)
    """By whether it is a background response, and what became of it."""
    undisturbed: Counter[bool] = field(default_factory=Counter)
    """Responses whose gateway was not killed and whose store was up, by the same."""
    completed: Counter[bool] = field(default_factory=Counter)
    """Those of them that were completed, and stored."""
    delays: list[float] = field(default_factory=list)
    """Seconds from a kill to the end of the responses of the gateway."""
    stored: int = 0
    """Responses that were found in the store as their clients knew them."""

    def judge(self, records: Records) -> None:
        for outcome in records.outcomes:
            judge = self._judge_background if outcome.is_background else self._judge_foreground
            try:
                kind = judge(outcome, records)
                calls = len(records.calls[outcome.marker])
                assert calls <= 1, f"the provider was called {calls} times"
            except AssertionError as error:
                kind = "violation"
                records.violate(outcome, str(error))
            self.kinds[outcome.is_background, kind] += 1
            if not is_disturbed(outcome, records):
                self.undisturbed[outcome.is_background] += 1
                self.completed[outcome.is_background] += kind == "completed"

    def _judge_background(self, outcome: Outcome, records: Records) -> str:
        killed_at = find_kill(outcome, records)
        if outcome.status == "completed":
            return "completed"
        if not outcome.id:
            return self._judge_refused(outcome, records)
        outage_s = records.timeline.outage_between(outcome.asked_at, outcome.ended_at)
        if killed_at is not None:
            self._check_end(outcome, killed_at, outage_s)
            return "failed: gateway killed"
        assert outage_s, f"{outcome.status}, but its gateway was up: {outcome.response}"
        return "failed: store away"

    def _check_end(self, outcome: Outcome, killed_at: float, outage_s: float) -> None:
        assert outcome.response is not None
        assert outcome.status == "failed", f"{outcome.status} after its gateway was killed"
        message = outcome.response["error"]["message"]
        assert message == PROCESS_LOST, f"failed with {message!r}"
        delay_s = outcome.ended_at - killed_at
        limit_s = self.lease_s + 5 + (outage_s + GRACE_S if outage_s else 0.0)
        assert delay_s <= limit_s, (
            f"ended {delay_s:.1f} s after its gateway was killed (store away: {outage_s:.1f} s)"
        )
        if not outage_s:
            self.delays.append(delay_s)

    def _judge_foreground(self, outcome: Outcome, records: Records) -> str:
        if outcome.error:
            return self._judge_refused(outcome, records)
        outage_s = records.timeline.outage_between(outcome.asked_at, outcome.ended_at)
        assert outcome.response is not None
        assert outcome.status == "completed" or outage_s, f"ended as {outcome.response}"
        if outcome.status == "completed" and outcome.response["store"]:
            return "completed"
        assert outage_s, "not stored, although the store was up"
        return "completed, not stored: store away" if outcome.status == "completed" else "failed"

    def _judge_refused(self, outcome: Outcome, records: Records) -> str:
        """Judge a response whose client got an error or a part."""
        times = (outcome.asked_at - MARGIN_S, outcome.ended_at + MARGIN_S)
        if records.timeline.killed_between(outcome.gateway, *times) is not None:
            return "cut: gateway killed"
        assert records.timeline.outage_between(*times), f"refused: {outcome.error}"
        return "refused: store away"

    async def check_store(
        self, records: Records, http: aiohttp.ClientSession, disturbance: Disturbance
    ) -> None:
        """Compare what clients were told with what every gateway says in the end."""
        waiting = iter([each for each in records.outcomes if each.id])

        async def work(outcomes: Iterator[Outcome]) -> None:
            for outcome in outcomes:
                gateway = disturbance.choose()
                status, document = await send(http, "GET", f"{gateway.url}/responses/{outcome.id}")
                self.compare(records, outcome, status, document)

        await asyncio.gather(*(work(waiting) for _ in range(_AT_ONCE)))

    def compare(self, records: Records, outcome: Outcome, status: int, document: object) -> None:
        """Compare a response with what a gateway has answered when it was asked for it."""
        assert isinstance(document, dict)
        if outcome.response is None:  # its client was cut off
            ended = status == 404 or document.get("status") not in {"queued", "in_progress"}
            if not ended:
                records.violate(outcome, f"still {document.get('status')}")
        elif outcome.response["store"] and (status, document) != (200, outcome.response):
            records.violate(outcome, f"{outcome.status}, but found {status} {document}")
        else:
            self.stored += bool(outcome.response["store"])


def find_kill(outcome: Outcome, records: Records) -> float | None:
    """Return when the gateway was killed that ran a response, if that was before its end."""
    asked = outcome.gateway, outcome.asked_at
    runner, since = next(iter(records.calls[outcome.marker]), asked)
    times = (since - MARGIN_S, outcome.ended_at + MARGIN_S)
    return records.timeline.killed_between(runner, *times)


def is_disturbed(outcome: Outcome, records: Records) -> bool:
    """Whether a response had reason to fail."""
    timeline, times = records.timeline, (outcome.asked_at - MARGIN_S, outcome.ended_at + MARGIN_S)
    return (
        timeline.killed_between(outcome.gateway, *times) is not None
        or find_kill(outcome, records) is not None
        or timeline.outage_between(*times) > 0
    )
