"""Admission of background responses: their limits are checked when they are requested, and not when
they begin, because a response that was accepted must be generated."""

from __future__ import annotations

from collections.abc import Mapping

from antiphon.engine.run import Run
from antiphon.engine.tracing import Accounting, RunTrace


async def admit(run: Run, accounting: Accounting) -> Mapping[str, str]:
    """Count a response that is generated later, and return headers; raises `LimitExceeded`.

    It counts as running until `on_exit` of its run is called."""
    caller, leave = run.prepared.caller, run.on_exit
    try:
        headers = await accounting.admit(caller.client, caller.request_id)
    except BaseException:
        leave()  # it will not be entered
        raise

    def on_exit() -> None:
        accounting.withdraw(caller.client, caller.request_id)
        leave()

    run.on_exit = on_exit
    skip_limits(run)
    return headers


def skip_limits(run: Run) -> None:
    """Let a run begin whose limits were checked when it was requested, here or elsewhere."""
    run.admit = _admit_always


async def _admit_always(trace: RunTrace) -> Mapping[str, str]:
    return {}
