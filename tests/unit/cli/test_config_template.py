"""The file that `init` writes: it can be read back, and it can be shown."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from antiphon.cli.config_template import HIDDEN, Draft, ProviderDraft, render

LOCAL = ProviderDraft(
    name="local", kind="chat", base_url="http://127.0.0.1:1/v1", api_key="s3cret", models=("a/b",)
)
DRAFT = Draft(
    providers=(
        ProviderDraft(name="deepseek", kind="deepseek", base_url="https://x", api_key="${KEY}"),
        LOCAL,
    ),
    default_provider="local",
    fallback_model="local/a/b",
    port=9000,
)


def test_the_text_holds_every_decision() -> None:
    assert tomllib.loads(render(DRAFT)) == {
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


def test_what_is_shown_has_placeholders_but_no_keys() -> None:
    shown = render(DRAFT, hide_keys=True)
    assert "s3cret" not in shown
    assert tomllib.loads(shown)["providers"]["local"]["api_keys"] == [HIDDEN]
    assert "${KEY}" in shown


def test_nothing_chosen_is_still_a_file() -> None:
    assert tomllib.loads(render(Draft(default_provider="echo", port=0))) == {
        "default_provider": "echo",
        "server": {"port": 0},
    }


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_key_survives_the_file(key: str) -> None:
    provider = ProviderDraft(name="p", kind="p", base_url="https://x", api_key=key)
    text = render(Draft(providers=(provider,), default_provider="p", port=1))
    assert tomllib.loads(text)["providers"]["p"]["api_keys"] == [key]
