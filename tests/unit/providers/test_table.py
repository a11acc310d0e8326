"""The generated page docs/providers.md."""

from __future__ import annotations

from pathlib import Path

from antiphon.providers import table
from antiphon.providers.registry import SPECS


def section(title: str) -> str:
    return table.render().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_page_matches_the_provider_data() -> None:
    page = Path(__file__).parents[3] / "docs" / "providers.md"
    written = page.read_text(encoding="utf-8")
    assert written == table.render(), "python -m antiphon.providers.table > docs/providers.md"
    for name, spec in SPECS.items():
        assert f"`{name}`: {spec.title}" in written
        assert all(f"`{model.id}`" in written for model in spec.models)


def test_a_section_lists_the_facts_of_a_provider() -> None:
    deepseek = section("DeepSeek")
    assert "- Formats: `json_object`, `text`\n" in deepseek
    assert "- A forced tool call: disables thinking\n" in deepseek
    assert "- Tools: 128 at most; `strict` is ignored\n" in deepseek
    assert "| any other | 1,000,000 | 384,000 | text | none | low | low |" in deepseek


def test_a_model_row_shows_unknown_sizes_and_missing_efforts_as_dashes() -> None:
    assert "| any | – | – |" in section("LM Studio")
    assert "| `kimi-k2.7-code` | 262,144 | 262,144 | image, text | – | enabled |" in section(
        "Moonshot / Kimi"
    )


def test_a_provider_without_tools_lists_none() -> None:
    perplexity = section("Perplexity")
    assert "- Tools: none\n" in perplexity
    assert "Tool choice" not in perplexity


def test_a_family_of_models_is_marked() -> None:
    assert "| `moonshot-v1`… |" in section("Moonshot / Kimi")
