"""The key file: keys that were made or pasted on the page and the model that was chosen there, in a
file of their own beside the configuration. The configuration wins where both have a name.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from antiphon.config.schema import ClientLimitConfig, Config, ProviderConfig, Secret
from antiphon.errors import ConfigError


class KeyFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keys by name. Complete: the file has nothing else."""

    clients: dict[str, Secret] = field(default_factory=dict)
    """Keys of clients, as `api_keys` in [server]."""
    limits: dict[str, ClientLimitConfig] = field(default_factory=dict)
    """Limits of these clients, as [limits.NAME]."""
    providers: dict[str, list[Secret]] = field(default_factory=dict)
    """API keys of providers, as `api_keys` in [providers.NAME]."""
    default_model: str = ""
    """The model for clients that let the gateway choose."""

    def __repr__(self) -> str:
        return f"KeyFile(clients={[*self.clients]}, providers={[*self.providers]})"


def key_file_path(config: Path) -> Path:
    """Return the path of the key file of a configuration file."""
    return config.with_suffix(".keys.json")


def read_key_file(path: Path) -> KeyFile:
    """Read a key file; empty if there is none. Raises `ConfigError`."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=KeyFile)
    except FileNotFoundError:
        return KeyFile()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:  # never the text: it has secrets
        raise ConfigError(f"{path}: not a valid key file: remove it, or restore it") from error


def write_key_file(path: Path, keys: KeyFile) -> None:
    """Replace the key file in one step, readable by its owner only. Raises `OSError`."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    fresh = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(keys)))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def change_key_file(path: Path, change: Callable[[KeyFile], KeyFile]) -> KeyFile:
    """Change the key file while no other process does, and return what it was before. Raises
    `ConfigError`, `OSError`, and what `change` raises."""
    with _lock(path.parent):
        before = read_key_file(path)
        write_key_file(path, change(before))
    return before


@contextmanager
def _lock(directory: Path) -> Iterator[None]:
    """Exclude other processes that lock this directory."""
    try:
        import fcntl
    except ImportError:  # Windows, where a gateway is one process
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # this also ends the lock


def add_keys(config: Config, keys: KeyFile) -> Config:
    """Return a configuration with the keys of a key file."""
    server = replace(config.server, api_keys={**keys.clients, **config.server.api_keys})
    limits = replace(config.limits, clients={**keys.limits, **config.limits.clients})
    providers = dict(config.providers)
    for name, added in keys.providers.items():
        known = providers.get(name, ProviderConfig())
        fresh = [key for key in added if key not in known.api_keys]
        providers[name] = replace(known, api_keys=[*known.api_keys, *fresh])
    return replace(
        config,
        server=server,
        limits=limits,
        providers=providers,
        chosen_model=keys.default_model,
    )
