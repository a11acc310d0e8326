"""`antiphon.dialect`: what authors of providers and dialects import."""

from __future__ import annotations

from antiphon import dialect


def test_every_name_of_the_facade_is_there_and_is_sorted() -> None:
    assert dialect.__all__ == sorted(dialect.__all__)
    assert [name for name in dialect.__all__ if not hasattr(dialect, name)] == []


def test_the_facade_names_the_objects_that_the_gateway_itself_uses() -> None:
    assert dialect.Spec.__module__ == "antiphon.providers.spec"
    assert dialect.Plan.__module__ == "antiphon.core.plan.plan"
