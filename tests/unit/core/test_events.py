"""Events of the API: names on the wire, and the terminal event of each final status."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from antiphon.core import events
from antiphon.core.events import Event
from antiphon.core.response import Response

TYPES = get_args(Event)
TYPED_BY_PROVIDER = events.HostedToolEvent


def test_every_event_has_a_type_of_its_own() -> None:
    tags = [kind.__struct_config__.tag for kind in TYPES if kind is not TYPED_BY_PROVIDER]
    assert len(set(tags)) == len(tags)
    assert all(tag.startswith("response.") for tag in tags if tag != "keepalive")


def test_every_event_class_of_the_module_is_in_the_union() -> None:
    classes = [each for each in vars(events).values() if isinstance(each, type)]
    assert {each for each in classes if each.__module__ == events.__name__} == set(TYPES)


@pytest.mark.parametrize("status", ["completed", "incomplete", "failed"])
def test_the_terminal_event_is_named_after_the_status(status: str) -> None:
    event = events.TERMINALS[status](Response(id="resp_1", created_at=0, model="m"))
    assert msgspec.to_builtins(event)["type"] == f"response.{status}"
