"""Provider health: keys, circuit breaker, and leases that give back what they took."""

from __future__ import annotations

from math import inf

from antiphon.core.faults.classify import classify
from antiphon.engine.health import NO_KEY, CircuitBreaker, KeyLease, Keyring, ProviderHealth


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_keys_take_turns() -> None:
    ring = Keyring(["a", "b", "c"], Clock())
    picked = []
    for _ in range(6):
        key = ring.pick()
        assert key is not None
        ring.acquire(key)
        ring.release(key)
        picked.append(key)
    assert picked == ["a", "b", "c", "a", "b", "c"]


def test_of_equally_used_keys_the_idle_one_comes_first() -> None:
    ring = Keyring(["a", "b"], Clock())
    ring.acquire("a")
    ring.acquire("b")
    ring.release("b")
    assert ring.pick() == "b"


def test_a_key_is_not_picked_while_it_cools_down() -> None:
    clock = Clock()
    ring = Keyring(["a", "b"], clock)
    ring.cool_down("a", 30)
    assert ring.pick() == "b"
    assert ring.pick(without={"b"}) is None
    clock.now += 30
    assert ring.pick() == "a"


def test_a_shorter_cool_down_does_not_end_a_longer_one() -> None:
    clock = Clock()
    ring = Keyring(["a"], clock)
    ring.cool_down("a", 60)
    ring.cool_down("a", 1)
    clock.now += 59
    assert ring.pick() is None


def test_a_rejected_key_is_never_picked_again() -> None:
    clock = Clock()
    ring = Keyring(["a"], clock)
    ring.cool_down("a", inf)
    clock.now += 1e9
    assert ring.pick() is None


def test_the_key_that_cools_down_first_can_be_picked() -> None:
    ring = Keyring(["a", "b"], Clock())
    ring.cool_down("a", 60)
    ring.cool_down("b", 5)
    assert ring.pick_soonest() == "b"


def test_a_provider_without_keys_has_one_empty_key() -> None:
    assert Keyring([], Clock()).pick() == NO_KEY


def test_keys_are_named_by_number() -> None:
    assert Keyring(["a", "b"], Clock()).number("b") == 2


def test_a_cool_down_for_one_model_leaves_the_others() -> None:
    ring = Keyring(["a"], Clock())
    ring.cool_down("a", 300, model="m")
    assert ring.pick(model="m") is None
    assert ring.pick(model="other") == "a"
    ring.cool_down("a", 60)
    assert ring.pick(model="other") is None


def broken(clock: Clock) -> CircuitBreaker:
    breaker = CircuitBreaker(clock, threshold=3, rest_s=10)
    for _ in range(3):
        assert breaker.allows()
        breaker.record_failure()
    return breaker


def test_the_circuit_opens_after_so_many_failures_in_a_row() -> None:
    assert not broken(Clock()).allows()


def test_a_success_resets_the_count() -> None:
    breaker = CircuitBreaker(Clock(), threshold=2, rest_s=10)
    breaker.record_failure()
    breaker.record_success()
    breaker.record_failure()
    assert breaker.allows()


def test_a_half_open_circuit_allows_one_trial() -> None:
    clock = Clock()
    breaker = broken(clock)
    clock.now = 10
    assert breaker.begin_trial()
    assert not breaker.allows()
    assert not breaker.begin_trial()


def test_a_successful_trial_closes_the_circuit() -> None:
    clock = Clock()
    breaker = broken(clock)
    clock.now = 10
    assert breaker.begin_trial()
    breaker.record_success()
    breaker.end_trial()
    assert breaker.is_closed
    assert breaker.allows()
    assert breaker.allows()


def test_a_failed_trial_opens_the_circuit_again() -> None:
    clock = Clock()
    breaker = broken(clock)
    clock.now = 10
    assert breaker.begin_trial()
    breaker.record_failure()
    breaker.end_trial()
    assert not breaker.allows()
    clock.now = 20
    assert breaker.allows()


def test_a_trial_without_a_verdict_allows_another() -> None:
    clock = Clock()
    breaker = broken(clock)
    clock.now = 10
    assert breaker.begin_trial()
    breaker.end_trial()
    assert breaker.allows()


# --- leases ---------------------------------------------------------------------------------------

OVERLOADED = classify(503, {}, b"")
LIMITED = classify(429, {"retry-after": "5"}, b"")
UNKNOWN_MODEL = classify(404, {}, b'{"error":{"message":"no","code":"model_not_found"}}')


