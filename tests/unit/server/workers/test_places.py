"""Places of workers: delays of their successors, and the configuration that is rolled out."""

from __future__ import annotations

import time

from antiphon.config import Config
from antiphon.server.workers.places import Place, Rollout
from antiphon.server.workers.worker_process import WorkerProcess

CONFIG = Config()


def new_worker(*, age_s: float = 0.0, is_ready: bool = True) -> WorkerProcess:
    started_at = time.monotonic() - age_s
    return WorkerProcess(1, 1, CONFIG, -1, started_at=started_at, is_ready=is_ready)


def test_the_delay_of_a_place_doubles_up_to_a_limit() -> None:
    place = Place(1)
    delays = [place.delay_start(new_worker()) for _ in range(7)]
    assert delays == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0]
    assert place.start_at > time.monotonic() + 9
    place.start_at_once()
    assert place.start_at == 0.0


def test_a_worker_that_was_stable_is_replaced_at_once() -> None:
    place = Place(1)
    for _ in range(3):
        place.delay_start(new_worker())
    assert place.delay_start(new_worker(age_s=100.0, is_ready=False)) == 2.0, "it never served"
    assert place.delay_start(new_worker(age_s=100.0)) == 0.0
    assert place.delay_start(new_worker()) == 0.5, "the delay begins anew"


def test_a_place_keeps_the_worker_that_has_replaced_another() -> None:
    place = Place(1)
    assert place.is_outdated(CONFIG)
    first = new_worker()
    second = new_worker()
    assert place.occupy(first) is None
    assert place.occupy(second) is first
    place.vacate(first)
    assert place.worker is second
    assert not place.is_outdated(CONFIG)
    assert place.is_outdated(Config()), "an equal configuration that was read again"
    place.vacate(second)
    assert place.worker is None


def test_a_configuration_that_fails_is_replaced_by_the_last_usable_one() -> None:
    rollout = Rollout(CONFIG)
    rollout.complete()
    failing = Config()
    rollout.begin(failing)
    assert (rollout.wanted is failing, rollout.is_complete) == (True, False)
    assert not rollout.is_confirmed(failing)
    rollout.give_up(failing)
    assert (rollout.wanted is CONFIG, rollout.is_complete) == (True, True)


def test_a_configuration_that_was_read_after_a_failing_one_stays() -> None:
    rollout = Rollout(CONFIG)
    failing = Config()
    rollout.begin(failing)
    later = Config()
    rollout.begin(later)
    rollout.give_up(failing)
    assert (rollout.wanted is later, rollout.is_complete) == (True, False)
    rollout.confirm(later)
    assert rollout.is_confirmed(later)
