"""Settings of plans that are kept: by what, for whom, and how many."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import structs

from antiphon.core.capabilities import Capabilities
from antiphon.core.plan.kept_settings import NO_SETTINGS, KeptSettings, SettingsPlan
from antiphon.core.plan.plan import Plan
from antiphon.core.request import Request, Thinking
from tests.support.tables import table

CAN = Capabilities()
OTHER_VALUES: dict[str, Any] = {
    "unknown": ("x",),
    "include": frozenset({"x"}),
    "tools": ({"type": "x"},),
    "text_format": {"type": "json_object"},
    "thinking": Thinking(mode="enabled"),
    "metadata": {"a": "b"},
    "stop": ("x",),
}


def keep(kept: KeptSettings, request: Request, can: Capabilities = CAN, model: str = "m") -> bool:
    """Find the settings for a request; return whether they were kept before."""
    made = SettingsPlan(Plan(provider="p", model=model), (), can)
    return kept.find(request, ("p", model), can, lambda: made) is not made


def test_settings_are_kept_for_the_same_request_with_another_input() -> None:
    kept = KeptSettings()
    first = Request(raw={}, model="m", input=({"role": "user", "content": "a"},))
    second = structs.replace(first, input=(), raw={"a": 1}, instructions="x", stream=True)
    assert not keep(kept, first)
    assert keep(kept, second)


@table("name", sorted({*Request.__struct_fields__} - NO_SETTINGS))
def test_each_other_field_of_a_request_has_settings_of_its_own(name: str) -> None:
    kept = KeptSettings()
    request = Request(raw={}, model="m")
    value = OTHER_VALUES.get(name, {"a": 1} if getattr(request, name) is None else "x")
    assert not keep(kept, request)
    assert not keep(kept, msgspec.structs.replace(request, **{name: value}))


def test_numbers_of_another_type_have_settings_of_their_own() -> None:
    kept = KeptSettings()
    for value in (1, 1.0, True, None):
        assert not keep(kept, Request(raw={}, model="m", temperature=value))


def test_each_target_and_equal_capabilities_of_another_one_have_settings_of_their_own() -> None:
    kept = KeptSettings()
    request = Request(raw={}, model="m")
    assert not keep(kept, request)
    assert not keep(kept, request, model="n")
    assert not keep(kept, request, can=Capabilities())
    assert keep(kept, request)


def test_settings_beyond_the_bound_are_not_kept() -> None:
    kept = KeptSettings(max_bytes=5000)
    small, large = (Request(raw={}, model="m", user="u" * size) for size in (1, 4000))
    assert not keep(kept, large)
    assert not keep(kept, large)
    assert not keep(kept, small)
    assert keep(kept, small)
