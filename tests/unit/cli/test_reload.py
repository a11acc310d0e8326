"""`antiphon reload`: a gateway in another process reads its file again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from antiphon.cli.main import main
from tests.support.commands import COMMAND, environment

FILE = """default_provider = "echo"
[server]
port = {port}
api_keys = {{ me = "${{SERVER_ONLY}}" }}
"""


@contextmanager
def serving(home: Path, path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """`antiphon serve` with a file, on a free port."""
    command = [*COMMAND, "serve", "--config", str(path)]
    with subprocess.Popen(
        command,
        cwd=home,
        env=environment(home, SERVER_ONLY="a key of the server"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            found = re.search(r":(\d+)/v1", process.stdout.readline())
            assert found is not None
            yield process, int(found[1])
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def test_a_file_is_reloaded_by_the_command_and_by_a_signal(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / "team.toml"
    path.write_text(FILE.format(port=0))
    with serving(home, path) as (process, port):
        path.write_text(FILE.format(port=0) + '[models]\nfast = "echo/echo"\n')
        options = ["reload", "--config", str(path), "--port", str(port)]
        assert main(options) == 0
        assert capsys.readouterr().out == f"reloaded {path}\n"
        path.write_text(FILE.format(port=0) + '[models]\nfast = "echo/nothing"\n')
        assert main(options) == 1
        assert capsys.readouterr().err.startswith(f"antiphon: {path}:6: models.fast: ")
        path.write_text(FILE.format(port=0) + "[log]\nlevel = 'error'\n")
        assert main(options) == 0
        assert "only after a restart: log" in capsys.readouterr().out
        assert process.stderr is not None
        os.kill(process.pid, signal.SIGHUP)
        while "config.reloaded" not in (line := process.stderr.readline()):
            assert line, "the signal is logged"


def test_no_gateway_is_reported_with_its_address(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "antiphon.toml").write_text("[server]\nport = 1\n")
    assert main(["reload"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("antiphon: no gateway responds at http://127.0.0.1:1/admin/reload: ")


@pytest.mark.usefixtures("home")
def test_a_command_without_a_file_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reload"]) == 2
    assert "there is no configuration file" in capsys.readouterr().err


def test_a_file_that_is_no_toml_is_reported_before_the_gateway_is_asked(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "antiphon.toml").write_text("[server\n")
    assert main(["reload"]) == 2
    assert "antiphon.toml:1: not valid TOML" in capsys.readouterr().err


class _OtherServer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:
        return


def test_another_server_is_not_taken_for_a_gateway(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with HTTPServer(("127.0.0.1", 0), _OtherServer) as server:
        Thread(target=server.handle_request).start()
        (home / "antiphon.toml").write_text(f"[server]\nport = {server.server_port}\n")
        assert main(["reload"]) == 1
    assert "is not a gateway: it responded with status 404." in capsys.readouterr().err
