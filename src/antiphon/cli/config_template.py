"""A first `antiphon.toml`: a few decisions, and the text they make."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

HIDDEN = "••••••••"


class ProviderDraft(Struct, frozen=True, kw_only=True):
    """An entry below `[providers]`."""

    name: str
    kind: str
    base_url: str
    api_key: str = ""
    """As it will stand in the file: `${NAME}`, or the key itself."""
    models: tuple[str, ...] = ()
    """Models by name, of a server about which nothing is known."""

    @property
    def is_secret(self) -> bool:
        return bool(self.api_key) and not self.api_key.startswith("${")


class Draft(Struct, frozen=True, kw_only=True):
    providers: tuple[ProviderDraft, ...] = ()
    default_provider: str = ""
    fallback_model: str = ""
    """`provider/model` for names that nobody knows."""
    port: int


def render(draft: Draft, *, hide_keys: bool = False) -> str:
    """The file's text; with `hide_keys`, as it may be shown."""
    return "\n".join(_lines(draft, hide_keys=hide_keys)) + "\n"


def _lines(draft: Draft, *, hide_keys: bool) -> Iterator[str]:
    yield "# Written by `antiphon init`; `antiphon check` validates it."
    yield "# ${NAME} stands for an environment variable, so that no key has to be in here."
    yield f"default_provider = {_quoted(draft.default_provider)}"
    yield from ("", "[server]", f"port = {draft.port}")
    for provider in draft.providers:
        yield from ("", f"[providers.{provider.name}]")
        if provider.kind != provider.name:
            yield f"kind = {_quoted(provider.kind)}"
        yield f"base_url = {_quoted(provider.base_url)}"
        if provider.api_key:
            shown = HIDDEN if hide_keys and provider.is_secret else provider.api_key
            yield f"api_keys = [{_quoted(shown)}]"
        for model in provider.models:
            yield from ("", f"[providers.{provider.name}.models.{_quoted(model)}]")
    if draft.fallback_model:
        yield from ("", "[models]", "# A name that clients use = the model that answers to it.")
        yield f'"*" = {_quoted(draft.fallback_model)}'


def _quoted(text: str) -> str:
    """A TOML string; JSON's escapes are among TOML's, which wants one more."""
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")
