"""`antiphon.stage`: what authors of stages import."""

from __future__ import annotations

import antiphon
from antiphon import stage


def test_every_name_of_the_facade_is_there_and_is_sorted() -> None:
    assert stage.__all__ == sorted(stage.__all__)
    assert [name for name in stage.__all__ if not hasattr(stage, name)] == []


def test_the_facade_names_the_classes_that_the_library_exports() -> None:
    assert stage.Stage is antiphon.Stage
    assert stage.Batch is antiphon.Batch
