"""The key file: merged with the configuration, which wins; readable by its owner only."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from antiphon.config import ClientLimitConfig, inspect_config, load_config
from antiphon.config.key_file import (
    KeyFile,
    change_key_file,
    key_file_path,
    read_key_file,
    write_key_file,
)
from antiphon.errors import ConfigError

_TEXT = """\
[server]
api_keys = { alice = "sk-of-the-file" }
[providers.deepseek]
api_keys = ["sk-first"]
[limits.alice]
requests_per_minute = 1
"""


def test_keys_are_added_to_the_configuration_which_wins(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text(_TEXT)
    keys = KeyFile(
        clients={"alice": "sk-other", "bob": "sk-bob"},
        limits={name: ClientLimitConfig(requests_per_minute=9) for name in ("alice", "bob")},
        providers={"deepseek": ["sk-first", "sk-second"], "zhipu": ["sk-z"]},
        default_model="zhipu/glm-5.3",
    )
    write_key_file(key_file_path(path), keys)
    config = load_config(path, {})
    assert config.server.api_keys == {"alice": "sk-of-the-file", "bob": "sk-bob"}
    limits = {name: each.requests_per_minute for name, each in config.limits.clients.items()}
    assert limits == {"alice": 1, "bob": 9}
    assert config.providers["deepseek"].api_keys == ["sk-first", "sk-second"]
    assert config.providers["zhipu"].api_keys == ["sk-z"]
    assert config.chosen_model == "zhipu/glm-5.3"
    assert inspect_config(path, {})[0].providers == config.providers


def test_the_file_is_replaced_in_one_step_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = key_file_path(tmp_path / "antiphon.toml")
    assert read_key_file(path) == KeyFile()
    for keys in (KeyFile(clients={"a": "sk-a"}), KeyFile(clients={"b": "sk-b"})):
        write_key_file(path, keys)
        assert read_key_file(path) == keys
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["antiphon.keys.json"]
    assert "sk-b" not in repr(read_key_file(path))


def test_changes_of_several_processes_are_all_kept(tmp_path: Path) -> None:
    """Each worker of a gateway changes the file; a key that was revoked must not come back."""
    path = key_file_path(tmp_path / "antiphon.toml")

    def add(number: int) -> KeyFile:
        def change(keys: KeyFile) -> KeyFile:
            return KeyFile(clients={**keys.clients, f"c{number}": "sk"})

        return change_key_file(path, change)

    with ThreadPoolExecutor(8) as threads:
        before = [*threads.map(add, range(40))]
    assert sorted(len(each.clients) for each in before) == [*range(40)]
    assert len(read_key_file(path).clients) == 40
    assert [each.name for each in tmp_path.iterdir()] == ["antiphon.keys.json"]


def test_a_damaged_file_is_named_without_its_text(tmp_path: Path) -> None:
    path = key_file_path(tmp_path / "antiphon.toml")
    path.write_text('{"clients": {"a": "sk-secret"')
    with pytest.raises(ConfigError) as caught:
        read_key_file(path)
    assert str(path) in caught.value.message
    assert "sk-secret" not in caught.value.message
