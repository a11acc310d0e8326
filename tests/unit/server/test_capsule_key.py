"""The file of the capsule key: written in one step, and refused if it is empty or weak."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.config import CapsuleConfig, Config, StoreConfig
from antiphon.errors import ConfigError
from antiphon.server.capsule_key import read_key, read_or_create_key, require_shared_key

SAME_KEY = "0123456789abcdef" * 4


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "capsule.key"


def test_a_missing_key_is_created_for_its_owner_alone_and_stays(path: Path) -> None:
    key = read_or_create_key(path, os.urandom)
    assert len(bytes.fromhex(key)) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_or_create_key(path, os.urandom) == key
    assert read_key(path) == key
    assert [*path.parent.iterdir()] == [path]  # nothing temporary is left


RACE = """
import os, sys
from pathlib import Path
from antiphon.server.capsule_key import read_or_create_key
sys.stdin.readline()
print(read_or_create_key(Path(sys.argv[1]), os.urandom))
"""


def test_processes_that_start_at_once_use_the_same_key(path: Path) -> None:
    command = [sys.executable, "-c", RACE, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [subprocess.Popen(command, **pipes) for _ in range(4)]  # type: ignore[call-overload]
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    keys = {process.communicate()[0] for process in started}
    assert len(keys) == 1
    assert keys == {path.read_text() + "\n"}
    assert [*path.parent.iterdir()] == [path]


WHOLE_OR_NONE = """
import os, resource, signal, sys
from pathlib import Path
from antiphon.server.capsule_key import read_or_create_key
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
read_or_create_key(Path(sys.argv[1]), os.urandom)
"""


def test_a_key_that_can_be_written_only_in_part_leaves_no_file(path: Path) -> None:
    command = [sys.executable, "-c", WHOLE_OR_NONE, str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "capsule.key: the capsule key cannot be saved (File too large)" in ended.stderr
    assert [*path.parent.iterdir()] == []


WEAK = {
    "empty": b"",
    "blank": b" " * 64 + b"\n",
    "zero bytes": bytes(64),
    "short": b"0123456789abcdef",
    "one character": b"a" * 64,
    "not text": bytes(range(128, 192)),
}


@pytest.mark.parametrize("name", WEAK)
def test_an_empty_or_weak_key_is_refused_and_left_as_it_is(path: Path, name: str) -> None:
    path.parent.mkdir()
    path.write_bytes(WEAK[name])
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="capsule key is empty, damaged or too short") as caught:
        read_or_create_key(path, os.urandom)
    assert str(path) in caught.value.message
    assert "delete it" in caught.value.message
    assert path.read_bytes() == WEAK[name]


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o644, 0o666])
def test_a_key_that_every_user_may_access_is_refused(path: Path, mode: int) -> None:
    path.parent.mkdir()
    path.write_text(SAME_KEY)
    path.chmod(mode)
    with pytest.raises(ConfigError, match=f"chmod 600 {path}"):
        read_or_create_key(path, os.urandom)
    path.chmod(0o600)
    assert read_or_create_key(path, os.urandom) == SAME_KEY


def test_a_key_of_a_group_and_with_a_newline_is_used_as_it_is(path: Path) -> None:
    path.parent.mkdir()
    path.write_text(SAME_KEY + "\n")
    path.chmod(0o660)  # as volumes that are shared with a group have it
    assert read_key(path) == SAME_KEY + "\n"


def test_a_key_that_cannot_be_read_is_named(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"capsule.key: the capsule key cannot be read"):
        read_key(path)


def test_gateways_that_share_a_store_must_share_a_key() -> None:
    store = StoreConfig(url="postgresql://me:secret@db/x")
    with pytest.raises(ConfigError, match="`openssl rand -hex 32`") as caught:
        require_shared_key(Config(store=store))
    assert "secret" not in caught.value.message
    assert '[capsule] keys = ["${CAPSULE_KEY}"]' in caught.value.message
    require_shared_key(Config(store=store, capsule=CapsuleConfig(keys=["0123456789" * 4])))
    require_shared_key(Config())
    assert "secret" not in repr(store)
