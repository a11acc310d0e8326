"""Planted defects of the lifecycle: logs, leases, retries, conversations and lanes."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any

from msgspec.structs import replace

import antiphon.dialects.responses.render as render_module
import antiphon.runs.event_log as event_log_module
import antiphon.runs.recovery as recovery_module
import antiphon.runs.tail as tail_module
import antiphon.server.create as create_module
import antiphon.server.websocket.responder as responder_module
import antiphon.store.sqlite.runs as sqlite_runs_module
from antiphon.core.faults.fault import timeout_fault
from antiphon.dialects.responses.render import event_to_dict
from antiphon.engine.run import Run
from antiphon.errors import LeaseLost
from antiphon.runs.attach import AttachTable, digest_request
from antiphon.runs.background import BackgroundRuns
from antiphon.runs.durable_log import DurableLog
from antiphon.runs.live_run import LiveRun
from antiphon.runs.recovery import AbandonedRuns
from antiphon.store.run_log import BEFORE_FIRST
from antiphon.store.sqlite.conversations import SQLiteConversations
from antiphon.store.sqlite.runs import SQLiteRuns
from antiphon.store.sqlite.store import SQLiteStore
from tests.simulation.mutant import Mutant, do_nothing
from tests.simulation.plan import TENANTS
from tests.simulation.virtual_loop import EPOCH

_COPY_EVENTS = """
    INSERT INTO event_batch
        SELECT 1000000 + turn, first_seq, last_seq, frames FROM event_batch
        WHERE turn = (SELECT seq FROM turn WHERE id = ?)
