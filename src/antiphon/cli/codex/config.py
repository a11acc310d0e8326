"""Codex's settings for the gateway: as command line overrides, or as lines in its `config.toml`.

`config.toml` belongs to the user. Our lines are added and removed as text, so that every other byte
stays unchanged. Codex also writes to the file, and may put lines of its own between ours. Settings
of the user that our lines replace are commented out in place. Errors do not name the file: their
caller knows its path.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from antiphon.cli.config_template import quote_toml
from antiphon.cli.launcher.gateway import KEY_VARIABLE
from antiphon.errors import ConfigError

PROVIDER = "antiphon"

# `model_provider` is first because Codex never removes it: with a key it removes the comment above.
_TOP_LEVEL_KEYS = ("model_provider", "model", "model_catalog_json")
_TABLE_PATH = ("model_providers", PROVIDER)
# Files in use contain these comments: they must not change.
_BEGIN = "# >>> antiphon >>> by `antiphon codex setup`; `antiphon codex undo` takes it out again"
_END = "# <<< antiphon <<<"
_COMMENTED_OUT = "# antiphon kept: "


class CodexSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of Codex that make it use the gateway."""

    base_url: str
    model: str
    catalog: str = ""
    """Path of the model catalog; empty if Codex reads it from `catalog_url`."""
    catalog_url: str = ""
    requires_key: bool = False

    def top_level_keys(self) -> dict[str, str]:
        values = (PROVIDER, self.model, self.catalog)
        keys = dict(zip(_TOP_LEVEL_KEYS, values, strict=True))
        return {key: value for key, value in keys.items() if value}

    def provider_table(self) -> dict[str, str | int]:
        """The provider. Codex would send a failed request five times for each of its own retries
        of a turn; the gateway has retried it already."""
        key = {"env_key": KEY_VARIABLE} if self.requires_key else {}
        url = {"model_catalog_url": self.catalog_url} if self.catalog_url else {}
        table = {"name": "Antiphon", "base_url": self.base_url, "wire_api": "responses"}
        return {**table, "request_max_retries": 0, **url, **key}

    def command_options(self) -> list[str]:
        """Return the settings as `-c` options for one run; the user's options come later and win.

        The provider's table is passed as a whole: single keys would be merged with the keys of a
        table of the same name in the file.
        """
        keys = self.provider_table().items()
        table = ", ".join(f"{name} = {_write_value(value)}" for name, value in keys)
        pairs = {key: quote_toml(text) for key, text in self.top_level_keys().items()}
        pairs[".".join(_TABLE_PATH)] = f"{{{table}}}"
        return [option for key, value in pairs.items() for option in ("-c", f"{key}={value}")]


# Adding and removing


def install_settings(text: str, settings: CodexSettings) -> str:
    """Add our lines to the file, after its top-level keys and before its tables."""
    text = remove_settings(text)
    expected = _merge_settings(_parse_toml(text), settings)
    head, tail = _split_at_tables(text)
    block = _render_block(settings)
    if head and not head.endswith("\n"):  # the file ends here, without a line break
        head += "\n"
        block = block.removesuffix("\n")
    changed = head + block + tail
    try:
        is_as_expected = tomllib.loads(changed) == expected
    except tomllib.TOMLDecodeError:
        is_as_expected = False
    if not is_as_expected:
        raise ConfigError(
            f"the gateway cannot be added: the file already defines a model provider {PROVIDER!r},"
            " or defines model_providers or model in another form. Remove that definition and try"
            " again."
        )
    return changed


