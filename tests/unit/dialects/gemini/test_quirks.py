"""Quirks of Gemini models, selected by a prefix of the model name."""

from __future__ import annotations

from antiphon.dialects.gemini.quirks import GeminiQuirks


def test_the_longest_matching_prefix_selects_the_quirks() -> None:
    three, flash = GeminiQuirks(sentinel=True), GeminiQuirks(effort="level")
    quirks = GeminiQuirks(models=(("gemini-3", three), ("gemini-3-flash", flash)))
    assert quirks.of("gemini-3-pro-preview") is three
    assert quirks.of("models/Gemini-3-Flash") is flash
    assert quirks.of("gemini-2.5-pro") is quirks
