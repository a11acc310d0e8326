"""Text of a new `antiphon.toml`, rendered from the answers to `antiphon init`."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

HIDDEN = "••••••••"


class ProviderDraft(Struct, frozen=True, kw_only=True):
    """One `[providers.NAME]` table."""

    name: str
    kind: str
    base_url: str
    api_key: str = ""
    """As it is written to the file: `${NAME}`, or the key itself."""
    models: tuple[str, ...] = ()
    """Models to declare, for a server whose models are not part of the provider data."""

    @property
    def is_secret(self) -> bool:
        return bool(self.api_key) and not self.api_key.startswith("${")


class ConfigDraft(Struct, frozen=True, kw_only=True):
    """Contents of a new configuration file."""

    providers: tuple[ProviderDraft, ...] = ()
    default_provider: str = ""
    fallback_model: str = ""
    """`provider/model` for model names that match no provider and no alias."""
    port: int


def render_config(draft: ConfigDraft, *, hide_keys: bool = False) -> str:
    """Render the text of the file; `hide_keys` masks API keys for display."""
    return "\n".join(_render_lines(draft, hide_keys=hide_keys)) + "\n"


def _render_lines(draft: ConfigDraft, *, hide_keys: bool) -> Iterator[str]:
    yield "# Written by `antiphon init`; `antiphon check` validates it."
    yield "# ${NAME} is replaced by the environment variable NAME, so no API key has to be here."
    if draft.default_provider:
        yield f"default_provider = {quote_toml(draft.default_provider)}"
    else:
        yield "# No provider is named here: API keys in the environment enable their providers."
    yield from ("", "[server]", f"port = {draft.port}")
    for provider in draft.providers:
        yield from _render_provider(provider, hide_keys=hide_keys)
    if draft.fallback_model:
        yield from ("", "[models]", '# Requested model = model that serves it; "*" is any other.')
        yield f'"*" = {quote_toml(draft.fallback_model)}'


def _render_provider(provider: ProviderDraft, *, hide_keys: bool) -> Iterator[str]:
    yield from ("", f"[providers.{provider.name}]")
    if provider.kind != provider.name:
        yield f"kind = {quote_toml(provider.kind)}"
    yield f"base_url = {quote_toml(provider.base_url)}"
    if provider.api_key:
        key = HIDDEN if hide_keys and provider.is_secret else provider.api_key
        yield f"api_keys = [{quote_toml(key)}]"
    for model in provider.models:
        yield from ("", f"[providers.{provider.name}.models.{quote_toml(model)}]")


def quote_toml(text: str) -> str:
    """Encode a TOML string: JSON's escapes are valid in TOML, which also requires one for DEL."""
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")
