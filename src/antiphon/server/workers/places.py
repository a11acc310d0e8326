"""Places of workers: which worker serves at each, when its successor may be started, and with which
configuration."""

from __future__ import annotations

import time

from antiphon.config import Config
from antiphon.server.workers.worker_process import WorkerProcess

_STABLE_S = 10.0  # a worker that lived as long is replaced at once
_MIN_BACKOFF_S = 0.5
_MAX_BACKOFF_S = 10.0


class Place:
    """A place for one worker, with a delay that grows if its workers die soon again and again."""

    def __init__(self, number: int) -> None:
        self.number = number
        """Counts from 1."""
        self.worker: WorkerProcess | None = None
        """The one that serves here, after it has become ready."""
        self.start_at = 0.0
        """The next worker is not started before; of `time.monotonic`."""
        self._backoff_s = 0.0

    def is_outdated(self, config: Config) -> bool:
        """Whether there is no worker, or one that has another configuration."""
        return self.worker is None or self.worker.config is not config

    def occupy(self, worker: WorkerProcess) -> WorkerProcess | None:
        """Have a worker that is ready serve here; return the one that it replaces."""
        before, self.worker = self.worker, worker
        return before

    def vacate(self, worker: WorkerProcess) -> None:
        """A worker has ended; it may have been replaced before."""
        if self.worker is worker:
            self.worker = None

    def start_at_once(self) -> None:
        """Forget the delay, for a new configuration."""
        self.start_at = 0.0

    def delay_start(self, died: WorkerProcess) -> float:
        """Have a worker replaced: at once, or later if it died soon again; return the seconds."""
        now = time.monotonic()
        is_stable = died.is_ready and now - died.started_at >= _STABLE_S
        delay_s = 0.0 if is_stable else self._backoff_s
        self.start_at = now + delay_s
        self._backoff_s = min(max(_MIN_BACKOFF_S, 2 * delay_s), _MAX_BACKOFF_S)
        return delay_s


class Rollout:
    """The configuration that the workers are to have, and the last one that was usable."""

    def __init__(self, config: Config) -> None:
        self.wanted = config
        self._usable = config
        self.is_complete = False
        """Whether all workers have the configuration, or it was given up."""

    def begin(self, config: Config) -> None:
        self.wanted = config
        self.is_complete = False

    def confirm(self, config: Config) -> None:
        """A worker has become ready with this configuration."""
        self._usable = config

    def is_confirmed(self, config: Config) -> bool:
        return config is self._usable

    def complete(self) -> None:
        self.is_complete = True

    def give_up(self, config: Config) -> None:
        """Return to the last usable configuration, unless another one has been read since."""
        if config is self.wanted:
            self.wanted = self._usable
            self.is_complete = True