"""


def _accept_old_tokens(_: Any) -> Any:
    def check_token(response_id: str, token: int, current: int | None) -> None:
        if current is None:
            raise LeaseLost(response_id)

    return check_token


def _number_anew(original: Any) -> Any:
    """Number the events after the loss of a process from 0."""

    def final_batch(run: Any, events: Any, response: Any) -> Any:
        return original(run._replace(last_seq=BEFORE_FIRST), events, response)

    return final_batch


def _show_before_durable(_: Any) -> Any:
    async def flush(self: DurableLog) -> None:
        pending = self._pending()
        self.show()
        try:
            await self._runs.append(self._response_id, self._token, pending)
        except LeaseLost:
            self._lose()
            return
        self._flushing = None
        if self.visible < len(self.batches) and not self.is_finishing:
            self._start_flush()

    return flush


def _join_anybody(_: Any) -> Any:
    async def make_key(exchange: Any) -> Any:
        return "", digest_request(exchange.document)

    return make_key


def _attach_nobody(_: Any) -> Any:
    async def attach(exchange: Any, request: Any) -> None:
        return

    return attach


def _attach_streams_only(original: Any) -> Any:
    async def attach(exchange: Any, request: Any) -> Any:
        return await original(exchange, request) if request.stream else None

    return attach


def _keep_events(original: Any) -> Any:
    async def delete(self: SQLiteStore, response_id: str, **options: Any) -> Any:
        await self._access.write(lambda each: each.execute(_COPY_EVENTS, (response_id,)).rowcount)
        return await original(self, response_id, **options)

    return delete


def _delete_nothing(_: Any) -> Any:
    async def delete(self: SQLiteStore, response_id: str, **options: Any) -> bool:
        return True

    return delete


def _load_for_anybody(original: Any) -> Any:
    async def load(self: SQLiteStore, response_id: str, **options: Any) -> Any:
        found = [await original(self, response_id, client=name) for name in TENANTS]
        return next((each for each in found if each is not None), None)

    return load


def _end_nothing(_: Any) -> Any:
    async def end_expired(*arguments: Any) -> int:
        return 0

    return end_expired


def _take_nothing(_: Any) -> Any:
    async def take_queued(self: BackgroundRuns) -> None:
        return

    return take_queued


def _lock_nothing(_: Any) -> Any:
    async def lock(self: SQLiteConversations, *arguments: Any, **options: Any) -> bool:
        return True

    return lock


def _begin_with_the_client(_: Any) -> Any:
    """Forget a response whose client leaves while it is being accepted."""

    async def submit(self: BackgroundRuns, accepted: Any) -> Any:
        response = replace(accepted.prepared.response, status="queued")
        await self._begin(accepted, response, await self._queue.take_place())
        return response

    return submit


def _finish_without_conversation(original: Any) -> Any:
    async def finish(self: SQLiteRuns, *arguments: Any, **options: Any) -> None:
        await original(self, *arguments, **{**options, "conversation_id": None})

    return finish


def _no_items(_: Any) -> Any:
    return lambda batches: []


def _added_item(_: Any) -> Any:
    def read(event: Any) -> Any:
        document = event_to_dict(event, 0)
        return document["item"] if document["type"] == "response.output_item.added" else None

    return read


def _one_event_late(original: Any) -> Any:
    return lambda batch, after: original(batch, after + (after >= batch.first))


def _next_number(original: Any) -> Any:
    return lambda event, number: original(event, number + 1)


def _no_lane(original: Any) -> Any:
    return lambda stream_id, headers: original(None, headers)


def _claim_for_nobody(_: Any) -> str:
    return """
        UPDATE run SET status = 'queued', holder = NULL, token = ?3
        WHERE turn = ?4 AND ?1 <> '' AND ?2 <> ''
    """


def _end_before_cancel(original: Any) -> Any:
    """Answer a cancellation without cancelling."""
    return lambda self: asyncio.get_running_loop().call_later(60.0, original, self)


def _count_from_acceptance(original: Any) -> Any:
    """Let the total time begin when a response is accepted, and not when it is generated."""

    async def open_run(self: Run) -> None:
        loop = asyncio.get_running_loop()
        prepared = self.prepared
        waited_s = EPOCH + loop.time() - prepared.response.created_at - 1  # it is rounded down
        left_s = prepared.targets[0].provider.timeouts.total_s - max(waited_s, 0.0)
        timer = loop.call_later(max(left_s, 0.0), self.stop, timeout_fault("total"))
        held = ExitStack()
        held.callback(timer.cancel)
        self.hold(held)  # until the run is left
        await original(self)

    return open_run


LIFECYCLE_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "an old fencing token is accepted", sqlite_runs_module, "check_token", _accept_old_tokens
    ),
    Mutant(
        "events are numbered anew after the loss of a process",
        recovery_module,
        "_final_batch",
        _number_anew,
    ),
    Mutant("events are shown before they are durable", DurableLog, "_flush", _show_before_durable),
    Mutant(
        "a retry joins the response of another client", create_module, "_make_key", _join_anybody
    ),
    Mutant("a retry makes a new response", create_module, "_attach", _attach_nobody),
    Mutant(
        "a retry without a stream makes a new response",
        create_module,
        "_attach",
        _attach_streams_only,
    ),
    Mutant("the window of a retry never ends", AttachTable, "_expire", do_nothing),
    Mutant("two processes claim a response", sqlite_runs_module, "_TAKE", _claim_for_nobody),
    Mutant("a keep-alive has a number", render_module, "encode_event", _next_number),
    Mutant("events stay after a deletion", SQLiteStore, "delete", _keep_events),
    Mutant("a deletion deletes nothing", SQLiteStore, "delete", _delete_nothing),
    Mutant("a cancellation is late", LiveRun, "cancel", _end_before_cancel),
    Mutant("a resumed stream begins too late", tail_module, "batch_after", _one_event_late),
    Mutant("a response is retrieved by anybody", SQLiteStore, "load", _load_for_anybody),
    Mutant("runs of lost processes are not ended", AbandonedRuns, "end_expired", _end_nothing),
    Mutant(
        "finished items are lost with their process", recovery_module, "finished_items", _no_items
    ),
    Mutant(
        "items that are not finished are shown", event_log_module, "_finished_item", _added_item
    ),
    Mutant("queued responses are not claimed", BackgroundRuns, "take_queued", _take_nothing),
    Mutant(
        "a response is lost with the client of its request",
        BackgroundRuns,
        "submit",
        _begin_with_the_client,
    ),
    Mutant("the wait for a place counts to the total timeout", Run, "open", _count_from_acceptance),
    Mutant("a conversation is not locked", SQLiteConversations, "lock", _lock_nothing),
    Mutant(
        "a turn is not added to its conversation",
        SQLiteRuns,
        "finish",
        _finish_without_conversation,
    ),
    Mutant("events of a lane without its name", responder_module, "encode_fields", _no_lane),
)
