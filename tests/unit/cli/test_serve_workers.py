"""`antiphon serve --workers N`: what is refused before any process is started."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from antiphon.cli.main import main


@pytest.mark.parametrize("count", ["0", "-1", "257"])
@pytest.mark.usefixtures("home")
def test_a_number_of_workers_out_of_range_is_rejected(
    count: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", f"--workers={count}"]) == 2
    expected = f"antiphon: --workers {count}: must be a number from 1 to 256\n"
    assert capsys.readouterr().err == expected


def test_a_store_in_memory_is_rejected(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "antiphon.toml").write_text('[store]\nurl = "memory://"\n')
    assert main(["serve", "--workers", "2"]) == 2
    message = capsys.readouterr().err
    assert "antiphon.toml:2" in message
    assert "a store in memory cannot be shared by workers" in message


def test_a_port_in_use_is_explained(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["serve", "--workers", "2", "--port", str(port)]) == 1
    assert f"port {port} on 127.0.0.1 is in use" in capsys.readouterr().err


def test_an_open_bind_without_keys_is_rejected(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--workers", "2", "--host", "0.0.0.0"]) == 2
    assert "api_keys" in capsys.readouterr().err
