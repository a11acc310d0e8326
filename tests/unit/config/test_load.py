"""`antiphon.toml`: values, defaults, and the messages about errors in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.config import (
    Config,
    ProviderConfig,
    data_directory,
    find_config,
    load_config,
    parse_config,
)
from antiphon.engine.routing import make_router
from antiphon.errors import ConfigError
from antiphon.providers.registry import build_providers
from tests.support.tables import table

ENVIRONMENT = {"ALICE_KEY": "alice-secret", "DEEPSEEK_API_KEY": "deepseek-secret", "EMPTY": ""}
FILE = """\
default_provider = "deepseek"
[server]
port = 9000
api_keys = { alice = "${ALICE_KEY}" }
keepalive_s = 5

[providers.deepseek]
api_keys = ["${DEEPSEEK_API_KEY}"]
timeouts.idle_s = 30.5

[providers.local]
kind = "chat"
base_url = "http://localhost:8000/v1"
[providers.local.models."meta/llama-4"]
context_window = 32768

[models]
"gpt-5.5" = "deepseek/deepseek-v4-pro"
"*" = "local/meta/llama-4"

[store]
url = "memory://"
[trace]
enabled = false
[log]
level = "debug"
"""


def parsed(text: str) -> Config:
    return parse_config(text, ENVIRONMENT, name="antiphon.toml")


def error_message(text: str) -> str:
    """The message about an error in a file, its providers or its aliases."""
    with pytest.raises(ConfigError) as caught:
        used(text)
    return caught.value.message


def used(text: str) -> None:
    config = parsed(text)
    make_router(config, build_providers(config, ENVIRONMENT))


def test_a_file_is_read_with_secrets_from_the_environment() -> None:
    config = parsed(FILE)
    assert config.default_provider == "deepseek"
    assert (config.server.port, config.server.keepalive_s) == (9000, 5.0)
    assert config.server.api_keys == {"alice": "alice-secret"}
    deepseek, local = config.providers["deepseek"], config.providers["local"]
    assert deepseek.api_keys == ["deepseek-secret"]
    assert (deepseek.timeouts.idle_s, deepseek.timeouts.connect_s) == (30.5, 10.0)
    assert (local.kind, local.base_url) == ("chat", "http://localhost:8000/v1")
    assert local.models["meta/llama-4"].context_window == 32768
    assert config.models == {
        "gpt-5.5": "deepseek/deepseek-v4-pro",
        "*": "local/meta/llama-4",
    }
    assert (config.store.url, config.trace.enabled, config.log.level) == (
        "memory://",
        False,
        "debug",
    )


def test_the_repr_of_a_config_hides_its_secrets() -> None:
    config = parsed(FILE)
    shown = f"{config} {build_providers(config, ENVIRONMENT)}"
    assert "deepseek" in shown
    assert "secret" not in shown


def test_an_empty_file_means_the_defaults() -> None:
    config = parsed("")
    assert config.server == Config().server
    assert config.providers == {}
    assert config.store == Config().store


@table(
    ("text", "message"),
    [
        ("[sever]\nport = 1", "antiphon.toml:1: sever: unknown key; did you mean 'server'?"),
        (
            "\n[server]\nprot = 1",
            "antiphon.toml:3: server.prot: unknown key; did you mean 'port'?",
        ),
        (
            "defalt_provider = 'echo'",
            "antiphon.toml:1: defalt_provider: unknown key; did you mean 'default_provider'?",
        ),
        (
            "[providers.chat]\nbase_ulr = 'http://x'",
            "antiphon.toml:2: providers.chat.base_ulr: unknown key; did you mean 'base_url'?",
        ),
        (
            "[providers.chat.timeouts]\n# seconds\nidel_s = 3",
            "antiphon.toml:3: providers.chat.timeouts.idel_s: unknown key; did you mean 'idle_s'?"
            " (known: connect_s, first_token_s, idle_s, total_s)",
        ),
        (
            '[providers.chat.models."a/b.c"]\ncontxt_window = 3',
            'antiphon.toml:2: providers.chat.models."a/b.c".contxt_window: unknown key;'
            " did you mean 'context_window'?",
        ),
        (
            "[log]\nzzz = 1",
            "antiphon.toml:2: log.zzz: unknown key; known: level, format",
        ),
        ("source = 'x'", "antiphon.toml:1: source: unknown key; did you mean 'store'?"),
    ],
)
def test_an_unknown_key_at_any_depth_is_rejected_with_a_suggestion(text: str, message: str) -> None:
    assert error_message(text) == message


@table(
    ("text", "message"),
    [
        ('[server]\nport = "80"', "2: server.port: must be an integer, not a string"),
        ("[server]\nport = 65536", "2: server.port: must be an integer <= 65535"),
        ("[server]\nport = -1", "2: server.port: must be an integer >= 0"),
        ("[server]\nhost = ''", "2: server.host: must not be empty"),
        ("[server]\nlocale = ''", "2: server.locale: must not be empty"),
        ("[server]\nkeepalive_s = 0", "2: server.keepalive_s: must be a number > 0.0"),
        ("[server]\nkeepalive_s = nan", "2: server.keepalive_s: must be a number > 0.0"),
        ("[server]\nkeepalive_s = inf", "2: server.keepalive_s: must be a number <= 604800.0"),
        ("[server]\nmax_body_bytes = 0", "2: server.max_body_bytes: must be an integer >= 1"),
        (
            "[providers.chat.timeouts]\nconnect_s = -2.5",
            "2: providers.chat.timeouts.connect_s: must be a number > 0.0",
        ),
        ("[store]\nttl_s = 0", "2: store.ttl_s: must be an integer >= 1"),
        ("[store]\nmax_chain = '5'", "2: store.max_chain: must be an integer, not a string"),
        ("[store]\nurl = 'turns.db'", "2: store.url: must be a URL such as https://host/path"),
        ("[trace]\nenabled = 'yes'", "2: trace.enabled: must be true or false, not a string"),
        (
            "[log]\nlevel = 'wrning'",
            "2: log.level: 'wrning' is not supported; did you mean 'warning'?"
            " (known: debug, info, warning, error)",
        ),
        ("providers = 3", "1: providers: must be a table, not an integer"),
        ("[providers]\nchat = 'x'", "2: providers.chat: must be a table, not a string"),
        ("[models]\nfast = 3", "2: models.fast: must be a string, not an integer"),
        (
            "[providers.chat.models]\nx.inputs = ['text', 'imgae']",
            "2: providers.chat.models.x.inputs[1]: 'imgae' is not supported; did you mean 'image'?"
            " (known: text, image, file, file_url, audio)",
        ),
        (
            "[providers.chat]\nbase_url = 'localhost:8000'",
            "2: providers.chat.base_url: must be a URL such as https://host/path",
        ),
        (
            "[providers.chat]\nweb_search = 'on'",
            "2: providers.chat.web_search: 'on' is not supported;"
            " known: native, managed, refuse, ignore",
        ),
    ],
)
def test_an_invalid_value_is_rejected_with_what_is_expected(text: str, message: str) -> None:
    assert error_message(text) == f"antiphon.toml:{message}"


@table(
    ("text", "message"),
    [
        (
            "[providers.deepseek]\napi_keys = [\n  '${NOBODY}',\n]",
            "2: providers.deepseek.api_keys: the environment variable NOBODY is not set;"
            " set it, or remove ${NOBODY}",
        ),
        (
            "[server]\napi_keys = { alice = '${EMPTY}' }",
            "2: server.api_keys.alice: the environment variable EMPTY is empty;"
            " set it, or remove ${EMPTY}",
        ),
        (
            "[capsule]\nkeys = [\n  '$CAPSULE_KEY',\n]",
            "2: capsule.keys: $CAPSULE_KEY is not replaced by an environment variable: write"
            " ${CAPSULE_KEY}",
        ),
        (
            "[providers.deepseek]\napi_keys = ['x', '']",
            "2: providers.deepseek.api_keys[1]: must not be empty",
        ),
        (
            "[server.api_keys]\nalice = 'x'\nbob = ''",
            "3: server.api_keys.bob: must not be empty",
        ),
    ],
)
def test_a_missing_secret_is_rejected_and_no_secret_is_quoted(text: str, message: str) -> None:
    assert error_message(text) == f"antiphon.toml:{message}"


@table(
    ("text", "place"),
    [
        ("[server]\nport 3", "antiphon.toml:2"),
        ("[log]\n[log]", "antiphon.toml:2"),
        ("x = 1\nx = 2\n", "antiphon.toml:2"),
        ("x = '''", "antiphon.toml:1"),
        ("x = 1\ny = [\n  2,\n", "antiphon.toml:3"),
    ],
)
def test_invalid_toml_is_rejected_with_its_line(text: str, place: str) -> None:
    where, _, problem = error_message(text).partition(": not valid TOML: ")
    assert where == place
    assert problem
    assert "at line" not in problem


@table("text", ['[log]\nlevel = "info\n', "[log]\nlevel = 'info\nformat = 'text'"])
def test_a_string_without_its_closing_quote_is_named(text: str) -> None:
    message = "antiphon.toml:2: not valid TOML: a string lacks its closing quote"
    assert error_message(text) == message


@table(
    ("text", "message"),
    [
        (
            "[providers.deepsek]\napi_keys = ['x']",
            "1: providers.deepsek: unknown kind 'deepsek'; did you mean 'deepseek'?"
            ' (use kind = "chat" for any Chat Completions server)',
        ),
        (
            "[providers.mine]\nbase_url = 'http://x'\nkind = 'chatt'",
            "3: providers.mine.kind: unknown kind 'chatt'; did you mean 'chat'?"
            ' (use kind = "chat" for any Chat Completions server)',
        ),
        (
            "[providers.mine]\nkind = 'chat'",
            '1: providers.mine.base_url: required for kind = "chat":'
            " set it to the base URL of the server",
        ),
        (
            "[providers.zhipu]\nweb_search = 'ignore'",
            "1: providers.zhipu.api_keys: required: set an API key here or in ZHIPU_API_KEY",
        ),
        (
            "[providers.'a/b']\nkind = 'chat'\nbase_url = 'http://x'",
            '1: providers."a/b": a provider name must not be empty or contain a slash',
        ),
        (
            "default_provider = 'zhipu'\n[providers.deepseek]",
            "1: default_provider: the provider zhipu has no API key: set ZHIPU_API_KEY and start"
            " again",
        ),
        (  # a model is no provider, also where the key of its provider is missing
            "default_provider = 'glm-5'\n[providers.deepseek]",
            "1: default_provider: there is no provider 'glm-5'; known: deepseek, echo",
        ),
        (
            "default_provider = 'zhip'\n[providers.deepseek]",
            "1: default_provider: there is no provider 'zhip'; known: deepseek, echo",
        ),
        (
            "[models]\nfast = 'ech/echo'",
            "2: models.fast: there is no provider 'ech'; did you mean 'echo'?"
            " (known: deepseek, echo)",
        ),
        (
            "[models]\n'gpt-5.5' = 'echo'",
            "2: models.\"gpt-5.5\": 'echo' is not of the form provider/model",
        ),
        (
            "[models]\n'*' = 'echo/reasonr'",
            "2: models.\"*\": 'echo' has no model 'reasonr'; did you mean 'reasoner'?",
        ),
    ],
)
def test_an_invalid_provider_or_alias_is_rejected_with_its_line(text: str, message: str) -> None:
    assert error_message(text) == f"antiphon.toml:{message}"


def test_the_line_of_a_key_is_found_despite_comments_values_and_other_tables() -> None:
    text = '# port = 1\n[trace]\npath = "port = 2"\n[server] # the server\n\n  port = "x"\n'
    assert error_message(text) == "antiphon.toml:6: server.port: must be an integer, not a string"


def test_an_error_in_a_config_without_a_file_names_just_the_key() -> None:
    config = Config(providers={"mine": ProviderConfig(kind="chat")})
    with pytest.raises(ConfigError) as caught:
        build_providers(config, {})
    assert caught.value.message.startswith(
        'providers.mine.base_url: required for kind = "chat": set it'
    )


def test_the_error_about_an_unreadable_file_names_it(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b"x = '\xff'")
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read: No such file"):
        load_config(tmp_path / "none.toml", {})
    with pytest.raises(ConfigError, match=r"latin\.toml: not valid TOML: not encoded in UTF-8"):
        load_config(tmp_path / "latin.toml", {})


def test_an_error_in_a_loaded_file_names_its_path(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text("[server]\nprot = 1\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(path, {})
    assert caught.value.message.startswith(f"{path}:2: server.prot:")


def test_an_explicit_file_comes_before_the_working_directory_and_home(tmp_path: Path) -> None:
    home, here = tmp_path / "home", tmp_path / "here"
    at_home = home / ".config" / "antiphon" / "antiphon.toml"
    at_home.parent.mkdir(parents=True)
    here.mkdir()
    environment = {"HOME": str(home)}
    assert find_config(None, environment, here) is None
    at_home.touch()
    assert find_config(None, environment, here) == at_home
    (here / "antiphon.toml").touch()
    assert find_config(None, environment, here) == here / "antiphon.toml"
    named = {**environment, "ANTIPHON_CONFIG": "/etc/antiphon.toml"}
    assert find_config(None, named, here) == Path("/etc/antiphon.toml")
    assert find_config("mine.toml", named, here) == Path("mine.toml")


def test_user_directories_follow_the_xdg_variables(tmp_path: Path) -> None:
    other = tmp_path / "antiphon" / "antiphon.toml"
    other.parent.mkdir()
    other.touch()
    environment = {"HOME": "/home/alice", "XDG_CONFIG_HOME": str(tmp_path)}
    assert find_config(None, environment, tmp_path) == other
    assert data_directory({"HOME": "/home/alice"}) == Path("/home/alice/.local/share/antiphon")
    assert data_directory({"XDG_DATA_HOME": "/data"}) == Path("/data/antiphon")
    relative = {"HOME": "/home/alice", "XDG_DATA_HOME": "data"}
    assert data_directory(relative) == Path("/home/alice/.local/share/antiphon")
    assert data_directory({}).is_absolute()


def test_all_problems_of_a_file_are_one_error() -> None:
    text = "[server]\nport = 'x'\nprot = 1\n[log]\nlevel = '${NOTHING}'\n"
    assert [line.partition(": ")[0] for line in error_message(text).splitlines()] == [
        "antiphon.toml:5",  # variables are looked up first
        "antiphon.toml:3",
        "antiphon.toml:2",
    ]


def test_a_variable_that_is_not_needed_stays_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text(
        "[providers.chat]\nbase_url = '${NOTHING}'\napi_keys = ['${NOTHING}']\n"
        "[trace]\npath = '${HERE}/trace.db'\n"
    )
    config = load_config(path, {"HERE": "/here"}, needs=["trace"])
    assert config.trace.path == "/here/trace.db"
    assert config.providers["chat"].api_keys == ["${NOTHING}"]
    assert config.providers["chat"].base_url == ""  # what is written is no URL
    with pytest.raises(ConfigError, match="HERE is not set"):
        load_config(path, {}, needs=["trace"])


def test_a_bare_variable_that_is_not_needed_is_no_problem(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text("[capsule]\nkeys = ['$NOTHING']\n[trace]\npath = 'cost-$5'\n")
    assert load_config(path, {}, needs=["trace"]).trace.path == "cost-$5"
