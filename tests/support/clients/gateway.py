"""The real gateway in front of a scripted model, and real clients in subprocesses.

replies = [Reply(calls=[Call("add", {"a": 1})]), Reply("Two.")]
async with client_gateway(tmp_path, dialect, replies) as setup:
    done = await setup.run([python_command(), "program.py"])
    assert done.check_success().out == "Two."
    assert setup.requests[1].results == ["2"]
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from antiphon.config import AttemptConfig, Config, ModelConfig, ProviderConfig
from tests.support.clients.provider_requests import ProviderRequest
from tests.support.clients.scenario import Transport
from tests.support.clients.scripted_model import Dialect, Script, ScriptedModel
from tests.support.gateways import Running, replaced, running, settings
from tests.support.upstream import upstream

MODEL = "scripted"
"""The model name that clients request: of no vendor, so that no client has settings for it."""
KEY = "sk-of-a-client"
OFFLINE = {
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1",
}
"""Environment of a client that would look for updates: no process listens on this port."""
_SOURCE = Path(__file__).parents[3] / "src"
_BEHIND: Mapping[Dialect, str] = {
    "chat": "some-model",
    "anthropic": "claude-opus-4-6",
    "gemini": "gemini-3-flash-preview",
    "responses": "some-model",
}


@dataclass(frozen=True)
class FinishedProcess:
    """A client process that has exited."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Its output lines that are JSON objects."""
        return [json.loads(line) for line in self.out.splitlines() if line.startswith("{")]

    def check_success(self) -> FinishedProcess:
        """Return itself; raise AssertionError unless the exit status is 0."""
        assert self.status == 0, self.report
        return self

    @property
    def report(self) -> str:
        return f"exit status {self.status}\n{self.out[-4000:]}\n{self.err[-4000:]}"


@dataclass(frozen=True)
class ClientSetup:
    """A scripted model, and a client that can reach it by way of Antiphon."""

    model: ScriptedModel
    home: Path
    """The home directory of the client: empty at first, and removed after the test."""
    address: Mapping[str, str]
    """The environment variables by which the client finds Antiphon."""

    @property
    def requests(self) -> list[ProviderRequest]:
        """Requests that the scripted model received."""
        return self.model.requests

    def environment(self, **more: str) -> dict[str, str]:
        """Environment of a client: PATH alone is inherited."""
        return {
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PATH": os.environ["PATH"],
            "TZ": "UTC",
            "NO_COLOR": "1",
            "OPENAI_API_KEY": KEY,
            "MODEL": MODEL,
            **self.address,
            **more,
        }

    async def run(
        self,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: str = "",
        limit_s: float = 180.0,
    ) -> FinishedProcess:
        """Run a client to its end; `env` is added to the environment."""
        process = await asyncio.create_subprocess_exec(
            *argv,
            env=self.environment(**(env or {})),
            cwd=cwd or self.home,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(limit_s):
                out, err = await process.communicate(stdin.encode())
        except TimeoutError:
            heard = [each.messages[-1:] for each in self.requests]
            raise AssertionError(f"{argv[0]} takes longer than {limit_s} s; {heard=}") from None
        finally:
            with contextlib.suppress(ProcessLookupError):  # and its child processes
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        assert process.returncode is not None
        return FinishedProcess(process.returncode, out.decode(), err.decode())


@dataclass(frozen=True)
class ClientGateway(ClientSetup):
    """A gateway that listens on a port."""

    gateway: Running
    base_url: str
    """The URL of the gateway for the client."""


@asynccontextmanager
async def client_gateway(
    tmp_path: Path,
    dialect: Dialect,
    script: Script,
    *,
    attempts: int = 1,
    same_format: bool = False,
    **model: Any,
) -> AsyncIterator[ClientGateway]:
    """Open a gateway whose only provider has this dialect; `model` configures its model, or
    is passed on to `configured`.

    At the end every step of the script must have been used, and every request must have been valid
    for a real provider. `same_format`: the client speaks the provider's own format, and its
    requests arrive as they were, whatever they have.
    """
    async with scripted_upstream(dialect, script, same_format=same_format) as (scripted, url):
        config = configured(tmp_path, url, dialect, attempts=attempts, **model)
        async with running(config) as gateway:
            address = {"OPENAI_BASE_URL": gateway.base_url}
            yield ClientGateway(scripted, _home(tmp_path), address, gateway, gateway.base_url)


@asynccontextmanager
async def client_setup(
    tmp_path: Path, dialect: Dialect, transport: Transport, script: Script
) -> AsyncIterator[ClientSetup]:
    """Open a gateway for the client, or let the client open one in its own process."""
    if transport == "http":
        async with client_gateway(tmp_path, dialect, script) as gateway:
            yield gateway
        return
    async with scripted_upstream(dialect, script) as (scripted, url):
        config = tmp_path / "antiphon.toml"
        config.write_text(_in_process_config(url, dialect), encoding="utf-8")
        yield ClientSetup(scripted, _home(tmp_path), in_process(config, url))


def in_process(config: Path, upstream_url: str = "") -> dict[str, str]:
    """Return the address of a gateway in the process of the client.

    The client may connect to the upstream alone, and may not open a port."""
    port = str(urlsplit(upstream_url).port or "")
    return {"IN_PROCESS": str(config), "UPSTREAM_PORT": port, "PYTHONPATH": str(_SOURCE)}


@asynccontextmanager
async def scripted_upstream(
    dialect: Dialect, script: Script, *, same_format: bool = False
) -> AsyncIterator[tuple[ScriptedModel, str]]:
    """Serve a scripted model; in the end, all of its script must have been used."""
    scripted = ScriptedModel(dialect, script)
    async with upstream(scripted) as server:
        yield scripted, server.url
    assert same_format or scripted.problems == []
    assert scripted.is_finished, "the client sent fewer requests than the script has steps"


def _home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


def _in_process_config(url: str, dialect: Dialect) -> str:
    behind = _BEHIND[dialect]
    replay = 'replay_reasoning = "always"\n' if dialect == "chat" else ""
    return (
        f'[providers.up]\nkind = "{dialect}"\nbase_url = "{url}"\napi_keys = ["sk-upstream"]\n'
        f'[providers.up.models."{behind}"]\n{replay}'
        f'[models]\n{MODEL} = "up/{behind}"\n'
        "[attempts]\nmax_attempts = 1\nbackoff_s = 0.1\n"
    )


def configured(
    tmp_path: Path,
    url: str,
    dialect: Dialect,
    *,
    attempts: int = 1,
    websocket: bool = True,
    keepalive_s: float = 15.0,
    **model: Any,
) -> Config:
    behind = _BEHIND[dialect]
    if dialect == "chat":
        model = {"replay_reasoning": "always", **model}
    provider = ProviderConfig(
        kind=dialect,
        base_url=url,
        api_keys=["sk-upstream"],
        models={behind: ModelConfig(**model)},
    )
    return replaced(
        settings(
            tmp_path,
            url,
            websocket=websocket,
            keepalive_s=keepalive_s,
            commit_after_s=keepalive_s,
        ),
        providers={"up": provider},
        models={MODEL: f"up/{behind}"},
        attempts=AttemptConfig(max_attempts=attempts, backoff_s=0.1),
    )
