"""Our lines in Codex's configuration: in, out, and every other byte as it was."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from antiphon.cli.codex.config import Settings, installed, removed
from antiphon.errors import ConfigError

SETTINGS = Settings(base_url="http://127.0.0.1:8484/v1", model='odd "name"', catalog="/a b/c.json")
OTHER = Settings(base_url="http://[::1]:1/v1", model="m", catalog="/c.json", with_key=True)

# Any file that Codex could have, in pieces: each is a statement, a comment or a blank line.
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


def valid(text: str) -> str:
    text = text.replace("\r\r\n", "\r\n")
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        assume(False)
    return text


@given(FILES)
def test_what_was_put_in_is_taken_out_to_the_byte(text: str) -> None:
    text = valid(text)
    changed = installed(text, SETTINGS)
    assert removed(changed) == text


@given(FILES)
def test_the_settings_are_in_force_and_all_others_still_are(text: str) -> None:
    text = valid(text)
    before, after = tomllib.loads(text), tomllib.loads(installed(text, SETTINGS))
    assert (after.pop("model"), after.pop("model_provider")) == ('odd "name"', "antiphon")
    assert after.pop("model_catalog_json") == "/a b/c.json"
    provider = after["model_providers"].pop("antiphon")
    assert provider["base_url"] == "http://127.0.0.1:8484/v1"
    rest = {name: value for name, value in before.items() if name not in SETTINGS.root()}
    assert after == {**rest, "model_providers": before.get("model_providers", {})}


@given(FILES)
def test_to_put_it_in_twice_is_to_put_it_in_once(text: str) -> None:
    text = valid(text)
    assert installed(installed(text, OTHER), SETTINGS) == installed(text, SETTINGS)


@given(FILES, TABLES)
def test_what_the_user_adds_meanwhile_stays(text: str, table: str) -> None:
    text = valid(text + "\n")
    added = valid(f"{text}{table}\n")[len(text) :]
    assert removed(installed(text, SETTINGS) + added) == text + added


@given(FILES)
def test_a_file_that_is_not_set_up_is_left_alone(text: str) -> None:
    text = valid(text)
    assert removed(text) == text


def test_keys_that_codex_puts_between_our_lines_stay() -> None:
    """So does its editor of TOML: behind the last key, and before the last comment of the file."""
    lines = installed("a = 1\n", SETTINGS).splitlines(keepends=True)
    at = next(place for place, line in enumerate(lines) if line.startswith("[model_providers."))
    lines.insert(at, 'personality = "friendly"\n')
    lines.insert(-1, "\n[mcp_servers.x]\ncommand = 'true'\n")
    expected = "a = 1\npersonality = \"friendly\"\n[mcp_servers.x]\ncommand = 'true'\n"
    assert removed("".join(lines)) == expected


def test_a_lost_end_mark_costs_nobody_a_table() -> None:
    """Codex removes the comment above a table together with the table."""
    text = installed("[first]\nx = 1\n[second]\ny = 2\n", SETTINGS)
    lost = text.replace("# <<< antiphon <<<\n[first]\nx = 1\n", "")
    assert lost != text
    assert removed(lost) == "[second]\ny = 2\n"


def test_a_model_that_was_chosen_meanwhile_is_ours_to_take_out() -> None:
    text = installed('model = "gpt-6-sol"\n', SETTINGS)
    changed = text.replace('model = "odd \\"name\\""', 'model = "another"')
    assert changed != text
    assert removed(changed) == 'model = "gpt-6-sol"\n'


@pytest.mark.parametrize(
    "text",
    [
        "model_providers = { mine = { name = 'x' } }\n",
        "[model_providers.antiphon]\nname = 'mine'\n",
        "[model]\nx = 1\n",
        "model_providers = 1\n",
    ],
)
def test_a_file_with_no_place_for_us_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no place for our settings"):
        installed(text, SETTINGS)


def test_a_file_with_remains_of_us_is_refused() -> None:
    with pytest.raises(ConfigError, match="stray comment: # antiphon kept: model = 1"):
        installed("# antiphon kept: model = 1\n", SETTINGS)


@pytest.mark.parametrize("text", ["model = ", 'a = "\n', "[x\n", "a = 1\na = 2\n"])
def test_what_is_not_toml_is_not_touched(text: str) -> None:
    with pytest.raises(ConfigError, match="not valid TOML"):
        installed(text, SETTINGS)


def test_a_key_is_asked_for_only_where_one_is_needed() -> None:
    assert "env_key" not in SETTINGS.provider()
    assert OTHER.provider()["env_key"] == "ANTIPHON_API_KEY"


def test_the_options_of_one_run_say_the_same_as_the_file() -> None:
    words = OTHER.options()
    assert words[::2] == ["-c"] * 4
    pairs = "".join(f"{word}\n" for word in words[1::2])
    assert tomllib.loads(pairs) == tomllib.loads(installed("", OTHER))


def test_the_page_shows_what_is_written() -> None:
    page = (Path(__file__).parents[4] / "docs/codex.md").read_text(encoding="utf-8")
    shown = Settings(
        base_url="http://127.0.0.1:8484/v1",
        model="deepseek/deepseek-v4-pro",
        catalog="/home/me/.codex/antiphon-catalog.json",
    )
    assert f"```toml\n{installed('', shown)}```" in page
