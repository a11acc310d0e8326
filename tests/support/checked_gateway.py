"""A gateway in front of a scripted provider, and a judge for everything that leaves it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon.config import ProviderConfig, StoreConfig
from tests.support import openai_sdk_check as oracle
from tests.support.gateways import Running, replaced, running, settings
from tests.support.stream_validator import check
from tests.support.upstream import Script, Upstream, upstream

Document = dict[str, Any]


@dataclass
class Scene:
    """Both ends of one conversation."""

    gateway: Running
    upstream: Upstream

    @property
    def sent(self) -> Document:
        """The body of the last request that the provider got."""
        return self.upstream.asked[-1].body

    async def stream(self, **body: Any) -> list[Document]:
        """All events of a streamed answer, after both judges have seen them."""
        return judged(await self.gateway.stream({"model": "m", "input": "Hello?", **body}))

    async def whole(self, **body: Any) -> Document:
        """A whole answer that must be one."""
        status, _, document = await self.post(**body)
        assert (status, type(document)) == (200, dict), document
        return {**document}

    async def post(self, **body: Any) -> tuple[int, Mapping[str, str], Any]:
        return await self.gateway.post({"model": "m", "input": "Hello?", **body})


@asynccontextmanager
async def scene(tmp_path: Path, script: Script, **changes: Any) -> AsyncIterator[Scene]:
    """The provider is called `up`, and is the default: any model's name reaches it."""
    async with (
        upstream(script) as played,
        running(settings(tmp_path, played.url, **changes)) as gateway,
    ):
        yield Scene(gateway, played)


@asynccontextmanager
async def configured(
    tmp_path: Path, script: Script, *, store: StoreConfig | None = None, **provider: Any
) -> AsyncIterator[Scene]:
    """A scene with another store, or a provider of another kind or with other settings."""
    async with upstream(script) as played:
        entry = ProviderConfig(base_url=played.url, api_keys=["k"], **{"kind": "chat", **provider})
        config = replaced(settings(tmp_path, played.url), providers={"up": entry})
        config = config if store is None else replaced(config, store=store)
        async with running(config) as gateway:
            yield Scene(gateway, played)


def judged(events: list[Document]) -> list[Document]:
    """The same events, if they keep every rule and the official client reads them."""
    check(events)
    oracle.consult(events)
    return events


def kinds(events: list[Document]) -> list[str]:
    return [event["type"] for event in events]


def final(events: list[Document]) -> Document:
    """The response in the terminal event."""
    response: Document = events[-1]["response"]
    return response


def items(events: list[Document], kind: str) -> list[Document]:
    """Items of one type in the final output."""
    return [item for item in final(events)["output"] if item["type"] == kind]


def done(events: list[Document]) -> list[Document]:
    """The items a client may act upon, in order."""
    return [event["item"] for event in events if event["type"] == "response.output_item.done"]


def text(response: Document) -> str:
    """All the text of a response."""
    messages = [item for item in response["output"] if item["type"] == "message"]
    return "".join(part.get("text", "") for item in messages for part in item["content"])


def deltas(events: list[Document], kind: str) -> list[str]:
    return [event["delta"] for event in events if event["type"] == f"response.{kind}.delta"]
