"""A gateway in front of a scripted provider, with validation of all its output."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon.config import ProviderConfig, StoreConfig
from tests.support import openai_sdk_check
from tests.support.gateways import Running, replaced, running, settings
from tests.support.stream_validator import check
from tests.support.upstream import Script, Upstream, upstream

Document = dict[str, Any]


@dataclass
class CheckedGateway:
    """A gateway and its scripted provider."""

    gateway: Running
    upstream: Upstream

    @property
    def last_body(self) -> Document:
        """The body of the last request to the provider."""
        return self.upstream.requests[-1].body

    async def stream(self, **body: Any) -> list[Document]:
        """Return all events of a streamed answer, validated."""
        return check_events(await self.gateway.stream({"model": "m", "input": "Hello?", **body}))

    async def whole(self, **body: Any) -> Document:
        """Return a whole answer with status 200."""
        status, _, document = await self.post(**body)
        assert (status, type(document)) == (200, dict), document
        return {**document}

    async def post(self, **body: Any) -> tuple[int, Mapping[str, str], Any]:
        return await self.gateway.post({"model": "m", "input": "Hello?", **body})


@asynccontextmanager
async def checked_gateway(
    tmp_path: Path, script: Script, **changes: Any
) -> AsyncIterator[CheckedGateway]:
    """Open a gateway whose default provider is `up`: any model name is routed to it."""
    async with (
        upstream(script) as server,
        running(settings(tmp_path, server.url, **changes)) as gateway,
    ):
        yield CheckedGateway(gateway, server)


@asynccontextmanager
async def configured(
    tmp_path: Path, script: Script, *, store: StoreConfig | None = None, **provider: Any
) -> AsyncIterator[CheckedGateway]:
    """Open a gateway with another store or other settings of its provider."""
    async with upstream(script) as server:
        entry = ProviderConfig(base_url=server.url, api_keys=["k"], **{"kind": "chat", **provider})
        config = replaced(settings(tmp_path, server.url), providers={"up": entry})
        config = config if store is None else replaced(config, store=store)
        async with running(config) as gateway:
            yield CheckedGateway(gateway, server)


def check_events(events: list[Document]) -> list[Document]:
    """Return the same events after both validators have accepted them."""
    check(events)
    openai_sdk_check.check_with_sdk(events)
    return events


def event_types(events: list[Document]) -> list[str]:
    return [event["type"] for event in events]


def final_response(events: list[Document]) -> Document:
    """The response in the terminal event."""
    response: Document = events[-1]["response"]
    return response


def items_of_type(events: list[Document], kind: str) -> list[Document]:
    """Items of one type in the final output."""
    return [item for item in final_response(events)["output"] if item["type"] == kind]


def done_items(events: list[Document]) -> list[Document]:
    """Items of `response.output_item.done` events, in order."""
    return [event["item"] for event in events if event["type"] == "response.output_item.done"]


def text(response: Document) -> str:
    """The text of all messages of a response."""
    messages = [item for item in response["output"] if item["type"] == "message"]
    return "".join(part.get("text", "") for item in messages for part in item["content"])


def deltas(events: list[Document], kind: str) -> list[str]:
    return [event["delta"] for event in events if event["type"] == f"response.{kind}.delta"]
