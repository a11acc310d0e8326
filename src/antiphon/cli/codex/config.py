"""What Codex is told of the gateway, and our lines in its `config.toml`.

The file is the user's. Our lines are put in and taken out as text, so that every other byte stays
as it was, whoever has written to the file in between: Codex itself does so, too, and may put lines
of its own between ours. Settings of the user that ours replace are turned into comments in place.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from antiphon.errors import ConfigError

PROVIDER = "antiphon"
KEY_VARIABLE = "ANTIPHON_API_KEY"

# The first key is one that Codex never removes: the comment above it would go as well.
_OURS = ("model_provider", "model", "model_catalog_json")
_HEADER = ("model_providers", PROVIDER)
_BEGIN = "# >>> antiphon >>> by `antiphon codex setup`; `antiphon codex undo` takes it out again"
_END = "# <<< antiphon <<<"
_KEPT = "# antiphon kept: "


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the gateway is, and what is asked there."""

    base_url: str
    model: str
    catalog: str
    """The path of the model catalog."""
    with_key: bool = False

    def root(self) -> dict[str, str]:
        values = (PROVIDER, self.model, self.catalog)
        return dict(zip(_OURS, values, strict=True))

    def provider(self) -> dict[str, str]:
        key = {"env_key": KEY_VARIABLE} if self.with_key else {}
        return {"name": "Antiphon", "base_url": self.base_url, "wire_api": "responses", **key}

    def options(self) -> list[str]:
        """The same on a command line, for one run; what the user says there comes later, and wins.

        The table of the provider is given as a whole, so nothing of another one shows through.
        """
        table = ", ".join(f"{name} = {quoted(text)}" for name, text in self.provider().items())
        pairs = {key: quoted(text) for key, text in self.root().items()}
        pairs[".".join(_HEADER)] = f"{{{table}}}"
        return [word for key, value in pairs.items() for word in ("-c", f"{key}={value}")]


def quoted(text: str) -> str:
    """As TOML writes it; what JSON makes of a text is allowed there, too."""
    return msgspec.json.encode(text).decode()


def parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"Codex's config.toml is not valid TOML: {error}") from error


# In and out


def installed(text: str, settings: Settings) -> str:
    """The file with our lines in it, behind its own top-level keys and in front of its tables."""
    text = removed(text)
    wanted = _expected(parsed(text), settings)
    head, tail = _divided(text)
    block = _block(settings)
    if head and not head.endswith("\n"):  # nothing follows, not even a line's end
        head, block = head + "\n", block.removesuffix("\n")
    found = head + block + tail
    try:
        is_right = tomllib.loads(found) == wanted
    except tomllib.TOMLDecodeError:
        is_right = False
    if not is_right:
        raise ConfigError(
            "Codex's config.toml leaves no place for our settings: it has a model provider called"
            f" {PROVIDER!r} already, or writes model_providers in one line."
        )
    return found


def removed(text: str) -> str:
    """The file without our lines, and with those of the user that they had replaced."""
    statements = [*_statements(text)]
    if not any(map(_is_begin, statements)):
        return text
    left: list[str] = []
    is_root, is_ours = True, False
    for statement in statements:
        if header := _header(statement):
            is_root, is_ours = False, header[:2] == _HEADER
        elif statement.rstrip() == _END:
            is_ours = False
            continue
        if not (is_ours or _is_begin(statement) or (is_root and _key(statement) in _OURS)):
            left.append(statement.removeprefix(_KEPT))
    found = "".join(left)
    return found.removesuffix("\n") if text.endswith(_END) else found


def _expected(document: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    providers = document.get("model_providers", {})
    if not isinstance(providers, dict) or PROVIDER in providers:
        return {}  # which it will never be
    providers = {**providers, PROVIDER: settings.provider()}
    return {**document, **settings.root(), "model_providers": providers}


def _block(settings: Settings) -> str:
    root = [f"{key} = {quoted(text)}" for key, text in settings.root().items()]
    table = [f"{key} = {quoted(text)}" for key, text in settings.provider().items()]
    header = f"[{'.'.join(_HEADER)}]"
    return "".join(f"{line}\n" for line in (_BEGIN, *root, header, *table, _END))


def _divided(text: str) -> tuple[str, str]:
    """The top-level keys, those that ours replace as comments; and all that follows the last."""
    head, tail = "", ""
    is_root = True
    for statement in _statements(text):
        if _is_begin(statement) or statement.startswith((_END, _KEPT)):
            raise ConfigError(f"Codex's config.toml has a stray comment: {statement.strip()}")
        is_root = is_root and not _header(statement)
        if is_root and (key := _key(statement)):
            head += tail + (_commented(statement) if key in _OURS else statement)
            tail = ""
        else:
            tail += statement
    return head, tail


def _commented(statement: str) -> str:
    return "".join(_KEPT + line for line in _lines(statement))


# A file as statements


def _statements(text: str) -> Iterator[str]:
    """Each key with its value, header, comment and blank line, with its line's end.

    Lines that are valid by themselves are complete: no value goes on behind them.
    """
    pending = ""
    for line in _lines(text):
        pending += line
        try:
            tomllib.loads(pending)
        except tomllib.TOMLDecodeError:
            continue
        yield pending
        pending = ""
    if pending:
        parsed(pending)


def _lines(text: str) -> list[str]:
    """With their ends; unlike `splitlines`, it knows no ends but those of TOML."""
    *whole, last = text.split("\n")
    return [*(f"{line}\n" for line in whole), *([last] if last else [])]


def _is_begin(statement: str) -> bool:
    return statement.rstrip() == _BEGIN


def _header(statement: str) -> tuple[str, ...]:
    """The keys of a table's header; of another statement, nothing."""
    if not statement.lstrip().startswith("["):
        return ()
    return _path(tomllib.loads(statement))


def _path(document: Any) -> tuple[str, ...]:
    match document:
        case dict() if document:
            [(key, inner)] = document.items()
            return (key, *_path(inner))
        case [inner]:
            return _path(inner)
    return ()


def _key(statement: str) -> str:
    """The first part of the key that a statement gives a value to."""
    return next(iter(tomllib.loads(statement)), "")
