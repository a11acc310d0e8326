"""The Gemini dialect as a whole."""

from __future__ import annotations

from antiphon.core.plan.plan import Plan
from antiphon.dialects.dialect import resolve
from antiphon.dialects.gemini.dialect import GeminiDialect
from antiphon.dialects.gemini.quirks import GeminiQuirks


def test_the_dialect_is_resolved_by_name_and_decodes_and_encodes() -> None:
    dialect = resolve("gemini")
    frames = dialect.framer().feed(b'data: {"candidates":[]}\r\n\r\n')
    assert [frame.data for frame in frames] == [b'{"candidates":[]}']
    assert dialect.decoder().feed(frames[0]) == []
    assert dialect.decode(b"[]") == []
    outbound = dialect.encode(Plan(provider="p", model="m"), stream=True)
    assert outbound.path == "/models/m:streamGenerateContent?alt=sse"


def test_the_dialect_encodes_with_its_quirks() -> None:
    quirks = GeminiQuirks(effort="level")
    outbound = GeminiDialect(quirks=quirks).encode(Plan(provider="p", model="m"), stream=False)
    assert b'"thinkingConfig":{"includeThoughts":true}' in outbound.body
