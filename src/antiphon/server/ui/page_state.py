"""State of the page that its requests share: live updates, sign-ins and ended sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from antiphon.config import config_directory, data_directory
from antiphon.engine.runtime import Runtime
from antiphon.server.auth import FailedAttempts
from antiphon.server.ui.access import ENDED_FILE, EndedSessions
from antiphon.server.ui.page_token import read_or_create_token


class PageState:
    """What the page of one process keeps, whatever the configuration."""

    def __init__(self, environment: Mapping[str, str] | None, runtime: Runtime) -> None:
        """`environment` is that of the process; without one, no file is written."""
        ended = data_directory(environment) / ENDED_FILE if environment else None
        self._new_bytes = runtime.new_nonce
        self.environment = environment or {}
        """To check a configuration file with."""
        self.started_at_ms = runtime.now_ms()
        self.attempts = FailedAttempts(runtime.monotonic)
        """Requests with a wrong admin key, by address: to the page and to `/metrics`."""
        self.ended_sessions = EndedSessions(ended, runtime.now)
        self.keys_lock = asyncio.Lock()
        """Held while the key file is changed."""
        self.stopping = asyncio.Event()
        """Ends live updates, once it is set."""

    @cached_property
    def token(self) -> str:
        """What changes on the page need without an admin key; empty in a process without files of
        its own."""
        if not self.environment:
            return ""
        return read_or_create_token(data_directory(self.environment), self._new_bytes)

    @property
    def first_file(self) -> Path | None:
        """The configuration file that the page may create, if the gateway runs without one."""
        if not self.environment:
            return None
        return config_directory(self.environment) / "antiphon.toml"

    def stop(self) -> None:
        """End the live updates: the process is shutting down."""
        self.stopping.set()

    def revoke(self) -> None:
        """End the live updates of those who had access until now: the admin key has changed."""
        self.stop()
        self.stopping = asyncio.Event()
