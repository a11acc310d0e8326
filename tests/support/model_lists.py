"""A server that answers with a list of models, and the lists of well-known servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aiohttp import web


@dataclass
class ListServer:
    """What it answers, and what it was asked."""

    body: bytes
    status: int = 200
    gate: asyncio.Event | None = None
    """It answers no request before this event."""
    url: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Path and `Authorization` of each request."""

    async def handle(self, request: web.BaseRequest) -> web.Response:
        self.asked.append((request.path, request.headers.get("authorization", "")))
        if self.gate is not None:
            await self.gate.wait()
        return web.Response(body=self.body, status=self.status)


@asynccontextmanager
async def list_server(server: ListServer) -> AsyncIterator[ListServer]:
    runner = web.ServerRunner(web.Server(server.handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


class KnownServer(NamedTuple):
    """A kind of server: where its list is, and what is in it."""

    base: str
    """The path of the base URL."""
    path: str
    """The path of the list."""
    names: tuple[str, ...]
    document: Any
    needs_key: bool = False


def _openai(**more: Any) -> dict[str, Any]:
    return {"object": "model", "created": 1793000000, **more}


def _list(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"object": "list", "data": [*entries], **more}


def _tag(name: str) -> dict[str, Any]:
    """An entry in the list of Ollama; llama.cpp has them as well."""
    details = {"format": "gguf", "family": "llama", "families": None, "quantization_level": "Q4_0"}
    times = {"modified_at": "2026-11-01T10:00:00Z", "size": 2019393189, "digest": "a80c"}
    return {"name": name, "model": name, **times, "details": details}


_PERMISSION = {"id": "modelperm-1", "object": "model_permission", "allow_sampling": True}
_PRICES = {"prompt": "0.00000005", "completion": "0.00000024", "request": "0"}

SERVERS = {
    "ollama": KnownServer(
        *("", "/api/tags", ("llama3.2:latest", "qwen3:8b")),
        {"models": [_tag("llama3.2:latest"), _tag("qwen3:8b")]},
    ),
    "lmstudio": KnownServer(
        *("/v1", "/api/v0/models", ("qwen/qwen3-4b", "text-embedding-nomic-embed-text-v1.5")),
        _list(
            {"id": "qwen/qwen3-4b", "object": "model", "owned_by": "organization_owner"},
            {"id": "text-embedding-nomic-embed-text-v1.5", "object": "model"},
        ),
    ),
    "vllm": KnownServer(
        *("/v1", "/v1/models", ("meta-llama/Llama-3.1-8B-Instruct", "sql-adapter")),
        _list(
            _openai(
                id="meta-llama/Llama-3.1-8B-Instruct",
                owned_by="vllm",
                root="meta-llama/Llama-3.1-8B-Instruct",
                parent=None,
                max_model_len=131072,
                permission=[_PERMISSION],
            ),
            _openai(id="sql-adapter", parent="meta-llama/Llama-3.1-8B-Instruct", permission=[]),
        ),
    ),
    "openrouter": KnownServer(
        *("/api/v1", "/api/v1/models", ("openai/gpt-oss-120b:free",)),
        {
            "data": [
                {
                    "id": "openai/gpt-oss-120b:free",
                    "canonical_slug": "openai/gpt-oss-120b",
                    "name": "OpenAI: gpt-oss-120b (free)",
                    "context_length": 131072,
                    "architecture": {"input_modalities": ["text"], "instruct_type": None},
                    "pricing": _PRICES,
                    "supported_parameters": ["reasoning", "tools"],
                }
            ]
        },
        needs_key=True,
    ),
    "llamacpp": KnownServer(
        *("/v1", "/v1/models", ("gpt-oss-20b-mxfp4.gguf",)),
        _list(
            _openai(id="gpt-oss-20b-mxfp4.gguf", owned_by="llamacpp", meta={"n_ctx_train": 131072}),
            models=[_tag("another name of it")],
        ),
    ),
}
