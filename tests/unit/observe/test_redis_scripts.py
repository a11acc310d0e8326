"""Scripts of limits: keys, arguments and replies. `test_redis_counters.py` runs them on Redis."""

from __future__ import annotations

from antiphon.config import ClientLimitConfig
from antiphon.engine.accounting import DOLLAR
from antiphon.observe.redis_scripts import LimitScripts, read_state

NOON = 1_790_000_000.0  # in September 2026
KEYS = (
    "a:limits:{me}:requests",
    "a:limits:{me}:tokens",
    "a:limits:{me}:running",
    "a:limits:{me}:2026-09",
    "a:limits:{me}:2026-09-21",
)


def test_a_request_is_counted_by_the_clock_of_the_server() -> None:
    limits = ClientLimitConfig(requests_per_minute=5, cost_per_day=1.5)
    script = LimitScripts("a", lambda: None).acquire("me", "r1", limits, (7, 3), NOON)
    assert script[1:] == (5, *KEYS, "", "r1", 7, 3, -1, round(1.5 * DOLLAR), 5, -1, -1)


def test_keys_of_one_client_are_in_one_slot_and_name_month_and_day() -> None:
    scripts = LimitScripts("a", lambda: 60.0)
    assert scripts.release("me", "r1", 10, 20, 2.5, NOON)[1:] == (
        *(5, *KEYS),
        *(60.0, "r1", 10, 20, 2.5),
    )
    assert scripts.renew("me", ["r1", "r2"], NOON)[1:] == (1, KEYS[2], 60.0, "r1", "r2")


def test_the_amount_of_a_reply_is_a_cost_only_if_a_cost_has_refused() -> None:
    refused_by_day = read_state([2, 4, 30, b"900", b"1.5", b"0"])
    assert (refused_by_day.refused_by, refused_by_day.spent) == ("cost_per_day", 900)
    refused_by_requests = read_state([3, 4, 30, b"4", b"1.5", b"2"])
    assert (refused_by_requests.refused_by, refused_by_requests.spent) == ("requests_per_minute", 0)
    assert (refused_by_requests.requests_reset_s, refused_by_requests.tokens_reset_s) == (1.5, 2.0)
    assert read_state([0, 1, 0, b"0", b"60", b"0"]).refused_by is None
