"""The course of a request: which attempt follows which fault. Time is a number here."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from antiphon.config import AttemptConfig, Config, ModelConfig, ProviderConfig
from antiphon.core.faults.classify import classify
from antiphon.core.faults.fault import (
    ProviderFault,
    connection_fault,
    protocol_fault,
    timeout_fault,
)
from antiphon.engine.breaker import Breaker
from antiphon.engine.course import Attempt, Change, Course, Health
from antiphon.engine.keyring import Keyring
from antiphon.engine.routing import Target
from antiphon.providers.registry import build_providers

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

    def __init__(self, policy: AttemptConfig | None = None, **windows: int) -> None:
        self.now = 0.0
        self.policy = policy or AttemptConfig()
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
        self.known = {
            name: Health(
                Keyring(provider.api_keys, self.clock),
                Breaker(self.clock, threshold=3, rest_s=30),
            )
            for name, provider in self.providers.items()
        }

    def clock(self) -> float:
        return self.now

    def course(self, *names: str) -> Course:
        targets = [Target(self.providers[name], "m") for name in names or ("one",)]
        return Course(
            targets,
            lambda provider: self.known[provider.name],
            self.policy,
            self.clock,
            lambda: 1.0,
        )


def told(attempt: Attempt | None) -> tuple[str, str] | None:
    return None if attempt is None else (attempt.target.provider.name, attempt.key)


def way(world: World, faults: Sequence[ProviderFault], *names: str) -> list[tuple[str, str] | None]:
    """Where a request goes that meets these faults, one after another."""
    course = world.course(*names)
    attempt: Attempt | None = course.first()
    steps = [told(attempt)]
    for fault in faults:
        assert attempt is not None
        attempt = course.after(attempt, fault, nameable=False)
        steps.append(told(attempt))
    return steps


ONE, ONE_B, TWO = ("one", "k1"), ("one", "k2"), ("two", "k3")


@pytest.mark.parametrize("fault", [OVERLOADED, connection_fault("refused")])
def test_an_overload_is_asked_again_with_the_same_key_and_then_elsewhere(
    fault: ProviderFault,
) -> None:
    assert way(World(), [fault] * 4, "one", "two") == [ONE, ONE, ONE, TWO, None]


@pytest.mark.parametrize("fault", [timeout_fault("idle"), protocol_fault("junk")])
def test_a_timeout_or_broken_protocol_is_asked_again_once(fault: ProviderFault) -> None:
    assert way(World(), [fault] * 2, "one", "two") == [ONE, ONE, TWO]


@pytest.mark.parametrize("fault", [LIMITED, UNPAID, REFUSED_KEY, FORBIDDEN])
def test_a_fault_of_the_key_turns_to_the_next_key_and_then_elsewhere(fault: ProviderFault) -> None:
    assert way(World(), [fault] * 3, "one", "two") == [ONE, ONE_B, TWO, None]


def test_an_unknown_model_is_only_asked_for_elsewhere() -> None:
    assert way(World(), [NO_MODEL], "one", "two") == [ONE, TWO]
    assert way(World(), [NO_MODEL]) == [ONE, None]


@pytest.mark.parametrize("fault", [BAD_REQUEST, BLOCKED])
def test_a_fault_of_the_request_is_the_answer_and_touches_no_key(fault: ProviderFault) -> None:
    world = World()
    assert way(world, [fault], "one", "two") == [ONE, None]
    assert world.known["one"].keyring.pick(without={"k2"}) == "k1"


def test_an_overflow_goes_only_where_there_is_more_room() -> None:
    assert way(World(one=8000, two=64000), [TOO_LONG], "one", "two") == [ONE, TWO]
    assert way(World(one=8000, two=8000), [TOO_LONG], "one", "two") == [ONE, None]


def test_the_pauses_grow_and_are_never_shorter_than_the_provider_asks() -> None:
    course = World(AttemptConfig(backoff_s=1.0)).course()
    first = course.after(course.first(), OVERLOADED, nameable=False)
    assert first is not None
    second = course.after(first, OVERLOADED, nameable=False)
    assert second is not None
    assert (first.delay_s, second.delay_s) == (1.0, 2.0)
    patient = classify(503, {"retry-after": "7"}, b"")
    course = World(AttemptConfig(backoff_s=1.0)).course()
    third = course.after(course.first(), patient, nameable=False)
    assert third is not None
    assert third.delay_s == 7.0


def test_the_only_key_waits_if_it_was_told_how_long() -> None:
    world = World()
    course = world.course("two")
    attempt = course.after(course.first(), LIMITED_SHORTLY, nameable=False)
    assert attempt is not None
    assert (told(attempt), attempt.delay_s) == (TWO, 2.0)
    assert way(World(), [LIMITED], "two") == [TWO, None]


def test_a_key_rests_as_long_as_its_fault_demands() -> None:
    world = World()
    assert way(world, [LIMITED]) == [ONE, ONE_B]
    world.now = 59
    assert world.known["one"].keyring.pick(without={"k2"}) is None
    world.now = 60
    assert world.known["one"].keyring.pick(without={"k2"}) == "k1"


def test_a_refused_key_is_set_aside_for_good() -> None:
    world = World()
    way(world, [REFUSED_KEY])
    world.now = 1e12
    assert world.known["one"].keyring.pick(without={"k2"}) is None


def test_there_are_only_so_many_attempts() -> None:
    assert way(World(AttemptConfig(max_attempts=2)), [OVERLOADED] * 2, "one", "two") == [
        ONE,
        ONE,
        None,
    ]


def test_there_is_only_so_much_time() -> None:
    world = World(AttemptConfig(max_s=10))
    course = world.course()
    attempt = course.first()
    world.now = 10
    assert course.after(attempt, OVERLOADED, nameable=False) is None


def test_a_provider_that_keeps_failing_is_passed_over_by_the_next_request() -> None:
    world = World()
    assert way(world, [OVERLOADED] * 3, "one", "two") == [ONE, ONE, ONE, TWO]
    assert told(world.course("one", "two").first()) == TWO
    world.now = 30
    assert told(world.course("one", "two").first())[0] == "one"  # type: ignore[index]
    assert told(world.course("one", "two").first()) == TWO


def test_with_nobody_left_the_first_target_is_asked_all_the_same() -> None:
    world = World()
    for key in ("k1", "k2"):
        world.known["one"].keyring.rest(key, 60 if key == "k1" else 5)
    assert told(world.course().first()) == ONE_B


def test_a_refused_parameter_is_left_out_once() -> None:
    course = World().course("one", "two")
    attempt = course.after(course.first(), BAD_REQUEST, nameable=True)
    assert attempt is not None
    assert (told(attempt), attempt.change) == (ONE, Change.WITHOUT_PARAMETER)
    assert course.after(attempt, BAD_REQUEST, nameable=True) is None


def test_a_refused_signature_is_left_out_once() -> None:
    assert BAD_SIGNATURE.code == "reasoning_rejected"
    course = World().course()
    attempt = course.after(course.first(), BAD_SIGNATURE, nameable=False)
    assert attempt is not None
    assert (told(attempt), attempt.change) == (ONE, Change.WITHOUT_STATE)
    assert course.after(attempt, BAD_SIGNATURE, nameable=False) is None


def test_a_success_frees_the_key_and_closes_the_breaker() -> None:
    world = World()
    way(world, [OVERLOADED] * 2)
    course = world.course()
    course.succeeded(course.first())
    assert way(world, [OVERLOADED] * 2)[0] is not None


def test_a_client_that_has_gone_teaches_nothing() -> None:
    world = World()
    course = world.course()
    course.abandoned(course.first())
    assert told(world.course().first()) == ONE_B


def test_what_two_keys_may_not_do_a_third_is_not_asked_for() -> None:
    world = World()
    world.known["one"].keyring = Keyring(["k1", "k2", "k4"], world.clock)
    assert way(world, [FORBIDDEN] * 2, "one", "two") == [ONE, ONE_B, TWO]
    assert world.known["one"].keyring.pick(without={"k4"}, model="m") is None
    assert world.known["one"].keyring.pick(without={"k4"}, model="other") == "k1"


def test_a_model_that_is_not_there_is_not_asked_for_again_soon() -> None:
    world = World()
    assert way(world, [NO_MODEL], "one", "two") == [ONE, TWO]
    assert told(world.course("one", "two").first()) == TWO
    world.now = 300
    assert told(world.course("one", "two").first())[0] == "one"  # type: ignore[index]


def test_a_pause_that_is_too_long_is_no_reason_to_ask_nobody() -> None:
    patient = classify(503, {"retry-after": "600"}, b"")
    assert way(World(), [patient], "one", "two") == [ONE, TWO]
    assert way(World(), [patient], "one") == [ONE, None]


def test_a_provider_that_is_left_alone_is_not_asked_again_where_there_is_another() -> None:
    world = World()
    way(world, [OVERLOADED] * 2, "one")
    assert way(world, [OVERLOADED], "one", "two")[-1] == TWO
    assert way(world, [OVERLOADED], "one")[-1] is not None


def test_a_request_that_has_no_time_left_does_not_take_the_trial_of_another() -> None:
    world = World(AttemptConfig(max_s=10))
    for _ in range(3):
        world.known["two"].breaker.fail()
    course = world.course("one", "two")
    attempt = course.first()
    world.now = 40
    assert course.after(attempt, UNPAID, nameable=False) is None
    assert world.known["two"].breaker.allows()


def test_a_pause_that_no_client_would_wait_for_is_not_made() -> None:
    for_long = classify(503, {"retry-after": "61"}, b"")
    assert way(World(), [for_long], "one", "two") == [ONE, TWO]
    assert way(World(), [for_long], "one") == [ONE, None]


def test_a_provider_that_never_spoke_leaves_time_for_the_next() -> None:
    world = World()
    course = world.course("one", "two")
    attempt = course.first()
    for name in ("one", "two"):
        world.now += 300 if name == "one" else 0
        following = course.after(attempt, timeout_fault("first_token"), nameable=False)
        assert following is not None
        attempt = following
    assert told(attempt) == TWO
