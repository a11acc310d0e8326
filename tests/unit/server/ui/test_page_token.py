"""The page token: made once, readable by its owner only."""

from __future__ import annotations

import secrets
import stat
from pathlib import Path

from antiphon.server.ui.page_token import FILE_NAME, read_or_create_token


def test_a_token_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    token = read_or_create_token(directory, secrets.token_bytes)
    assert len(token) == 32
    assert read_or_create_token(directory, secrets.token_bytes) == token
    assert stat.S_IMODE((directory / FILE_NAME).stat().st_mode) == 0o600


def test_a_token_that_others_could_read_is_replaced(tmp_path: Path) -> None:
    token = read_or_create_token(tmp_path, secrets.token_bytes)
    (tmp_path / FILE_NAME).chmod(0o644)
    again = read_or_create_token(tmp_path, secrets.token_bytes)
    assert again not in ("", token)
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


def test_there_is_no_token_where_it_cannot_be_saved(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert read_or_create_token(tmp_path / "file", secrets.token_bytes) == ""
