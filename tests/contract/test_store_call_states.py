"""The contract of `CallStates`, checked for every backend of stores."""

from __future__ import annotations

import pytest

from antiphon.store.admin.copy import copy_store, open_admin
from tests.support.store_backends import Backend

pytestmark = pytest.mark.anyio


async def test_state_is_found_by_its_client_and_its_call(backend: Backend) -> None:
    states = (await backend.open()).call_states
    await states.save({"fc_1": "one", "fc_2": "two"}, client="me")
    await states.save({"fc_1": "another"}, client="you")
    assert await states.load(["fc_1", "fc_2", "fc_3"], client="me") == {
        "fc_1": "one",
        "fc_2": "two",
    }
    assert await states.load(["fc_1", "fc_2"], client="you") == {"fc_1": "another"}
    assert await states.load(["fc_1"], client="") == {}
    assert await states.load([], client="me") == {}


async def test_state_that_is_saved_again_is_replaced(backend: Backend) -> None:
    states = (await backend.open()).call_states
    await states.save({"fc_1": "one"}, client="me")
    await states.save({"fc_1": "two"}, client="me")
    assert await states.load(["fc_1"], client="me") == {"fc_1": "two"}


async def test_state_expires_and_is_deleted(backend: Backend) -> None:
    states = (await backend.open(ttl_s=100)).call_states
    await states.save({"fc_1": "one"}, client="me")
    backend.clock.now += 99
    assert await states.load(["fc_1"], client="me") == {"fc_1": "one"}
    backend.clock.now += 1
    assert await states.load(["fc_1"], client="me") == {}
    if backend.url != "memory://":
        await open_admin(backend.url).prune(backend.clock.now)
    await states.save({"fc_2": "two"}, client="me")  # in memory, this deletes what has expired
    backend.clock.now -= 50
    assert await states.load(["fc_1", "fc_2"], client="me") == {"fc_2": "two"}


async def test_a_client_keeps_its_newest_states_and_takes_no_room_from_others(
    backend: Backend,
) -> None:
    states = (await backend.open(max_call_states=3)).call_states
    await states.save({"fc_0": "other"}, client="you")
    for number in range(5):
        await states.save({f"fc_{number}": str(number)}, client="me")
    calls = [f"fc_{number}" for number in range(5)]
    assert await states.load(calls, client="me") == {"fc_2": "2", "fc_3": "3", "fc_4": "4"}
    assert await states.load(calls, client="you") == {"fc_0": "other"}


async def test_state_is_copied_with_its_store(backend: Backend, tmp_path: object) -> None:
    if backend.url == "memory://":
        return  # it is in no other process, and cannot be copied
    states = (await backend.open()).call_states
    await states.save({"fc_1": "one", "fc_2": "two"}, client="me")
    copied = Backend("sqlite", f"sqlite:///{tmp_path}/copy.sqlite", backend.clock)
    await copy_store(open_admin(backend.url), open_admin(copied.url))
    again = (await copied.open()).call_states
    assert await again.load(["fc_1", "fc_2"], client="me") == {"fc_1": "one", "fc_2": "two"}
    await copied.close()
