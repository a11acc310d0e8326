"""The tutorials as programs: their configurations are written, their commands run on a terminal,
and what a page shows as output is looked for in what the commands print."""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, TypeAlias

from tests.support.commands import Terminal, on_terminal, own_settings
from tests.support.local_servers import SHOWN
from tests.support.ports import ReservedPort

PAGES = Path(__file__).parents[2] / "docs" / "tutorials"
COLUMNS = "150"
_TRIES = 20
VALUE = "0123456789abcdef" * 2  # of every key

# The programs of others that a page names: an agent sends one request with the model it was given.
_AGENT = """\
#!{python}
import json, os, re, sys
from urllib.request import Request, urlopen
known = " ".join(sys.argv) + json.dumps(dict(os.environ))
if "--version" in sys.argv:
    sys.exit("0.0.0")
[base_url] = {{url for url in re.findall(r"http://127[.]0[.]0[.]1:\\d+", known)}} - {{"{provider}"}}
model = re.search(r"(?:deepseek|ollama)/[\\w.:-]+", known)[0]
headers = {{"content-type": "application/json", "authorization": "Bearer none"}}
headers["session-id"] = headers["x-claude-code-session-id"] = "thread-" + str(os.getpid())
body = json.dumps({{"model": model, "input": "Hello"}}).encode()
urlopen(Request(base_url + "/v1/responses", data=body, headers=headers)).read()
"""
_ANTIPHON = '#!/bin/sh\nexec {python} -m antiphon.cli.main "$@"\n'


class Block(NamedTuple):
    """A block of a page: a configuration (`toml`), commands (`sh`), or output (no language)."""

    language: str
    text: str


def read_blocks(page: str) -> list[Block]:
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    found = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [Block(language, textwrap.dedent(block)) for language, block in found]


