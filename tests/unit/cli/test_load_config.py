"""Configuration of a command: which file is read, and the defaults without one."""

from __future__ import annotations

import argparse
from pathlib import Path

from antiphon.cli.load_config import (
    add_config_option,
    find_config_path,
    load_config_or_default,
    make_base_url,
    resolve_store_url,
    resolve_trace_path,
)
from antiphon.config import Config, StoreConfig, TraceConfig
from tests.support.commands import own_settings
from tests.support.tables import table


def test_without_a_file_the_defaults_are_used(home: Path) -> None:
    assert find_config_path(None) is None
    assert load_config_or_default(None) == Config()


def test_the_file_of_the_current_directory_wins_unless_it_is_excluded(home: Path) -> None:
    own_settings(home).write_text("[server]\nport = 1\n")
    (home / "antiphon.toml").write_text("[server]\nport = 2\n")
    assert load_config_or_default(None).server.port == 2
    assert load_config_or_default(None, search_cwd=False).server.port == 1
    assert find_config_path(None, search_cwd=False) == own_settings(home)


def test_an_explicit_file_wins(home: Path) -> None:
    (home / "antiphon.toml").write_text("[server]\nport = 2\n")
    (home / "team.toml").write_text("[server]\nport = 3\n")
    assert load_config_or_default("team.toml").server.port == 3


@table("search_cwd", [True, False])
def test_help_names_the_current_directory_only_if_it_is_searched(search_cwd: bool) -> None:
    parser = argparse.ArgumentParser()
    add_config_option(parser, search_cwd=search_cwd)
    assert ("./antiphon.toml" in parser.format_help()) is search_cwd
    assert parser.parse_args(["--config", "a.toml"]).config == "a.toml"


def test_store_and_trace_are_in_the_data_directory_by_default(home: Path) -> None:
    data = home / ".local" / "share" / "antiphon"
    assert resolve_store_url(Config()) == f"sqlite:///{data}/turns.db"
    assert resolve_trace_path(Config()) == data / "trace.db"


def test_store_and_trace_of_the_configuration_are_used() -> None:
    config = Config(store=StoreConfig(url="memory://"), trace=TraceConfig(path="/t.db"))
    assert resolve_store_url(config) == "memory://"
    assert resolve_trace_path(config) == Path("/t.db")


@table(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:1/v1"),
        ("0.0.0.0", "http://127.0.0.1:1/v1"),
        ("::", "http://[::1]:1/v1"),
        ("fe80::1", "http://[fe80::1]:1/v1"),
        ("gateway.local", "http://gateway.local:1/v1"),
    ],
)
def test_a_wildcard_address_is_reached_by_the_loopback_address(host: str, url: str) -> None:
    assert make_base_url(host, 1) == url
