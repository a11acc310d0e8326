"""Model discovery of commands: `antiphon models` and `antiphon init` ask the servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from antiphon.cli.discover import discover_models
from antiphon.cli.main import main
from antiphon.config import Config
from antiphon.providers.registry import build_providers


class _ModelList(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"data": [{"id": "llama"}, {"id": "qwen"}]}'
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _ModelList) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def write_settings(home: Path, url: str) -> None:
    (home / "antiphon.toml").write_text(
        f'[providers.lab]\nkind = "chat"\nbase_url = "{url}"\n'
        '[providers.gone]\nkind = "chat"\nbase_url = "http://127.0.0.1:1"\n'
    )


def test_models_of_the_servers_are_listed_and_failures_reported(
    home: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_settings(home, url)
    assert main(["models"]) == 0
    shown = capsys.readouterr()
    names = [json.loads(line)["name"] for line in shown.out.splitlines()]
    assert names[-2:] == ["lab/llama", "lab/qwen"]
    assert "the models of gone could not be listed: 127.0.0.1:1 cannot be reached" in shown.err


def test_no_server_is_asked_with_offline(
    home: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_settings(home, url)
    assert main(["models", "--offline"]) == 0
    shown = capsys.readouterr()
    assert "lab/llama" not in shown.out
    assert shown.err == ""


def test_without_a_provider_that_has_a_list_nobody_is_asked() -> None:
    assert discover_models(build_providers(Config(), {}).values()) == ({}, {})
