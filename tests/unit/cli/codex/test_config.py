"""Settings in Codex's `config.toml`: added and removed, with every other byte unchanged."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from antiphon.cli.codex.config import CodexSettings, install_settings, remove_settings
from antiphon.errors import ConfigError
from tests.support.tables import table

SETTINGS = CodexSettings(
    base_url="http://127.0.0.1:8484/v1", model='odd "name"', catalog="/a b/c.json"
)
OTHER = CodexSettings(base_url="http://[::1]:1/v1", model="m", catalog="/c.json", requires_key=True)

# Parts of a `config.toml`: each is a statement, a comment or a blank line.
ROOT = st.sampled_from(
    [
        'model = "gpt-6-sol" # mine',
        '"model" = "x"',
        'model_provider = "openai"',
        "model_catalog_json = '/c.json'",
        'model = """\none\n# antiphon kept: two\n"""',
        'notify = [\n  "a", # with a comment\n\n  "[b]",\n]',
        "text = '''\nmodel = 1\n[table]\n# <<< antiphon <<<\n'''",
        "  indented = 1",
        "model_providers.mine.name = 'x'",
        "'été'.model = 'ü'",
        "# a comment",
        "",
        "   \t",
    ]
)
TABLES = st.sampled_from(
    [
        "[projects.'/home/me']\ntrust_level = 'trusted'",
        "[model_providers]",
        "[model_providers.local]\nname = 'x'\nmodel = 'not ours'",
        "  [tui] # indented",
        "[[hooks]]\nmodel = 1",
        "# between",
        "",
        "[profiles.p]\nmodel_provider = 'openai'\nmodel = '''\n[x]\n'''",
    ]
)
FILES = st.builds(
    lambda head, tables, end, last: end.join([*head, *tables]).replace("\n", end) + last,
    st.lists(ROOT, max_size=5),
    st.lists(TABLES, max_size=4),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\n", "\r\n", "\n\n"]),
)


def assume_valid(text: str) -> str:
    text = text.replace("\r\r\n", "\r\n")
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        assume(False)
    return text


@given(FILES)
def test_removing_restores_the_file_to_the_byte(text: str) -> None:
    text = assume_valid(text)
    changed = install_settings(text, SETTINGS)
    assert remove_settings(changed) == text


@given(FILES)
def test_installing_sets_our_keys_and_keeps_all_others(text: str) -> None:
    text = assume_valid(text)
    before, after = tomllib.loads(text), tomllib.loads(install_settings(text, SETTINGS))
    assert (after.pop("model"), after.pop("model_provider")) == ('odd "name"', "antiphon")
    assert after.pop("model_catalog_json") == "/a b/c.json"
    provider = after["model_providers"].pop("antiphon")
    assert provider["base_url"] == "http://127.0.0.1:8484/v1"
    rest = {name: value for name, value in before.items() if name not in SETTINGS.top_level_keys()}
    assert after == {**rest, "model_providers": before.get("model_providers", {})}


@given(FILES)
def test_installing_twice_is_the_same_as_once(text: str) -> None:
    text = assume_valid(text)
    assert install_settings(install_settings(text, OTHER), SETTINGS) == install_settings(
        text, SETTINGS
    )


@given(FILES, TABLES)
def test_a_table_added_after_the_setup_is_kept(text: str, table: str) -> None:
    text = assume_valid(text + "\n")
    added = assume_valid(f"{text}{table}\n")[len(text) :]
    assert remove_settings(install_settings(text, SETTINGS) + added) == text + added


@given(FILES)
def test_removing_from_a_file_without_our_lines_changes_nothing(text: str) -> None:
    text = assume_valid(text)
    assert remove_settings(text) == text


def test_keys_that_codex_inserts_between_our_lines_are_kept() -> None:
    """Codex's TOML editor inserts after the last key, and before the last comment of the file."""
    lines = install_settings("a = 1\n", SETTINGS).splitlines(keepends=True)
    header = next(n for n, line in enumerate(lines) if line.startswith("[model_providers."))
    lines.insert(header, 'personality = "friendly"\n')
    lines.insert(-1, "\n[mcp_servers.x]\ncommand = 'true'\n")
    expected = "a = 1\npersonality = \"friendly\"\n[mcp_servers.x]\ncommand = 'true'\n"
    assert remove_settings("".join(lines)) == expected


def test_a_missing_end_comment_removes_no_other_table() -> None:
    """Codex removes the comment above a table together with the table."""
    text = install_settings("[first]\nx = 1\n[second]\ny = 2\n", SETTINGS)
    lost = text.replace("# <<< antiphon <<<\n[first]\nx = 1\n", "")
    assert lost != text
    assert remove_settings(lost) == "[second]\ny = 2\n"


def test_a_model_chosen_after_the_setup_is_removed_with_our_lines() -> None:
    text = install_settings('model = "gpt-6-sol"\n', SETTINGS)
    changed = text.replace('model = "odd \\"name\\""', 'model = "another"')
    assert changed != text
    assert remove_settings(changed) == 'model = "gpt-6-sol"\n'


@table(
    "text",
    [
        "model_providers = { mine = { name = 'x' } }\n",
        "[model_providers.antiphon]\nname = 'mine'\n",
        "[model]\nx = 1\n",
        "model_providers = 1\n",
    ],
)
def test_a_file_with_a_conflicting_definition_is_rejected(text: str) -> None:
    with pytest.raises(ConfigError, match="already defines a model provider 'antiphon'"):
        install_settings(text, SETTINGS)


def test_a_file_with_leftover_comments_is_rejected() -> None:
    with pytest.raises(ConfigError, match="'# antiphon kept: model = 1' is left over"):
        install_settings("# antiphon kept: model = 1\n", SETTINGS)


@table("text", ["model = ", 'a = "\n', "[x\n", "a = 1\na = 2\n"])
def test_a_file_that_is_not_toml_is_rejected(text: str) -> None:
    with pytest.raises(ConfigError, match="not valid TOML"):
        install_settings(text, SETTINGS)


def test_codex_does_not_repeat_what_the_gateway_has_retried() -> None:
    assert SETTINGS.provider_table()["request_max_retries"] == 0
    assert "\nrequest_max_retries = 0\n" in install_settings("", SETTINGS)


def test_env_key_is_set_only_if_a_key_is_required() -> None:
    assert "env_key" not in SETTINGS.provider_table()
    assert OTHER.provider_table()["env_key"] == "ANTIPHON_API_KEY"


def test_the_command_options_equal_the_settings_of_the_file() -> None:
    options = OTHER.command_options()
    assert options[::2] == ["-c"] * 4
    pairs = "".join(f"{pair}\n" for pair in options[1::2])
    assert tomllib.loads(pairs) == tomllib.loads(install_settings("", OTHER))


def test_docs_codex_md_shows_the_lines_that_are_written() -> None:
    page = (Path(__file__).parents[4] / "docs/codex.md").read_text(encoding="utf-8")
    shown = CodexSettings(
        base_url="http://127.0.0.1:8484/v1",
        model="deepseek/deepseek-v4-pro",
        catalog="/home/me/.codex/antiphon-catalog.json",
    )
    assert f"```toml\n{install_settings('', shown)}```" in page
