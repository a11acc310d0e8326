"""Default error classification and fault texts of a dialect."""

from __future__ import annotations

from antiphon.dialects.dialect import resolve


def test_an_error_is_classified_and_described() -> None:
    dialect = resolve("chat")
    fault = dialect.classify(429, {}, b'{"error":{"message":"slow down, sk-1"}}')
    assert fault.type == "rate_limit"
    for locale in ("en", "zh", "xx-YY"):
        description = dialect.describe(fault, locale)
        assert description
        assert "sk-1" not in description


def test_a_dialect_without_a_client_format_reads_the_same_for_every_client() -> None:
    dialect = resolve("gemini")
    assert dialect.for_client("messages") is dialect
