"""A gateway with a real MCP server, and a scripted provider for each of three dialects."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import Config, McpConfig, McpServerConfig, ProviderConfig, TraceConfig
from tests.support.client_answers import Answer, post_request
from tests.support.demand_scripts import native_turns
from tests.support.gateways import Running, replaced, running, settings
from tests.support.scripted_providers.anthropic import ScriptedAnthropic
from tests.support.scripted_providers.chat import ScriptedChat
from tests.support.scripted_providers.gemini import ScriptedGemini
from tests.support.scripted_providers.scripted_provider import ScriptedProvider
from tests.support.scripted_providers.session import Call, Turn
from tests.support.upstream import Upstream, upstream

Document = dict[str, Any]
PROVIDERS: dict[str, tuple[ScriptedProvider, str]] = {
    "chat": (ScriptedChat(), "m"),
    "anthropic": (ScriptedAnthropic(), "claude-opus-4-6"),
    "gemini": (ScriptedGemini(), "gemini-3-pro"),
}
every_dialect = pytest.mark.parametrize("kind", PROVIDERS)
TOOL: Document = {"type": "mcp", "server_label": "tests", "require_approval": "never"}
ASKING: Document = {**TOOL, "require_approval": "always"}


def call(tool: str, **arguments: Any) -> Call:
    return Call(f"tests__{tool}", json.dumps(arguments, separators=(",", ":")), "")


GREET = Turn(1, thought="Greet her.", calls=(call("greet", name="Ada"),))
BOTH = Turn(1, thought="Two.", calls=(call("greet", name="Ada"), call("weather")))
DONE = Turn(2, thought="Done.", text="I have greeted her.")


@dataclass
class ServerGateway:
    gateway: Running
    upstreams: dict[str, Upstream]

    async def post(self, kind: str = "chat", **body: Any) -> Answer:
        """Post a streamed request to the model of a dialect; each request to it must be valid."""
        _, model = PROVIDERS[kind]
        fields = {"model": f"{kind}/{model}", "input": "Greet Ada.", "stream": True, **body}
        return await post_request(self.gateway, {"tools": [TOOL], **fields})

    def problems(self) -> list[str]:
        return [
            problem
            for kind, received in self.upstreams.items()
            for request in received.requests
            for problem in PROVIDERS[kind][0].problems(request.raw)
        ]


@asynccontextmanager
async def server_gateway(
    tmp_path: Path,
    url: str,
    turns: Mapping[str, Sequence[Turn]],
    mcp: McpConfig | None = None,
    trace: TraceConfig | None = None,
) -> AsyncIterator[ServerGateway]:
    """A gateway with the server `tests`, and a provider for each dialect that has turns."""
    async with AsyncExitStack() as stack:
        upstreams = {
            kind: await stack.enter_async_context(upstream(native_turns(PROVIDERS[kind][0], given)))
            for kind, given in turns.items()
        }
        config: Config = replaced(
            settings(tmp_path),
            providers={
                kind: ProviderConfig(kind=kind, base_url=each.url, api_keys=["sk-up"])
                for kind, each in upstreams.items()
            },
            default_provider=next(iter(upstreams), "echo"),
            mcp=mcp or McpConfig(servers={"tests": McpServerConfig(url=url)}),
            trace=trace or TraceConfig(path=str(tmp_path / "trace.db")),
        )
        gateway = await stack.enter_async_context(running(config))
        yield ServerGateway(gateway, upstreams)