def read_inline_commands(page: str) -> list[str]:
    """The commands of `antiphon` within the sentences of a page."""
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    prose = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`(antiphon [^`]+)`", prose)


# --- providers ------------------------------------------------------------------------------------

Choose: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Makes the choice of a Chat Completions response, or an error, for a request."""


def say(text: str) -> dict[str, Any]:
    return {"delta": {"content": text}, "finish_reason": "stop"}


def call(name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    calls = [{"index": 0, "id": "call_1", "type": "function", "function": function}]
    return {"delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}


def fail(message: str, code: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": code}}


def greet(request: Mapping[str, Any]) -> dict[str, Any]:
    return say("Hello! How can I help you?")


class _Provider(BaseHTTPRequestHandler):
    """Chat Completions and Ollama's own API; `reply` makes the choice for a request."""

    reply: Choose

    def do_GET(self) -> None:
        models = [{"id": "deepseek-v4-pro", "object": "model"}]
        pulled = {"models": [{"name": "qwen3:8b"}]}
        listed = pulled if self.path == "/api/tags" else {"object": "list", "data": models}
        self._send(200, "application/json", json.dumps(listed))

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/api/show":
            self._send(200, "application/json", json.dumps(SHOWN[request["model"]]))
        elif self.path == "/api/chat":
            text = type(self).reply(request)["delta"]["content"]
            self._send(200, "application/x-ndjson", _write_ollama(request["model"], text))
        else:
            choice = type(self).reply(request)
            status = 400 if "error" in choice else 200
            kind = "application/json" if "error" in choice else "text/event-stream"
            self._send(status, kind, _write_chat(choice))

    def _send(self, status: int, kind: str, body: str) -> None:
        data = body.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        return


def _write_chat(choice: Mapping[str, Any]) -> str:
    if "error" in choice:
        return json.dumps(choice)
    usage = {"prompt_tokens": 11_204, "completion_tokens": 31, "total_tokens": 11_235}
    chunks = [{"choices": [{"index": 0, **choice}]}, {"choices": [], "usage": usage}]
    return "".join(f"data: {json.dumps(each)}\n\n" for each in chunks) + "data: [DONE]\n\n"


def _write_ollama(model: str, text: str) -> str:
    begun = {"model": model, "message": {"role": "assistant", "content": text}, "done": False}
    ended = {"model": model, "message": {"role": "assistant", "content": ""}, "done": True}
    counts = {"done_reason": "stop", "prompt_eval_count": 17, "eval_count": 9}
    return "".join(json.dumps(each) + "\n" for each in (begun, {**ended, **counts}))


@contextmanager
def provider(reply: Choose = greet) -> Iterator[str]:
    """Run a provider; yield its address."""
    handler = type("Provider", (_Provider,), {"reply": staticmethod(reply)})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


# --- a reader -------------------------------------------------------------------------------------


class Reader:
    """Somebody who follows a page on a machine of their own.

    The requests of `providers` go to `address`; where the page names the usual port, another one
    is used. `ids` replaces the ids of requests that the page shows as an example.
    """

    def __init__(
        self, home: Path, address: str, providers: Sequence[str], stack: ExitStack
    ) -> None:
        self.home = home
        port = ReservedPort()
        stack.callback(port.release)
        self.port = port.number
        self.ids: dict[str, str] = {}
        self.gateway: Terminal | None = None
        self._address = address
        self._providers = providers
        self._stack = stack
        self._variables = {"COLUMNS": COLUMNS, "PATH": f"{home}/bin:{os.environ['PATH']}"}
        self._commands = ""
        self._printed = ""
        self._write_programs()
        own_settings(home).write_text(self.complete(""))

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def printed(self) -> str:
        """The output of the last commands."""
        return self._printed

    def follow(self, block: Block) -> None:
        """Do what a block says."""
        if block.language == "toml":
            (self.home / "antiphon.toml").write_text(self.complete(block.text))
        elif block.language == "sh":
            self._run_commands(block.text)
        else:
            self._look_for(block.text)

    def _look_for(self, shown: str) -> None:
        """Look for output in what was printed; requests appear in lists a moment after they end."""
        for _ in range(_TRIES):
            missing = find_missing(shown, self._printed, self._read_gateway())
            if not missing:
                break
            if re.match("antiphon (trace list|usage)", self._commands):
                self._run_commands(self._commands)
            elif self.gateway is None or not self.gateway.read_more():
                break
        printed = f"{self._printed}\n{self._read_gateway()}"
        assert missing == [], f"these lines are not printed; there is:\n{printed}"

    def complete(self, settings: str) -> str:
        """Add the addresses of the test to a configuration."""
        local = {"server": f"port = {self.port}"}
        for name in self._providers:
            local[f"providers.{name}"] = f'base_url = "{self._address}"'
        for name, line in local.items():
            table = f"[{name}]\n"
            if table not in settings:
                settings += f"\n{table}"
            settings = settings.replace(table, f"{table}{line}\n")
        return settings

    def set(self, **variables: str) -> None:
        self._variables.update(variables)

    def _write_programs(self) -> None:
        programs = {"antiphon": _ANTIPHON, "codex": _AGENT, "claude": _AGENT, "ollama": "#!/bin/sh"}
        (self.home / "bin").mkdir()
        for name, text in programs.items():
            path = self.home / "bin" / name
            path.write_text(text.format(python=sys.executable, provider=self._address))
            path.chmod(0o755)

    def _run_commands(self, text: str) -> None:
        self._commands = text
        self._printed = ""
        for command in text.replace("\\\n", " ").splitlines():
            for shown, real in {"http://127.0.0.1:8484": self.base_url, **self.ids}.items():
                command = command.replace(shown, real)
            if command.startswith("export PATH="):
                continue  # the command is on the path already
            if command.startswith("export "):
                for word in command.split()[1:]:
                    name, equals, _ = word.partition("=")
                    if not equals:
                        break  # a comment
                    self._variables[name] = f"{name}-{VALUE}"
            elif command.startswith("antiphon serve"):
                self.start_gateway(command)
            else:
                self._printed += self.run(command)

    def start_gateway(self, command: str = "antiphon serve") -> None:
        started = f"exec {command}"  # the gateway is the process that is ended afterwards
        opened = on_terminal(self.home, started, command=("sh", "-c"), **self._variables)
        self.gateway = self._stack.enter_context(opened)
        self.gateway.wait_for("Press Ctrl-C to stop.")

    def run(self, command: str) -> str:
        """Run a command to its end; return what it prints."""
        opened = on_terminal(self.home, command, command=("sh", "-c"), **self._variables)
        with opened as terminal:
            if " setup" in command:
                terminal.type("y")  # it shows a difference, and asks
            assert terminal.wait() == 0, terminal.plain
        return terminal.plain

    def _read_gateway(self) -> str:
        return self.gateway.plain if self.gateway else ""


@contextmanager
def reader(
    home: Path, address: str, providers: Sequence[str] = ("deepseek",), **variables: str
) -> Iterator[Reader]:
    with ExitStack() as stack:
        following = Reader(home, address, providers, stack)
        following.set(**variables)
        yield following


# --- output ---------------------------------------------------------------------------------------


def find_missing(shown: str, *printed: str) -> Sequence[str]:
    """Find the lines of a page that nothing printed: in their order, and apart from numbers, ids,
    names of files and the width of columns. `…` at the end stands for the rest of a line."""
    lines = [line for line in shown.splitlines() if line.strip()]
    return min((_find_missing(lines, text) for text in printed), key=len)


def _find_missing(lines: Sequence[str], printed: str) -> list[str]:
    left = iter([_shape(line) for line in printed.splitlines()])
    return [line for line in lines if not any(_matches(_shape(line), each) for each in left)]


def _matches(shown: str, printed: str) -> bool:
    return printed.startswith(shown[:-1].strip()) if shown.endswith("…") else printed == shown


def _shape(line: str) -> str:
    line = re.sub(r"[│╭╮╰╯─]", " ", line)
    line = re.sub(r"…[0-9a-f]{8}", "…id", line)
    line = re.sub(r"/\S+/antiphon\.toml", "FILE", line)
    line = re.sub(r"\d[\d,.:]*( ms\b| s\b|k\b)?", "0", line)
    return " ".join(re.sub(r"[█▏▎▍▌▋▊▉]+", "█", line).split())
