"""The text of a new configuration file: valid TOML, with keys masked for display."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from antiphon.cli.config_template import HIDDEN, ConfigDraft, ProviderDraft, render_config

LOCAL = ProviderDraft(
    name="local", kind="chat", base_url="http://127.0.0.1:1/v1", api_key="s3cret", models=("a/b",)
)
DRAFT = ConfigDraft(
    providers=(
        ProviderDraft(name="deepseek", kind="deepseek", base_url="https://x", api_key="${KEY}"),
        LOCAL,
    ),
    default_provider="local",
    fallback_model="local/a/b",
    port=9000,
)


def test_the_file_contains_every_setting_of_the_draft() -> None:
    assert tomllib.loads(render_config(DRAFT)) == {
        "default_provider": "local",
        "server": {"port": 9000},
        "providers": {
            "deepseek": {"base_url": "https://x", "api_keys": ["${KEY}"]},
            "local": {
                "kind": "chat",
                "base_url": "http://127.0.0.1:1/v1",
                "api_keys": ["s3cret"],
                "models": {"a/b": {}},
            },
        },
        "models": {"*": "local/a/b"},
    }


def test_hidden_keys_are_masked_and_variables_are_shown() -> None:
    shown = render_config(DRAFT, hide_keys=True)
    assert "s3cret" not in shown
    assert tomllib.loads(shown)["providers"]["local"]["api_keys"] == [HIDDEN]
    assert "${KEY}" in shown


def test_a_draft_without_providers_is_a_valid_file() -> None:
    assert tomllib.loads(render_config(ConfigDraft(default_provider="echo", port=0))) == {
        "default_provider": "echo",
        "server": {"port": 0},
    }


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_key_is_quoted_so_that_it_is_read_back_unchanged(key: str) -> None:
    provider = ProviderDraft(name="p", kind="p", base_url="https://x", api_key=key)
    text = render_config(ConfigDraft(providers=(provider,), default_provider="p", port=1))
    assert tomllib.loads(text)["providers"]["p"]["api_keys"] == [key]