def half_open() -> ProviderHealth:
    clock = Clock()
    health = ProviderHealth(Keyring(["a"], clock), broken(clock), clock)
    clock.now = 10
    return health


def leased(health: ProviderHealth) -> KeyLease:
    lease = KeyLease(health, "a")
    lease.acquire()
    return lease


def test_a_lease_takes_the_key_and_the_trial_and_gives_both_back_once() -> None:
    health = half_open()
    lease = leased(health)
    assert health.keyring.active == {"a": 1}
    assert health.breaker.in_trial
    lease.release()
    lease.release()
    assert health.keyring.active == {"a": 0}
    assert not health.breaker.in_trial


def test_a_request_beside_the_trial_does_not_end_it() -> None:
    health = half_open()
    trial, beside = leased(health), leased(health)
    beside.release()
    assert health.breaker.in_trial
    trial.succeed()
    assert health.breaker.is_closed
    assert not health.breaker.in_trial


def test_each_fault_is_remembered_for_what_it_concerns() -> None:
    clock = Clock()
    health = ProviderHealth(Keyring(["a"], clock), CircuitBreaker(clock, threshold=1), clock)
    leased(health).fail(UNKNOWN_MODEL, "m", has_other_targets=True)
    assert health.pick_key("m") is None
    assert health.pick_key("other") == "a"
    leased(health).fail(LIMITED, "m", has_other_targets=True)
    assert health.pick_key("other") is None
    clock.now += 60
    assert health.pick_key("other") == "a"
    leased(health).fail(OVERLOADED, "m", has_other_targets=True)
    assert health.pick_key("other") is None
    assert health.keyring.active == {"a": 0}


def test_a_quota_of_one_model_leaves_the_key_to_other_models() -> None:
    used_up = (
        (403, b'{"code":"AllocationQuota.FreeTierOnly","message":"The free tier has ended."}'),
        (403, b'{"message":"The free tier of the model has been exhausted."}'),
        (429, b'{"error":{"code":"SetLimitExceeded","message":"The limit that is set."}}'),
        (429, b'{"error":{"message":"Your account has exhausted its free trial quota."}}'),
    )
    for status, body in used_up:
        clock = Clock()
        health = ProviderHealth(Keyring(["a"], clock), CircuitBreaker(clock), clock)
        fault = classify(status, {}, body)
        leased(health).fail(fault, "m", has_other_targets=False)
        assert (fault.public_code, health.pick_key("m")) == ("insufficient_quota", None)
        assert health.pick_key("other") == "a"


def test_the_only_target_is_not_marked_as_missing_a_model() -> None:
    clock = Clock()
    health = ProviderHealth(Keyring(["a"], clock), CircuitBreaker(clock), clock)
    leased(health).fail(UNKNOWN_MODEL, "m", has_other_targets=False)
    assert health.pick_key("m") == "a"


def test_a_refusal_is_explained() -> None:
    clock = Clock()
    health = ProviderHealth(Keyring(["a"], clock), CircuitBreaker(clock, threshold=1), clock)
    health.keyring.cool_down("a", 5)
    assert health.explain_refusal("m") == "every API key is cooling down or was rejected"
    health.breaker.record_failure()
    assert health.explain_refusal("m") == "its circuit breaker is open"
    health.missing["m"] = clock() + 1
    assert health.explain_refusal("m") == "the provider reported that it has no such model"


def test_resting_keys_are_listed_with_the_seconds_to_go() -> None:
    clock = Clock()
    ring = Keyring(["a", "b"], clock)
    ring.cool_down("a", 30)
    ring.cool_down("b", 5, model="m")
    clock.now += 10
    assert ring.resting() == [(1, "", 20.0)]
    assert len(ring) == 2


def test_an_open_circuit_says_when_it_allows_a_trial() -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock, threshold=1, rest_s=30)
    assert breaker.opens_in_s == 0
    breaker.record_failure()
    clock.now += 10
    assert breaker.opens_in_s == 20
    clock.now += 30
    assert breaker.opens_in_s == 0


def test_the_last_success_and_the_last_fault_are_remembered() -> None:
    clock = Clock()
    health = ProviderHealth(Keyring([], clock), CircuitBreaker(clock), clock)
    clock.now = 3.0
    KeyLease(health, NO_KEY).succeed()
    clock.now = 5.0
    fault = classify(503, {}, b"busy")
    KeyLease(health, NO_KEY).fail(fault, "m", has_other_targets=False)
    assert (health.last_success_at, health.last_fault_at) == (3.0, 5.0)
    assert health.last_fault == (fault.type, fault.code)
