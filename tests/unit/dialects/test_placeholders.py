"""Placeholder texts in requests."""

from __future__ import annotations

from antiphon.dialects import placeholders


def test_an_omission_names_the_part_and_the_reason() -> None:
    text = placeholders.omission("image", "its address cannot be read")
    assert text == "[image omitted: its address cannot be read]"


def test_no_placeholder_is_blank() -> None:
    texts = [value for name, value in vars(placeholders).items() if name.isupper()]
    assert texts
    assert all(isinstance(text, str) and text.strip() for text in texts)
