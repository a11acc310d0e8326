"""Lists of models: how a provider is asked for its models, and what it says of them.

A server on one's own machine also says what a model can do: those that only make embeddings are not
offered, and the others have the capabilities that it reports.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeGuard

import aiohttp
import msgspec

from antiphon.config import ModelConfig
from antiphon.core.plan.plan import Outbound
from antiphon.errors import DiscoveryError
from antiphon.providers.registry import Provider
from antiphon.providers.spec import parse_efforts

TIMEOUT_S = 5.0
_MAX_BYTES = 16 * 1024 * 1024
_MAX_MODELS = 2000
_MAX_DESCRIBED = 64  # models of an Ollama server that are asked for one by one
_MAX_NAME = 200
_UNREADABLE = (ValueError, RecursionError)  # of a body that is no JSON, or nested too deeply


class _ListFormat(NamedTuple):
    path: str
    field: str
    """The member that holds the list."""
    name: str
    """The member of an entry that holds the name of the model."""


_OPENAI = _ListFormat("/models", "data", "id")
_FORMATS: Mapping[str, _ListFormat] = {
    "chat": _OPENAI,
    "responses": _OPENAI,
    "ollama": _ListFormat("/api/tags", "models", "name"),
}
_THINKING = parse_efforts("false true true true true true true")
"""Efforts of a model that can think, and be told not to."""


def has_model_list(provider: Provider) -> bool:
    """Whether a provider can be asked for its models."""
    spec = provider.spec
    is_called = not spec.in_process and spec.auth.scheme != "sigv4"
    return is_called and spec.any_model and spec.dialect in _FORMATS


async def fetch_models(
    session: aiohttp.ClientSession, provider: Provider
) -> dict[str, ModelConfig]:
    """Ask a provider for its models and for what it says of each; raises `DiscoveryError`."""
    kind = _FORMATS[provider.spec.dialect]
    if provider.spec.name == "lmstudio":
        with suppress(DiscoveryError):  # before LM Studio 0.3.6 there is only the list below
            return await _fetch_lmstudio(session, provider)
    body = await _get(session, provider, kind.path)
    entries = read_entries(kind.field, kind.name, body)
    if provider.spec.dialect == "ollama":
        return await _describe_ollama(session, provider, [*entries])
    return {name: _read_openai(entry) for name, entry in entries.items()}


async def fetch_owners(session: aiohttp.ClientSession, provider: Provider) -> set[str]:
    """Ask who owns the models of an OpenAI list: a server writes its own name there."""
    body = await _get(session, provider, _OPENAI.path)
    entries = read_entries(_OPENAI.field, _OPENAI.name, body)
    return {str(entry.get("owned_by")) for entry in entries.values()}


async def _get(
    session: aiohttp.ClientSession, provider: Provider, path: str, root: str = ""
) -> bytes:
    """Read a document; `root` replaces the base URL."""
    outbound = Outbound(path=path, body=b"")
    url = f"{root}{path}" if root else provider.request_url(outbound)
    return await _ask(session, provider, "GET", url, outbound)


async def _ask(
    session: aiohttp.ClientSession, provider: Provider, method: str, url: str, outbound: Outbound
) -> bytes:
    key = next(iter(provider.api_keys), "")
    headers = {**provider.authorization(key, outbound, str), **provider.headers}
    body = outbound.body or None
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            session.request(
                method, url, headers=headers, data=body, allow_redirects=False
            ) as response,
        ):
            if response.status != 200:
                raise DiscoveryError(f"{provider.address} responded with status {response.status}")
            data = await response.content.read(_MAX_BYTES)
            while not response.content.at_eof() and len(data) < _MAX_BYTES:
                data += await response.content.read(_MAX_BYTES - len(data))
    except TimeoutError as error:
        raise DiscoveryError(f"{provider.address} sent no list in {TIMEOUT_S:g} seconds") from error
    except (aiohttp.ClientError, OSError) as error:
        raise DiscoveryError(f"{provider.address} cannot be reached") from error
    return data


def read_entries(field: str, name: str, body: bytes) -> dict[str, Mapping[str, Any]]:
    """Read the entries of a list by name; those without a usable name are left out."""
    try:
        document: Any = msgspec.json.decode(body)
    except _UNREADABLE as error:
        raise DiscoveryError("the list of models is not JSON") from error
    entries = document.get(field) if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise DiscoveryError(f"the list of models has no `{field}`")
    found: dict[str, Mapping[str, Any]] = {}
    for entry in entries:
        if isinstance(entry, dict) and _is_name(entry.get(name)) and len(found) < _MAX_MODELS:
            found.setdefault(entry[name], entry)
    return found


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= _MAX_NAME and value.isprintable()


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and value > 0


def _read_openai(entry: Mapping[str, Any]) -> ModelConfig:
    """Read an entry of an OpenAI list; vLLM adds the context window that it was started with."""
    window = entry.get("max_model_len")
    return ModelConfig(context_window=window if _is_count(window) else None)


# LM Studio has a list of its own: https://lmstudio.ai/docs/developer/rest (2026-11)


async def _fetch_lmstudio(
    session: aiohttp.ClientSession, provider: Provider
) -> dict[str, ModelConfig]:
    root = provider.base_url.removesuffix("/v1")
    body = await _get(session, provider, "/api/v0/models", root)
    entries = read_entries("data", "id", body)
    return {
        name: _read_lmstudio(entry)
        for name, entry in entries.items()
        if entry.get("type") != "embeddings"
    }


def _read_lmstudio(entry: Mapping[str, Any]) -> ModelConfig:
    windows = (entry.get("loaded_context_length"), entry.get("max_context_length"))
    can = entry.get("capabilities")
    return ModelConfig(
        context_window=next(filter(_is_count, windows), None),
        inputs=["text", "image"] if entry.get("type") == "vlm" else ["text"],
        tools="tool_use" in can if isinstance(can, list) else None,
    )


# Ollama describes each model on request: https://docs.ollama.com/api (2026-11)


async def _describe_ollama(
    session: aiohttp.ClientSession, provider: Provider, names: list[str]
) -> dict[str, ModelConfig]:
    described = names[:_MAX_DESCRIBED]
    replies = await asyncio.gather(*(_show_ollama(session, provider, name) for name in described))
    found = dict(zip(described, replies, strict=True))
    offered = {name: found.get(name, ModelConfig()) for name in names}
    return {name: settings for name, settings in offered.items() if settings is not None}


async def _show_ollama(
    session: aiohttp.ClientSession, provider: Provider, name: str
) -> ModelConfig | None:
    """Ask what a model can do; None if it generates no text."""
    body = msgspec.json.encode({"model": name})
    outbound = Outbound(path="/api/show", body=body)
    try:
        url = provider.request_url(outbound)
        document = msgspec.json.decode(await _ask(session, provider, "POST", url, outbound))
    except (DiscoveryError, *_UNREADABLE):
        return ModelConfig()  # the list names it: it is offered with the capabilities of its data
    return _read_ollama(document, provider, name) if isinstance(document, dict) else ModelConfig()


def _read_ollama(document: Mapping[str, Any], provider: Provider, name: str) -> ModelConfig | None:
    can = document.get("capabilities")
    if not isinstance(can, list):  # a server of before 2025-05
        return ModelConfig(context_window=_read_ollama_window(document))
    if "completion" not in can:
        return None
    known = provider.spec.capabilities_of(name).efforts
    efforts = {effort: value or "" for effort, value in known.items()}
    return ModelConfig(
        context_window=_read_ollama_window(document),
        inputs=["text", "image"] if "vision" in can else ["text"],
        tools="tools" in can,
        efforts=(efforts or _THINKING) if "thinking" in can else {},
    )


def _read_ollama_window(document: Mapping[str, Any]) -> int | None:
    info = document.get("model_info")
    if not isinstance(info, dict):
        return None
    window = info.get(f"{info.get('general.architecture')}.context_length")
    return window if _is_count(window) else None
