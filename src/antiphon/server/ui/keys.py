"""Keys of the page's API: client keys are made, limited and revoked, API keys of providers are
added, and the default model is chosen. They are written to the key file, and used after a reload;
no list ever has a key.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from antiphon.config import ClientLimitConfig
from antiphon.config.key_file import KeyFile, change_key_file, key_file_path, read_key_file
from antiphon.engine.services import INTERNAL_CLIENT
from antiphon.errors import ConfigError, InvalidRequest
from antiphon.providers.registry import known_specs
from antiphon.server.http import HTTPResponse, json_response
from antiphon.server.ui.page_request import PageRequest

PREFIX = "sk-antiphon-"
_KEY_BYTES = 24
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_RESERVED = {"admin", "local", INTERNAL_CLIENT}
_MAX_KEY = 1000
_FIRST_TEXT = (
    "# Created by the page, because antiphon.keys.json beside it belongs to a configuration file.\n"
    "# `antiphon check` validates it; every key is in docs/configuration.md.\n"
)


async def list_keys(request: PageRequest) -> HTTPResponse:
    """The names and limits of client keys, and the providers that a key can be added for."""
    config = request.process.setup.config
    path = _find_config(request)
    keys = KeyFile() if path is None else await asyncio.to_thread(_read, path)
    clients = [
        {"name": each, "limits": config.limits.clients.get(each), "made_here": each in keys.clients}
        for each in config.server.api_keys
    ]
    specs = known_specs().values()
    providers = [
        {"name": spec.name, "title": spec.title}
        for spec in sorted(specs, key=lambda each: each.title.lower())
        if spec.api_key_env and spec.base_url
    ]
    file = None if path is None else str(key_file_path(path))
    default = {"name": request.engine.router.default_name(), "in_file": "*" in config.models}
    return json_response(
        {"file": file, "clients": clients, "providers": providers, "default_model": default}
    )


async def make_client_key(request: PageRequest) -> HTTPResponse:
    """Make a client key. This response is the only place that has it."""
    body = await request.read_json()
    name = _read_name(body.get("name"), taken=request.process.setup.config.server.api_keys)
    limits = _read_limits(body.get("limits") or {})
    secret = PREFIX + request.exchange.services.runtime.new_nonce(_KEY_BYTES).hex()

    def change(keys: KeyFile) -> KeyFile:
        _read_name(name, taken=keys.clients)
        given = {**keys.limits, name: limits} if limits != ClientLimitConfig() else keys.limits
        return replace(keys, clients={**keys.clients, name: secret}, limits=given)

    await _change_keys(request, change)
    return json_response({"name": name, "key": secret})


async def revoke_client_key(request: PageRequest) -> HTTPResponse:
    """Remove a client key that was made on the page, with its limits."""
    name = request.id

    def change(keys: KeyFile) -> KeyFile:
        if name not in keys.clients:
            raise InvalidRequest(
                f"No client key with the name {name[:64]!r} was made here. A key of the"
                " configuration file is removed there.",
                param="name",
                code="not_found",
                status=404,
            )
        clients = {each: key for each, key in keys.clients.items() if each != name}
        limits = {each: limit for each, limit in keys.limits.items() if each != name}
        return replace(keys, clients=clients, limits=limits)

    await _change_keys(request, change)
    return HTTPResponse(204, {})


async def add_provider_key(request: PageRequest) -> HTTPResponse:
    """Add an API key of a provider; it is never sent back."""
    body = await request.read_json()
    provider = body.get("provider")
    key = body.get("key")
    spec = known_specs().get(provider) if isinstance(provider, str) else None
    if spec is None or not spec.api_key_env:
        raise _invalid("provider", "must be the name of a provider that needs an API key")
    if not isinstance(key, str) or not key.strip() or len(key) > _MAX_KEY:
        raise _invalid("key", "must be an API key")
    secret = key.strip()
    if not (secret.isascii() and secret.isprintable()):
        raise _invalid("key", "has characters that no HTTP header can have")

    def change(keys: KeyFile) -> KeyFile:
        known = keys.providers.get(spec.name, [])
        added = known if secret in known else [*known, secret]
        return replace(keys, providers={**keys.providers, spec.name: added})

    await _change_keys(request, change)
    return json_response({"provider": spec.name})


async def choose_default_model(request: PageRequest) -> HTTPResponse:
    """Choose the model for clients that let the gateway choose."""
    model = (await request.read_json()).get("model")
    if not isinstance(model, str):
        raise _invalid("model", "must be the name of a model")
    request.engine.router.resolve(model)
    if "*" in request.process.setup.config.models:
        raise InvalidRequest(
            'The configuration file names the default model: change `"*"` in [models] there.',
            param="model",
            code="config",
            status=409,
        )
    await _change_keys(request, lambda keys: replace(keys, default_model=model))
    return json_response({"model": model})


def _find_config(request: PageRequest) -> Path | None:
    """The configuration file that the key file belongs to; one that the page may create, if there
    is none."""
    name = request.process.file_to_reload
    return request.process.page.first_file if name is None else Path(name)


async def _change_keys(request: PageRequest, change: Callable[[KeyFile], KeyFile]) -> None:
    """Change the key file and reload; if the gateway cannot use it, the file is as before."""
    config = _find_config(request)
    if config is None:
        raise _no_file()
    path = key_file_path(config)
    async with request.process.page.keys_lock:
        if request.process.file_to_reload is None:
            await _begin_file(request, config)
        before = await asyncio.to_thread(_write, path, change)
        try:
            await request.process.reload()
        except ConfigError as error:
            await asyncio.to_thread(_write, path, lambda _: before)
            raise InvalidRequest(
                f"The gateway cannot use this key: {error.message}", status=409, code="config"
            ) from error


async def _begin_file(request: PageRequest, config: Path) -> None:
    """Create a configuration file without settings, for a gateway that was started without one."""
    if not await asyncio.to_thread(_create, config):
        raise _no_file()
    reloaded = await request.process.reload()
    if reloaded.file is None:  # it was started so that it reads none
        await asyncio.to_thread(config.unlink)
        raise _no_file()


def _create(config: Path) -> bool:
    """Create a configuration file; False if there is one."""
    try:
        config.parent.mkdir(parents=True, exist_ok=True)
        with config.open("x", encoding="utf-8") as file:
            file.write(_FIRST_TEXT)
    except FileExistsError:
        return False
    except OSError as error:
        raise _unwritable(config, error) from error
    return True


def _no_file() -> InvalidRequest:
    return InvalidRequest(
        "This gateway runs without a configuration file, so that keys have no file beside it: start"
        " it without --no-config, or with --config FILE.",
        code="no_configuration_file",
        status=409,
    )


def _read(config: Path) -> KeyFile:
    try:
        return read_key_file(key_file_path(config))
    except ConfigError as error:
        raise _unreadable(error) from error


def _write(path: Path, change: Callable[[KeyFile], KeyFile]) -> KeyFile:
    """Change the key file; return what it was before."""
    try:
        return change_key_file(path, change)
    except ConfigError as error:
        raise _unreadable(error) from error
    except OSError as error:
        raise _unwritable(path, error) from error


def _read_name(name: Any, taken: Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _invalid("name", "must have 1 to 64 letters, digits, dots, dashes and underscores")
    if name in taken or name in _RESERVED:
        raise _invalid("name", f"{name!r} is taken: choose another one")
    return name


def _read_limits(limits: Any) -> ClientLimitConfig:
    known = ClientLimitConfig.__struct_fields__
    if not isinstance(limits, dict) or not set(limits) <= set(known):
        raise _invalid("limits", f"can have {', '.join(known)}")
    try:
        return msgspec.convert(limits, ClientLimitConfig)
    except msgspec.ValidationError as error:
        raise _invalid("limits", f"has a wrong value: {error}") from error


def _unwritable(path: Path, error: OSError) -> InvalidRequest:
    return InvalidRequest(
        f"{path} cannot be written: {error.strerror}. Keys can be added to the configuration file"
        " instead.",
        status=409,
        code="not_writable",
    )


def _unreadable(error: ConfigError) -> InvalidRequest:
    return InvalidRequest(error.message, status=409, code="config")


def _invalid(name: str, rule: str) -> InvalidRequest:
    return InvalidRequest(f"`{name}` {rule}.", param=name, code="invalid_value")
