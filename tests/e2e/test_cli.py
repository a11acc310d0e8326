"""The `antiphon` command in a process of its own, on a terminal and in a pipe."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from tests.support.commands import (
    COMMAND,
    PATIENCE_S,
    environment,
    on_terminal,
    run,
    serving,
)

STYLE = "\x1b["
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9]")
RECORDED = (
    b'data: {"model": "m", "choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}\n\n'
)


def send_request(base_url: str, model: str, **more: object) -> str:
    body = json.dumps({"model": model, "input": "Hello there", **more}).encode()
    headers = {"content-type": "application/json"}
    with urlopen(Request(f"{base_url}/responses", body, headers), timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())


# --- in a pipe ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "loaded"),
    [
        (["--help"], []),
        (["codex", "--help"], ["rich"]),
        (["init", "--help"], ["rich"]),
        (["models", "--offline"], ["rich"]),
    ],
    ids=str,
)
def test_a_command_without_requests_imports_no_server_and_no_http_client(
    args: list[str], loaded: list[str], tmp_path: Path
) -> None:
    code = (
        "import sys, contextlib\n"
        "from antiphon.cli.main import main\n"
        f"with contextlib.suppress(SystemExit): main({args})\n"
        "print(sorted({'aiohttp', 'asyncio', 'rich', 'sqlite3', 'uvloop'} & {*sys.modules}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        env=environment(tmp_path),
        cwd=tmp_path,
        check=True,
        timeout=PATIENCE_S,
    )
    assert done.stdout.decode().splitlines()[-1] == str(loaded)


@pytest.mark.parametrize(
    "args",
    [["models"], ["check"], ["check", "--live"], ["replay", "-"], ["init", "--yes"]],
    ids=" ".join,
)
def test_a_pipe_gets_no_escape_codes_even_where_colour_is_forced(
    args: list[str], tmp_path: Path
) -> None:
    done = run(tmp_path, *args, given=RECORDED, FORCE_COLOR="1", TERM="xterm-256color")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout
    assert STYLE.encode() not in done.stdout


@pytest.mark.parametrize("args", [["models"], ["check"], ["replay", "-"]], ids=" ".join)
def test_every_line_in_a_pipe_is_json(args: list[str], tmp_path: Path) -> None:
    lines = run(tmp_path, *args, given=RECORDED).stdout.splitlines()
    assert lines
    assert all(isinstance(json.loads(line), dict) for line in lines)


def test_a_pipe_that_its_reader_closes_is_no_error(tmp_path: Path) -> None:
    """As in `antiphon replay FILE | head -1`, with more output than a pipe buffers."""
    (tmp_path / "long.sse").write_bytes(RECORDED.replace(b', "finish_reason": "stop"', b"") * 2000)
    process = subprocess.Popen(
        [*COMMAND, "replay", "long.sse"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
        cwd=tmp_path,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process, process.stdout as out, process.stderr as errors:
        assert out.readline().startswith(b'{"type":"response.created"')
        out.close()
        assert errors.read() == b""
        assert process.wait(PATIENCE_S) == 0


def test_init_reads_its_answers_from_a_pipe(tmp_path: Path) -> None:
    done = run(tmp_path, "init", given=b"2\ndeepseek\n\nn\ntyped-secret\n\n\ny\n")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"typed-secret" not in done.stdout
    assert 'api_keys = ["typed-secret"]' in (tmp_path / "antiphon.toml").read_text()


# --- serve ----------------------------------------------------------------------------------------


def test_a_served_request_is_traced_and_its_bytes_can_be_replayed(tmp_path: Path) -> None:
    (tmp_path / "antiphon.toml").write_text("[trace]\npayloads = true\n")
    with serving(tmp_path) as base_url:
        events = send_request(base_url, "echo/echo", stream=True)
    response_id = json.loads(events.split("data: ")[1].partition("\n")[0])["response"]["id"]

    [line] = run(tmp_path, "trace", "list").stdout.splitlines()
    listed = json.loads(line)
    assert (listed["response_id"], listed["status"]) == (response_id, "completed")

    shown = json.loads(run(tmp_path, "trace", "show", response_id).stdout)
    assert shown["request"]["request_id"] == listed["request_id"]
    kinds = ["request", "outbound", "raw", "transformed"]
    assert [each["kind"] for each in shown["streams"]] == kinds
    for kind, field in (("request", '"input"'), ("outbound", '"messages"')):
        sent = run(tmp_path, "trace", "show", response_id, "--stream", kind).stdout
        assert field in sent.decode()

    raw = run(tmp_path, "trace", "show", response_id, "--stream", "raw").stdout
    replayed = run(tmp_path, "replay", "-", given=raw).stdout.splitlines()
    names = [json.loads(line)["type"] for line in replayed]
    assert names == re.findall(r"^event: (\S+)$", events, re.MULTILINE)


def test_store_and_trace_are_at_the_paths_that_check_reports(tmp_path: Path) -> None:
    with serving(tmp_path) as base_url:
        send_request(base_url, "echo/echo")
    found = map(json.loads, run(tmp_path, "check").stdout.splitlines())
    values = {each["check"]: each.get("value", "") for each in found}
    assert Path(values["store"].removeprefix("sqlite:///")).is_file()
    assert Path(values["trace"].partition(",")[0]).is_file()


def test_a_port_in_use_is_an_error_of_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(tmp_path, "serve", "--port", str(port))
    assert (done.returncode, done.stdout) == (1, b"")
    [line] = done.stderr.decode().splitlines()
    assert line.startswith(f"antiphon: port {port} on 127.0.0.1 is in use by another program:")


def test_a_gateway_that_runs_already_is_named(tmp_path: Path) -> None:
    with serving(tmp_path) as url:
        done = run(tmp_path, "serve", "--port", str(urlsplit(url).port))
    assert (done.returncode, done.stdout) == (1, b"")
    assert f"antiphon: a gateway runs already at {url}: use it, stop it" in done.stderr.decode()


@pytest.mark.parametrize(
    ("settings", "args", "message"),
    [
        (
            "[server]\nprot = 1\n",
            [],
            "antiphon.toml:2: server.prot: unknown key; did you mean 'port'?",
        ),
        ('[models]\na = "x/y"\n', [], "antiphon.toml:2: models.a: there is no provider 'x'"),
        ("", ["--host", "0.0.0.0"], "server.host: others can reach '0.0.0.0', but"),
        ("", ["--port", "70000"], "--port 70000: must be a number from 0 to 65535"),
        ("", ["--config", "no.toml"], "no.toml: cannot be read"),
    ],
)
def test_an_invalid_configuration_is_one_line_and_status_2(
    settings: str, args: list[str], message: str, tmp_path: Path
) -> None:
    (tmp_path / "antiphon.toml").write_text(settings)
    done = run(tmp_path, "serve", "--port", "0", *args)
    assert (done.returncode, done.stdout) == (2, b"")
    [line] = done.stderr.decode().splitlines()
    assert line.startswith("antiphon: ")
    assert message in line


def test_serve_shows_a_banner_on_a_terminal_and_stops_on_ctrl_c(tmp_path: Path) -> None:
    with on_terminal(tmp_path, "serve", "--port", "0") as terminal:
        shown = terminal.wait_for("Press Ctrl-C to stop.")
        found = re.search(r"API +(http://127\.0\.0\.1:\d+/v1)", shown)
        assert found
        assert f"curl {found[1]}/responses" in shown
        assert "echo/echo" in shown
        assert "this machine only" in shown
        assert COLOUR.search(terminal.shown)
        assert "Hello there" in send_request(found[1], "echo/echo")
        terminal.wait_for("local  echo → echo  ")
        assert terminal.interrupt() == 0
    assert "Traceback" not in terminal.plain


def test_the_banner_names_the_clients_that_have_keys(tmp_path: Path) -> None:
    (tmp_path / "antiphon.toml").write_text('[server]\napi_keys = { alice = "k-alice" }\n')
    with on_terminal(tmp_path, "serve", "--port", "0") as terminal:
        shown = terminal.wait_for("Press Ctrl-C to stop.")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.wait() == 0
    assert "with an API key: alice" in shown
    assert "authorization: Bearer YOUR-KEY" in shown
    assert "k-alice" not in shown


# --- on a terminal --------------------------------------------------------------------------------


@pytest.mark.parametrize("args", [["models"], ["replay", "up.sse"], ["check"]], ids=" ".join)
def test_no_color_disables_colour_on_a_terminal(args: list[str], tmp_path: Path) -> None:
    (tmp_path / "up.sse").write_bytes(RECORDED)
    for more, is_coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        with on_terminal(tmp_path, *args, **more) as terminal:
            assert terminal.wait() == 0
        assert bool(COLOUR.search(terminal.shown)) is (is_coloured and args != ["models"])
        assert "{" not in terminal.plain


def test_init_does_not_show_a_typed_key_on_a_terminal(tmp_path: Path) -> None:
    with on_terminal(tmp_path, "init") as terminal:
        terminal.wait_for("1 or 2?")
        terminal.type("2")
        terminal.wait_for("Which providers?")
        terminal.type("deepseek")
        terminal.wait_for("Base URL?")
        terminal.type("")
        terminal.wait_for("Read the API key from the environment")
        terminal.type("n")
        terminal.wait_for("not shown as you type")
        terminal.type("typed-secret")
        terminal.wait_for("Which model serves")
        terminal.type("")
        terminal.wait_for("Port?")
        terminal.type("")
        terminal.wait_for("Write antiphon.toml?")
        terminal.type("y")
        assert terminal.wait() == 0
    assert "typed-secret" not in terminal.shown
    assert "typed-secret" in (tmp_path / "antiphon.toml").read_text()


def test_ctrl_c_at_a_prompt_writes_nothing_and_shows_no_traceback(tmp_path: Path) -> None:
    with on_terminal(tmp_path, "init") as terminal:
        terminal.wait_for("1 or 2?")
        assert terminal.interrupt() == 130
    assert "Traceback" not in terminal.plain
    assert list(tmp_path.iterdir()) == []
