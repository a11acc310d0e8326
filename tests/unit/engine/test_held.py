"""Release of what a run has acquired."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from antiphon.engine.runtime import Held

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def context(name: str, log: list[str]) -> Iterator[None]:
    log.append(f"enter {name}")
    yield
    log.append(f"leave {name}")


def fail(message: str) -> None:
    raise ValueError(message)


def test_the_last_is_released_first_and_only_once() -> None:
    log: list[str] = []
    held = Held()
    held.callback(log.append, "first")
    held.enter_context(context("second", log))
    held.callback(lambda: log.append("third"))
    held.close()
    held.close()
    assert log == ["enter second", "third", "leave second", "first"]


def test_each_step_runs_whatever_another_one_raises() -> None:
    log: list[str] = []
    held = Held()
    held.callback(log.append, "first")
    held.callback(fail, "one")
    held.callback(log.append, "second")
    held.callback(fail, "two")
    with pytest.raises(ValueError, match="one") as caught:
        held.close()
    assert log == ["second", "first"]
    assert str(caught.value.__context__) == "two"
    held.close()


def test_a_context_that_cannot_be_entered_is_not_left() -> None:
    @contextmanager
    def broken() -> Iterator[None]:
        fail("closed")
        yield

    held = Held()
    with pytest.raises(ValueError, match="closed"):
        held.enter_context(broken())
    held.close()