def remove_settings(text: str) -> str:
    """Remove our lines from the file, and restore the user's lines that were commented out."""
    statements = [*_split_statements(text)]
    if not any(map(_is_begin, statements)):
        return text
    remaining: list[str] = []
    is_top_level = True
    is_ours = False
    for statement in statements:
        if path := _read_table_path(statement):
            is_top_level = False
            is_ours = path[:2] == _TABLE_PATH
        elif statement.rstrip() == _END:
            is_ours = False
            continue
        is_our_key = is_top_level and _read_key(statement) in _TOP_LEVEL_KEYS
        if not (is_ours or is_our_key or _is_begin(statement)):
            remaining.append(statement.removeprefix(_COMMENTED_OUT))
    restored = "".join(remaining)
    return restored.removesuffix("\n") if text.endswith(_END) else restored


def _merge_settings(document: Mapping[str, Any], settings: CodexSettings) -> dict[str, Any]:
    """Merge the settings into the parsed file: the result that the changed text must have."""
    providers = document.get("model_providers", {})
    if not isinstance(providers, dict) or PROVIDER in providers:
        return {}  # never equal to the changed file, which is then rejected
    providers = {**providers, PROVIDER: settings.provider_table()}
    return {**document, **settings.top_level_keys(), "model_providers": providers}


def _render_block(settings: CodexSettings) -> str:
    keys = [f"{key} = {quote_toml(text)}" for key, text in settings.top_level_keys().items()]
    table = [f"{key} = {_write_value(value)}" for key, value in settings.provider_table().items()]
    header = f"[{'.'.join(_TABLE_PATH)}]"
    return "".join(f"{line}\n" for line in (_BEGIN, *keys, header, *table, _END))


def _write_value(value: str | int) -> str:
    return str(value) if isinstance(value, int) else quote_toml(value)


def _split_at_tables(text: str) -> tuple[str, str]:
    """Split after the last top-level key; keys that our lines replace are commented out."""
    head, tail = "", ""
    is_top_level = True
    for statement in _split_statements(text):
        if _is_begin(statement) or statement.startswith((_END, _COMMENTED_OUT)):
            raise ConfigError(
                f"the comment {statement.strip()!r} is left over from an incomplete `antiphon codex"
                " setup`. Remove this line and try again."
            )
        is_top_level = is_top_level and not _read_table_path(statement)
        if is_top_level and (key := _read_key(statement)):
            head += tail + (_comment_out(statement) if key in _TOP_LEVEL_KEYS else statement)
            tail = ""
        else:
            tail += statement
    return head, tail


def _comment_out(statement: str) -> str:
    return "".join(_COMMENTED_OUT + line for line in _split_lines(statement))


# TOML statements


def _parse_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not valid TOML: {error}") from error


def _split_statements(text: str) -> Iterator[str]:
    """Split the file into key-value pairs, table headers, comments and blank lines.

    Each is yielded with its line break. Lines that are valid TOML by themselves are complete: a
    value that continues on the next line is not valid yet.
    """
    pending = ""
    for line in _split_lines(text):
        pending += line
        try:
            tomllib.loads(pending)
        except tomllib.TOMLDecodeError:
            continue
        yield pending
        pending = ""
    if pending:
        _parse_toml(pending)


def _split_lines(text: str) -> list[str]:
    """Split into lines with their line breaks; only `\\n` is one, unlike for `splitlines`."""
    *whole, last = text.split("\n")
    return [*(f"{line}\n" for line in whole), *([last] if last else [])]


def _is_begin(statement: str) -> bool:
    return statement.rstrip() == _BEGIN


def _read_table_path(statement: str) -> tuple[str, ...]:
    """Read the keys of a table header; empty for any other statement."""
    if not statement.lstrip().startswith("["):
        return ()
    return _read_nested_keys(tomllib.loads(statement))


def _read_nested_keys(document: Any) -> tuple[str, ...]:
    match document:
        case dict() if document:
            [(key, inner)] = document.items()
            return (key, *_read_nested_keys(inner))
        case [inner]:
            return _read_nested_keys(inner)
    return ()


def _read_key(statement: str) -> str:
    """Read the first part of the key that a statement assigns."""
    return next(iter(tomllib.loads(statement)), "")
