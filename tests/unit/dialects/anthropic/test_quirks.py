"""Quirks of single models of a provider."""

from __future__ import annotations

from antiphon.dialects.anthropic.quirks import AnthropicQuirks


def test_a_model_has_quirks_of_its_own() -> None:
    small, large = AnthropicQuirks(max_tokens=1), AnthropicQuirks(max_tokens=2)
    quirks = AnthropicQuirks(models={"claude-a": small, "claude-a-4.5": large})
    names = ["claude-b", "vendor/Claude-A", "claude-a-4-5-latest", "claude-a.4.5"]
    assert [quirks.of(name).max_tokens for name in names] == [32_000, 1, 2, 2]
