"""Retry policy: which attempt follows which fault. The clock is a number here."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from antiphon.config import AttemptConfig, Config, ModelConfig, ProviderConfig
from antiphon.core.faults.classify import classify
from antiphon.core.faults.fault import (
    ProviderFault,
    connection_fault,
    protocol_fault,
    timeout_fault,
)
from antiphon.engine.health import HealthRegistry, KeyLease, Keyring, ProviderHealth
from antiphon.engine.retry import Change, NextAttempt, RetryPolicy
from antiphon.engine.routing import Target
from antiphon.providers.registry import build_providers
from tests.support.tables import table

OVERLOADED = classify(503, {}, b'{"error":{"message":"busy"}}')
LIMITED = classify(429, {}, b'{"error":{"message":"slow down"}}')
LIMITED_SHORTLY = classify(429, {"retry-after": "2"}, b'{"error":{"message":"slow down"}}')
UNPAID = classify(402, {}, b'{"error":{"message":"Insufficient Balance"}}')
REFUSED_KEY = classify(401, {}, b'{"error":{"message":"no"}}')
FORBIDDEN = classify(403, {}, b'{"error":{"message":"no"}}')
NO_MODEL = classify(404, {}, b'{"error":{"message":"no such model","code":"model_not_found"}}')
TOO_LONG = classify(400, {}, b'{"error":{"message":"maximum context length is 8192 tokens"}}')
BAD_REQUEST = classify(400, {}, b'{"error":{"message":"unsupported parameter: top_p"}}')
BLOCKED = classify(400, {}, b'{"error":{"message":"blocked","code":"content_filter"}}')
BAD_SIGNATURE = classify(
    400, {}, b'{"error":{"message":"Invalid signature in thinking block","type":"x"}}'
)


class World:
    """Two providers with keys of their own, and a clock that only moves when told to."""

    def __init__(self, config: AttemptConfig | None = None, **windows: int) -> None:
        self.now = 0.0
        self.config = config or AttemptConfig()
        entries = {
            name: ProviderConfig(
                kind="chat",
                base_url=f"http://{name}.invalid",
                api_keys=keys,
                models={"m": ModelConfig(context_window=windows.get(name))},
            )
            for name, keys in {"one": ["k1", "k2"], "two": ["k3"]}.items()
        }
        self.providers = build_providers(Config(providers=entries), {})
        self.health = HealthRegistry(
            structs.replace(self.config, breaker_threshold=3, breaker_rest_s=30), self.clock
        )

    def clock(self) -> float:
        return self.now

    def of(self, name: str) -> ProviderHealth:
        return self.health.of(self.providers[name])

    def request(self, *names: str) -> Request:
        return Request(self, [Target(self.providers[name], "m") for name in names or ("one",)])


class Request:
    """One request: takes a lease for each attempt, as a run does."""

    def __init__(self, world: World, targets: Sequence[Target]) -> None:
        self._world = world
        self.skipped: list[tuple[str, str]] = []
        self._policy = RetryPolicy(
            targets, world.health, world.config, world.clock, lambda: 1.0, self._on_skip
        )
        self.attempt: NextAttempt | None = None
        self.lease: KeyLease | None = None

    def _on_skip(self, target: Target, reason: str) -> None:
        self.skipped.append((target.provider.name, reason))

    def go_on(self) -> None:
        """Begin a further round that no other target can take over."""
        assert self.attempt is not None
        self._take(self._policy.next_round(self.attempt, lambda target: False))

    def first(self) -> tuple[str, str] | None:
        return self._take(self._policy.first())

    def set_deadline(self, limit_s: float) -> None:
        self._policy.set_deadline(limit_s)

    def after(
        self, fault: ProviderFault, *, names_parameter: bool = False, rejects_mode: bool = False
    ) -> tuple[str, str] | None:
        assert self.attempt is not None
        assert self.lease is not None
        others = len(self._policy.targets) > 1
        self.lease.fail(fault, self.attempt.target.model, has_other_targets=others)
        following = self._policy.after(
            self.attempt, fault, names_parameter=names_parameter, rejects_mode=rejects_mode
        )
        return self._take(following)

    def _take(self, attempt: NextAttempt | None) -> tuple[str, str] | None:
        self.attempt = attempt
        if attempt is None:
            return None
        self.lease = KeyLease(self._world.health.of(attempt.target.provider), attempt.key)
        self.lease.acquire()
        return attempt.target.provider.name, attempt.key

    @property
    def delay_s(self) -> float:
        assert self.attempt is not None
        return self.attempt.delay_s

    @property
    def change(self) -> Change:
        assert self.attempt is not None
        return self.attempt.change


def attempts(
    world: World, faults: Sequence[ProviderFault], *names: str
) -> list[tuple[str, str] | None]:
    """Provider and key of every attempt of a request that meets these faults in order."""
    request = world.request(*names)
    return [request.first(), *(request.after(fault) for fault in faults)]


ONE, ONE_B, TWO = ("one", "k1"), ("one", "k2"), ("two", "k3")


@table("fault", [OVERLOADED, connection_fault("refused")])
def test_an_overload_is_retried_twice_with_the_same_key_and_then_at_the_next_target(
    fault: ProviderFault,
) -> None:
    assert attempts(World(), [fault] * 4, "one", "two") == [ONE, ONE, ONE, TWO, None]


@table("fault", [timeout_fault("idle"), protocol_fault("junk")])
def test_a_timeout_or_protocol_fault_is_retried_once(fault: ProviderFault) -> None:
    assert attempts(World(), [fault] * 2, "one", "two") == [ONE, ONE, TWO]


@table("fault", [LIMITED, UNPAID, REFUSED_KEY, FORBIDDEN])
def test_a_fault_of_the_key_moves_to_the_next_key_then_target(
    fault: ProviderFault,
) -> None:
    assert attempts(World(), [fault] * 3, "one", "two") == [ONE, ONE_B, TWO, None]


def test_an_unknown_model_is_only_tried_at_the_next_target() -> None:
    assert attempts(World(), [NO_MODEL], "one", "two") == [ONE, TWO]
    assert attempts(World(), [NO_MODEL]) == [ONE, None]


@table("fault", [BAD_REQUEST, BLOCKED])
def test_a_fault_of_the_request_is_final_and_cools_down_no_key(fault: ProviderFault) -> None:
    world = World()
    assert attempts(world, [fault], "one", "two") == [ONE, None]
    assert world.of("one").keyring.pick(without={"k2"}) == "k1"


def test_a_context_overflow_falls_back_only_to_a_larger_window() -> None:
    assert attempts(World(one=8000, two=64000), [TOO_LONG], "one", "two") == [ONE, TWO]
    assert attempts(World(one=8000, two=8000), [TOO_LONG], "one", "two") == [ONE, None]


def test_pauses_grow_and_are_never_shorter_than_retry_after() -> None:
    request = World(AttemptConfig(backoff_s=1.0)).request()
    request.first()
    request.after(OVERLOADED)
    first_s = request.delay_s
    request.after(OVERLOADED)
    assert (first_s, request.delay_s) == (1.0, 2.0)
    request = World(AttemptConfig(backoff_s=1.0)).request()
    request.first()
    request.after(classify(503, {"retry-after": "7"}, b""))
    assert request.delay_s == 7.0


def test_the_only_key_waits_for_a_short_retry_after() -> None:
    world = World()
    request = world.request("two")
    request.first()
    assert (request.after(LIMITED_SHORTLY), request.delay_s) == (TWO, 2.0)
    assert attempts(World(), [LIMITED], "two") == [TWO, None]


def test_a_rate_limited_key_cools_down_for_a_minute() -> None:
    world = World()
    assert attempts(world, [LIMITED]) == [ONE, ONE_B]
    world.now = 59
    assert world.of("one").keyring.pick(without={"k2"}) is None
    world.now = 60
    assert world.of("one").keyring.pick(without={"k2"}) == "k1"


def test_a_rejected_key_is_never_used_again() -> None:
    world = World()
    attempts(world, [REFUSED_KEY])
    world.now = 1e12
    assert world.of("one").keyring.pick(without={"k2"}) is None


def test_max_attempts_ends_the_retries() -> None:
    assert attempts(World(AttemptConfig(max_attempts=2)), [OVERLOADED] * 2, "one", "two") == [
        ONE,
        ONE,
        None,
    ]


def test_max_s_ends_the_retries() -> None:
    world = World(AttemptConfig(max_s=10))
    request = world.request()
    request.first()
    world.now = 10
    assert request.after(OVERLOADED) is None


def test_an_open_circuit_is_skipped_until_one_trial_request() -> None:
    world = World()
    assert attempts(world, [OVERLOADED] * 3, "one", "two") == [ONE, ONE, ONE, TWO]
    assert world.request("one", "two").first() == TWO
    world.now = 30
    trial = world.request("one", "two").first()
    assert trial is not None
    assert trial[0] == "one"
    assert world.request("one", "two").first() == TWO


def test_without_an_available_key_the_one_that_cools_down_first_is_used() -> None:
    world = World()
    for key in ("k1", "k2"):
        world.of("one").keyring.cool_down(key, 60 if key == "k1" else 5)
    assert world.request().first() == ONE_B


def test_a_target_that_is_tried_all_the_same_is_not_reported_as_skipped() -> None:
    world = World()
    for name in ("one", "two"):
        for key in world.of(name).keyring.keys:
            world.of(name).keyring.cool_down(key, 60)
    request = world.request("one", "two")
    assert request.first() == ONE
    assert request.skipped == []
    assert request.after(REFUSED_KEY) is None
    assert request.skipped == [("two", "every API key is cooling down or was rejected")]


def test_a_rejected_parameter_is_left_out_once() -> None:
    request = World().request("one", "two")
    request.first()
    assert request.after(BAD_REQUEST, names_parameter=True) == ONE
    assert request.change is Change.WITHOUT_PARAMETER
    assert request.after(BAD_REQUEST, names_parameter=True) is None


def test_rejected_modes_are_avoided_one_after_another_within_the_attempts() -> None:
    request = World().request("one", "two")
    request.first()
    for _ in range(3):
        assert request.after(BAD_REQUEST, rejects_mode=True) == ONE
        assert (request.change, request.delay_s) == (Change.WITHOUT_MODE, 0.0)
    assert request.after(BAD_REQUEST, rejects_mode=True) is None


def test_a_guessed_mode_takes_the_place_of_a_retry_at_the_same_target() -> None:
    request = World().request("one", "two")
    request.first()
    assert request.after(OVERLOADED) == ONE
    assert request.after(OVERLOADED, rejects_mode=True) == ONE
    assert request.after(OVERLOADED) == TWO


def test_rejected_reasoning_state_is_left_out_once() -> None:
    assert BAD_SIGNATURE.code == "reasoning_rejected"
    request = World().request()
    request.first()
    assert request.after(BAD_SIGNATURE) == ONE
    assert request.change is Change.WITHOUT_STATE
    assert request.after(BAD_SIGNATURE) is None


def test_a_success_releases_the_key_and_closes_the_circuit() -> None:
    world = World()
    attempts(world, [OVERLOADED] * 2)
    request = world.request()
    before = world.of("one").keyring.active
    request.first()
    assert world.of("one").keyring.active != before
    assert request.lease is not None
    request.lease.succeed()
    assert world.of("one").keyring.active == before
    assert attempts(world, [OVERLOADED] * 2)[0] is not None


def test_a_disconnected_client_changes_no_health() -> None:
    world = World()
    request = world.request()
    request.first()
    assert request.lease is not None
    request.lease.release()
    assert world.request().first() == ONE_B


def test_after_two_permission_faults_no_third_key_is_tried() -> None:
    world = World()
    world.of("one").keyring = Keyring(["k1", "k2", "k4"], world.clock)
    assert attempts(world, [FORBIDDEN] * 2, "one", "two") == [ONE, ONE_B, TWO]
    assert world.of("one").keyring.pick(without={"k4"}, model="m") is None
    assert world.of("one").keyring.pick(without={"k4"}, model="other") == "k1"


def test_a_missing_model_is_skipped_for_a_while() -> None:
    world = World()
    assert attempts(world, [NO_MODEL], "one", "two") == [ONE, TWO]
    assert world.request("one", "two").first() == TWO
    world.now = 300
    again = world.request("one", "two").first()
    assert again is not None
    assert again[0] == "one"


def test_a_too_long_retry_after_falls_back_at_once() -> None:
    patient = classify(503, {"retry-after": "600"}, b"")
    assert attempts(World(), [patient], "one", "two") == [ONE, TWO]
    assert attempts(World(), [patient], "one") == [ONE, None]


def test_an_open_circuit_is_not_retried_while_another_target_is_left() -> None:
    world = World()
    attempts(world, [OVERLOADED] * 2, "one")
    assert attempts(world, [OVERLOADED], "one", "two")[-1] == TWO
    assert attempts(world, [OVERLOADED], "one")[-1] is not None


def test_a_request_without_time_left_does_not_take_the_trial() -> None:
    world = World(AttemptConfig(max_s=10))
    for _ in range(3):
        world.of("two").breaker.record_failure()
    request = world.request("one", "two")
    request.first()
    world.now = 40
    assert request.after(UNPAID) is None
    assert world.of("two").breaker.allows()


def test_a_pause_over_a_minute_is_not_made() -> None:
    for_long = classify(503, {"retry-after": "61"}, b"")
    assert attempts(World(), [for_long], "one", "two") == [ONE, TWO]
    assert attempts(World(), [for_long], "one") == [ONE, None]


def test_a_first_token_timeout_leaves_time_for_the_next_target() -> None:
    world = World()
    request = world.request("one", "two")
    request.first()
    world.now += 300
    assert request.after(timeout_fault("first_token")) == ONE
    assert request.after(timeout_fault("first_token")) == TWO


@table(
    ("retry_after_s", "limit_s", "is_made"),
    [(2, 60.0, True), (2, 2.25, True), (2, 2.2, False), (54, 60.0, True), (56, 60.0, False)],
)
def test_a_pause_that_leaves_almost_no_time_for_a_call_is_not_made(
    retry_after_s: int, limit_s: float, is_made: bool
) -> None:
    request = World().request()
    request.first()
    request.set_deadline(limit_s)
    fault = classify(503, {"retry-after": str(retry_after_s)}, b"")
    assert request.after(fault) == (ONE if is_made else None)


def test_a_request_whose_time_is_almost_over_falls_back_to_no_other_target() -> None:
    world = World()
    request = world.request("one", "two")
    request.first()
    request.set_deadline(60)
    world.now = 55
    assert request.after(REFUSED_KEY) == ONE_B
    world.now = 55.1
    assert request.after(REFUSED_KEY) is None


def test_a_pause_that_leaves_no_time_falls_back_to_another_target_at_once() -> None:
    request = World().request("one", "two")
    request.first()
    request.set_deadline(20)
    assert request.after(classify(503, {"retry-after": "19"}, b"")) == TWO


def test_a_target_that_is_passed_over_is_reported_with_the_reason() -> None:
    world = World()
    world.of("one").missing["m"] = 10.0
    request = world.request("one", "two")
    assert request.first() == TWO
    assert request.skipped == [("one", "the provider reported that it has no such model")]
    request = world.request("two", "one")
    request.first()
    request.go_on()
    assert request.skipped == [("one", "it cannot continue a response that another model began")]


def test_a_key_that_cools_down_because_of_another_request_is_replaced() -> None:
    world = World()
    slow, limited = world.request(), world.request()
    assert slow.first() == ("one", "k1")
    world.of("one").keyring.cool_down("k1", 60)  # as after a rate limit of another request
    assert limited.first() == ("one", "k2")
    assert slow.after(OVERLOADED) == ("one", "k2")


def test_a_key_that_begins_to_cool_down_during_a_pause_is_replaced_if_another_is_ready() -> None:
    world = World()
    target = Target(world.providers["one"], "m")
    policy = RetryPolicy([target], world.health, world.config, world.clock, lambda: 1.0)
    policy.first()
    following = policy.after(NextAttempt(1, target, "k1"), OVERLOADED, names_parameter=False)
    assert following is not None
    assert policy.with_usable_key(following) is following
    keyring = world.of("one").keyring
    keyring.cool_down("k1", 60)
    assert policy.with_usable_key(following).key == "k2"
    keyring.cool_down("k2", 60)
    assert policy.with_usable_key(following) is following
