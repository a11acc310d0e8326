"""Model lists of providers: where each dialect has one, how it is requested and read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeGuard

import aiohttp
import msgspec

from antiphon.core.plan.plan import Outbound
from antiphon.errors import DiscoveryError
from antiphon.providers.registry import Provider

TIMEOUT_S = 5.0
_MAX_BYTES = 16 * 1024 * 1024
_MAX_MODELS = 2000
_MAX_NAME = 200


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


def has_model_list(provider: Provider) -> bool:
    """Whether a provider can be asked for its models."""
    spec = provider.spec
    is_called = not spec.in_process and spec.auth.scheme != "sigv4"
    return is_called and spec.any_model and spec.dialect in _FORMATS


async def fetch_models(session: aiohttp.ClientSession, provider: Provider) -> list[str]:
    """Ask a provider for its models; raises `DiscoveryError`."""
    kind = _FORMATS[provider.spec.dialect]
    outbound = Outbound(path=kind.path, body=b"")
    key = next(iter(provider.api_keys), "")
    headers = {**provider.authorization(key, outbound, str), **provider.headers}
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            session.get(
                provider.request_url(outbound), headers=headers, allow_redirects=False
            ) as answer,
        ):
            if answer.status != 200:
                raise DiscoveryError(f"{provider.address} answered {answer.status}")
            body = await answer.content.read(_MAX_BYTES)
            while not answer.content.at_eof() and len(body) < _MAX_BYTES:
                body += await answer.content.read(_MAX_BYTES - len(body))
    except TimeoutError as error:
        raise DiscoveryError(f"{provider.address} sent no list in {TIMEOUT_S:g} seconds") from error
    except (aiohttp.ClientError, OSError) as error:
        raise DiscoveryError(f"{provider.address} cannot be reached") from error
    return read_models(kind.field, kind.name, body)


def read_models(field: str, name: str, body: bytes) -> list[str]:
    """Read the names in a list; entries that are none are left out."""
    try:
        document: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DiscoveryError("the list of models is not JSON") from error
    entries = document.get(field) if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise DiscoveryError(f"the list of models has no `{field}`")
    names = (each.get(name) for each in entries if isinstance(each, dict))
    return [*dict.fromkeys(filter(_is_name, names))][:_MAX_MODELS]


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= _MAX_NAME and value.isprintable()
