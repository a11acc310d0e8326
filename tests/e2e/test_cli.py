"""The whole command, in a process of its own: what a person sees, and what a program gets."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
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
SENT = (
    b'data: {"model": "m", "choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}\n\n'
)


def ask(base_url: str, model: str, **more: object) -> str:
    body = json.dumps({"model": model, "input": "Hello there", **more}).encode()
    headers = {"content-type": "application/json"}
    with urlopen(Request(f"{base_url}/responses", body, headers), timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())


# --- quick, and quiet in a pipe -------------------------------------------------------------------


def test_help_imports_no_server_no_client_and_no_tables(tmp_path: Path) -> None:
    code = (
        "import sys, contextlib\n"
        "from antiphon.cli.main import main\n"
        "with contextlib.suppress(SystemExit): main(['--help'])\n"
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
    assert done.stdout.decode().splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "args",
    [["models"], ["check"], ["check", "--live"], ["replay", "-"], ["init", "--yes"]],
    ids=" ".join,
)
def test_a_pipe_gets_no_escape_codes_even_where_colour_is_forced(
    args: list[str], tmp_path: Path
) -> None:
    done = run(tmp_path, *args, given=SENT, FORCE_COLOR="1", TERM="xterm-256color")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout
    assert STYLE.encode() not in done.stdout


@pytest.mark.parametrize("args", [["models"], ["check"], ["replay", "-"]], ids=" ".join)
def test_every_line_in_a_pipe_is_json(args: list[str], tmp_path: Path) -> None:
    lines = run(tmp_path, *args, given=SENT).stdout.splitlines()
    assert lines
    assert all(isinstance(json.loads(line), dict) for line in lines)


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    """As `antiphon replay FILE | head -1`, with more than a pipe holds."""
    (tmp_path / "long.sse").write_bytes(SENT.replace(b', "finish_reason": "stop"', b"") * 2000)
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


def test_init_takes_its_answers_from_a_pipe(tmp_path: Path) -> None:
    done = run(tmp_path, "init", given=b"1\ndeepseek\n\nn\ntyped-secret\n\n\ny\n")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"typed-secret" not in done.stdout
    assert 'api_keys = ["typed-secret"]' in (tmp_path / "antiphon.toml").read_text()


# --- serve ----------------------------------------------------------------------------------------


def test_what_is_served_is_traced_and_can_be_replayed(tmp_path: Path) -> None:
    (tmp_path / "antiphon.toml").write_text("[trace]\npayloads = true\n")
    with serving(tmp_path) as base_url:
        events = ask(base_url, "echo/echo", stream=True)
    response_id = json.loads(events.split("data: ")[1].partition("\n")[0])["response"]["id"]

    [line] = run(tmp_path, "trace", "list").stdout.splitlines()
    listed = json.loads(line)
    assert (listed["response_id"], listed["status"]) == (response_id, "completed")

    shown = json.loads(run(tmp_path, "trace", "show", response_id).stdout)
    assert shown["request"]["request_id"] == listed["request_id"]
    kinds = ["request", "outbound", "raw", "transformed"]
    assert [each["kind"] for each in shown["streams"]] == kinds
    for kind, words in (("request", '"input"'), ("outbound", '"messages"')):
        sent = run(tmp_path, "trace", "show", response_id, "--stream", kind).stdout
        assert words in sent.decode()

    raw = run(tmp_path, "trace", "show", response_id, "--stream", "raw").stdout
    replayed = run(tmp_path, "replay", "-", given=raw).stdout.splitlines()
    names = [json.loads(line)["type"] for line in replayed]
    assert names == re.findall(r"^event: (\S+)$", events, re.MULTILINE)


def test_turns_and_trace_are_where_check_says(tmp_path: Path) -> None:
    with serving(tmp_path) as base_url:
        ask(base_url, "echo/echo")
    found = map(json.loads, run(tmp_path, "check").stdout.splitlines())
    places = {each["check"]: each.get("value", "") for each in found}
    assert Path(places["store"].removeprefix("sqlite:///")).is_file()
    assert Path(places["trace"].partition(",")[0]).is_file()


def test_a_busy_port_is_said_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(tmp_path, "serve", "--port", str(port))
    assert (done.returncode, done.stdout) == (1, b"")
    [line] = done.stderr.decode().splitlines()
    assert line.startswith(f"antiphon: port {port} on 127.0.0.1 is in use:")


@pytest.mark.parametrize(
    ("settings", "args", "complaint"),
    [
        (
            "[server]\nprot = 1\n",
            [],
            "antiphon.toml:2: server.prot: unknown key; did you mean 'port'?",
        ),
        ('[models]\na = "x/y"\n', [], "antiphon.toml:2: models.a: there is no provider 'x'"),
        ("", ["--host", "0.0.0.0"], "server.host is '0.0.0.0', which others can reach"),
        ("", ["--port", "70000"], "--port 70000: a port is a number from 0 to 65535"),
        ("", ["--config", "no.toml"], "no.toml: cannot be read"),
    ],
)
def test_a_mistake_in_the_settings_is_one_line_and_status_2(
    settings: str, args: list[str], complaint: str, tmp_path: Path
) -> None:
    (tmp_path / "antiphon.toml").write_text(settings)
    done = run(tmp_path, "serve", "--port", "0", *args)
    assert (done.returncode, done.stdout) == (2, b"")
    [line] = done.stderr.decode().splitlines()
    assert line.startswith("antiphon: ")
    assert complaint in line


def test_serve_greets_on_a_terminal_and_leaves_on_ctrl_c(tmp_path: Path) -> None:
    with on_terminal(tmp_path, "serve", "--port", "0") as terminal:
        shown = terminal.wait_for("Ctrl-C stops it.")
        found = re.search(r"base URL +(http://127\.0\.0\.1:\d+/v1)", shown)
        assert found
        assert f"curl {found[1]}/responses" in shown
        assert "echo/echo" in shown
        assert "this machine only" in shown
        assert COLOUR.search(terminal.shown)
        assert "Hello there" in ask(found[1], "echo/echo")
        terminal.wait_for("response.finished")
        assert terminal.interrupt() == 0
    assert "Traceback" not in terminal.plain


def test_the_greeting_names_the_clients_that_have_keys(tmp_path: Path) -> None:
    (tmp_path / "antiphon.toml").write_text('[server]\napi_keys = { alice = "k-alice" }\n')
    with on_terminal(tmp_path, "serve", "--port", "0") as terminal:
        shown = terminal.wait_for("Ctrl-C stops it.")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.wait() == 0
    assert "with a key: alice" in shown
    assert "authorization: Bearer YOUR-KEY" in shown
    assert "k-alice" not in shown


# --- on a terminal --------------------------------------------------------------------------------


@pytest.mark.parametrize("args", [["models"], ["replay", "up.sse"], ["check"]], ids=" ".join)
def test_no_color_leaves_a_terminal_without_colour(args: list[str], tmp_path: Path) -> None:
    (tmp_path / "up.sse").write_bytes(SENT)
    for more, is_coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        with on_terminal(tmp_path, *args, **more) as terminal:
            assert terminal.wait() == 0
        assert bool(COLOUR.search(terminal.shown)) is (is_coloured and args != ["models"])
        assert "{" not in terminal.plain


def test_init_on_a_terminal_hides_the_key_that_is_typed(tmp_path: Path) -> None:
    with on_terminal(tmp_path, "init") as terminal:
        terminal.wait_for("1 or 2?")
        terminal.type("")
        terminal.wait_for("Which ones?")
        terminal.type("deepseek")
        terminal.wait_for("Base URL?")
        terminal.type("")
        terminal.wait_for("Take the key from the environment")
        terminal.type("n")
        terminal.wait_for("not shown as you type")
        terminal.type("typed-secret")
        terminal.wait_for("Which model answers")
        terminal.type("")
        terminal.wait_for("Port?")
        terminal.type("")
        terminal.wait_for("Write antiphon.toml?")
        terminal.type("y")
        assert terminal.wait() == 0
    assert "typed-secret" not in terminal.shown
    assert "typed-secret" in (tmp_path / "antiphon.toml").read_text()


def test_ctrl_c_at_a_question_is_quiet_and_writes_nothing(tmp_path: Path) -> None:
    with on_terminal(tmp_path, "init") as terminal:
        terminal.wait_for("1 or 2?")
        assert terminal.interrupt() == 130
    assert "Traceback" not in terminal.plain
    assert list(tmp_path.iterdir()) == []
