"""Model servers on this machine: Ollama, LM Studio, vLLM and llama.cpp at their usual addresses.

They are asked once, when a command starts, each for a short time. A server that does not answer, or
answers as another program would, is not there (docs/adr/0096).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import urlsplit

import aiohttp
from msgspec.structs import replace

from antiphon.config import Config, ProviderConfig
from antiphon.engine.connections import open_session
from antiphon.engine.discovery.model_lists import fetch_models, fetch_owners
from antiphon.errors import DiscoveryError
from antiphon.providers.dialect_plugins import make_dialect
from antiphon.providers.registry import Provider, known_specs

SWITCH = "ANTIPHON_LOCAL_SERVERS"
"""The variable that turns the search off: `off`, `false`, `no` or `0`."""
PATIENCE_S = 1.0
_OLLAMA_PORT = 11434
_OWNERS = {"vllm": "vllm", "llamacpp": "llamacpp"}
"""What the lists of these servers say of who owns a model: other programs use their ports, too."""
_KINDS = ("ollama", "lmstudio", *_OWNERS)


def is_searched(config: Config, environment: Mapping[str, str]) -> bool:
    """Whether local servers are looked for."""
    is_off = environment.get(SWITCH, "").lower() in ("off", "false", "no", "0")
    return config.discovery.local_servers and config.providers_from_environment and not is_off


async def add_local_servers(config: Config, environment: Mapping[str, str]) -> Config:
    """Return the configuration with the servers that were found, and their models."""
    if not is_searched(config, environment):
        return config
    candidates = _list_candidates(config, environment)
    async with open_session() as session:
        replies = await asyncio.gather(*(_find(session, each) for each in candidates))
    found = {each.name: reply for each, reply in zip(candidates, replies, strict=True) if reply}
    return replace(config, local=found)


def _list_candidates(config: Config, environment: Mapping[str, str]) -> list[Provider]:
    """The usual address of each server, or the one that is configured. An entry with another name
    takes the place of the usual one."""
    specs = known_specs()
    entries = {
        name: entry for name, entry in config.providers.items() if (entry.kind or name) in _KINDS
    }
    configured = {entry.kind or name for name, entry in entries.items()}
    usual = {kind: ProviderConfig() for kind in _KINDS if kind not in configured}
    return [
        Provider(
            name=name,
            spec=specs[entry.kind or name],
            dialect=make_dialect(specs[entry.kind or name]),
            base_url=find_base_url(entry.kind or name, entry, environment),
            api_keys=tuple(entry.api_keys),
            headers=entry.headers,
        )
        for name, entry in {**entries, **usual}.items()
    ]


def find_base_url(kind: str, entry: ProviderConfig, environment: Mapping[str, str]) -> str:
    """The configured address, for Ollama that of `OLLAMA_HOST`, or the usual one."""
    host = environment.get("OLLAMA_HOST", "") if kind == "ollama" else ""
    usual = read_ollama_host(host) or known_specs()[kind].base_url
    return (entry.base_url or usual).rstrip("/")


def read_ollama_host(value: str) -> str:
    """Read `OLLAMA_HOST` as Ollama does: `host`, `host:port`, `:port` or a URL. An address on which
    a server listens everywhere is reached on the loopback. Empty if there is no address in it."""
    if not value.strip():
        return ""
    has_scheme = "://" in value
    try:
        parts = urlsplit(value.strip() if has_scheme else f"http://{value.strip()}")
        port = parts.port
    except ValueError:
        return ""
    usual = {"http": 80, "https": 443}.get(parts.scheme, 80) if has_scheme else _OLLAMA_PORT
    host = parts.hostname or "127.0.0.1"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}:{port or usual}{parts.path.rstrip('/')}"


async def _find(session: aiohttp.ClientSession, provider: Provider) -> ProviderConfig | None:
    """Ask one server for its models; None if it is not there, or has none."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            owner = _OWNERS.get(provider.spec.name)
            if owner is not None and owner not in await fetch_owners(session, provider):
                return None
            models = await fetch_models(session, provider)
    except (DiscoveryError, TimeoutError):
        return None
    if not models:
        return None
    return ProviderConfig(kind=provider.spec.name, base_url=provider.base_url, models=models)
