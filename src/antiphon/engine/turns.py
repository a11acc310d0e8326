"""What is stored of a run before its terminal event is sent: its turn; and the state of its calls,
for a client that returns nothing but their ids (ADR 0091)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

import msgspec

from antiphon.core.diagnostic import Code, Diagnostic, ignored
from antiphon.core.events import Completed, Event, Failed, Incomplete
from antiphon.core.history.call_state import CallState, collect_states, pack
from antiphon.core.history.capsule import Sealer
from antiphon.core.request import Request
from antiphon.core.response import Response
from antiphon.engine.services import Prepared, Services
from antiphon.errors import AntiphonError, StoreError
from antiphon.stages.log import Entry
from antiphon.store.call_states import MAX_STATE_BYTES
from antiphon.store.store import Store, Turn

_GATEWAY = "antiphon"
"""The issuer of capsules that hold the state of a call: its own capsules name their provider."""


class SaveTurn(Protocol):
    """Stores the turn of one run."""

    async def __call__(self, turn: Turn, events: list[Event]) -> list[Event]:
        """Store a turn together with its last events; return these events as they may be sent.
        Raises `StoreError`."""


class SaveInStore:
    """Saves a turn in the store, and in its conversation."""

    def __init__(self, store: Store, conversation_id: str | None) -> None:
        self._store = store
        self._conversation_id = conversation_id

    async def __call__(self, turn: Turn, events: list[Event]) -> list[Event]:
        await self._store.save(turn, conversation_id=self._conversation_id)
        return events


class AddToConversation:
    """Adds a turn that is not stored itself to its conversation."""

    def __init__(self, store: Store, conversation_id: str) -> None:
        self._conversations = store.conversations
        self._conversation_id = conversation_id

    async def __call__(self, turn: Turn, events: list[Event]) -> list[Event]:
        await self._conversations.add_turn(self._conversation_id, turn)
        return events


class TurnWriter:
    """Saves the turn of one run."""

    def __init__(self, services: Services, prepared: Prepared, save: SaveTurn | None) -> None:
        """`save` stores the turn of a response that is to be stored; None: it is saved in the
        store."""
        self._services = services
        self._prepared = prepared
        self._save_turn = _choose_save(services.store, prepared.request, save)
        self.taken_ms: float | None = None
        """Time to save the turn; None: nothing was saved."""

    async def keep_call_states(self, response: Response) -> Diagnostic | None:
        """Keep the provider's state for a client that returns nothing but the ids of calls; return
        what has to be reported, if it is lost."""
        request = self._prepared.request
        if request.state_carrier == "items":
            return None
        services = self._services
        owner = self._prepared.caller.client
        return await keep_call_states(request, response, services.store, services.sealer, owner)

    async def save(
        self, response: Response, events: list[Event], facts: Mapping[str, Any]
    ) -> list[Event]:
        """Store the turn before its terminal event is sent; return the events to send. A good
        response stays good if the store fails."""
        clock = self._services.runtime.monotonic
        began = clock()
        try:
            turn = self._prepared.make_turn(response, facts["provider"])
            events = await self._save_turn(turn, events)
        except AntiphonError as error:
            failure = Entry("store.save_failed", "error", {**facts, "reason": error.message})
            self._services.emit(failure)
            events = [*events[:-1], _not_stored(events[-1])]
        self.taken_ms = (clock() - began) * 1000
        return events


def _choose_save(store: Store, request: Request, save: SaveTurn | None) -> SaveTurn:
    if not request.store and request.conversation is not None:
        return AddToConversation(store, request.conversation)
    return save or SaveInStore(store, request.conversation)


def _not_stored(ending: Event) -> Event:
    """Return the terminal event with `store: false`: nothing can continue from it."""
    assert isinstance(ending, Completed | Incomplete | Failed)
    response = msgspec.structs.replace(ending.response, store=False)
    return msgspec.structs.replace(ending, response=response)


# --- state of calls -------------------------------------------------------------------------------


async def keep_call_states(
    request: Request, response: Response, store: Store, sealer: Sealer, client: str
) -> Diagnostic | None:
    """Keep the state of the calls in a response; return what has to be reported, if it is lost."""
    states = collect_states(response.output) if request.state_carrier != "items" else {}
    if request.state_carrier == "call_ids":
        lost = [call for call, state in states.items() if not state.fits_in_id()]
        return _report_lost(len(lost), "it is too long for the id of a call") if lost else None
    seal = partial(_seal, sealer, client)
    sealed = {call: seal(state) for call, state in states.items()}
    kept = {call: text for call, text in sealed.items() if len(text) <= MAX_STATE_BYTES}
    if not kept:
        return _report_lost(len(sealed), "it is too large") if sealed else None
    return await _save(kept, len(sealed), store, client)


async def _save(
    kept: Mapping[str, str], count: int, store: Store, client: str
) -> Diagnostic | None:
    try:
        await store.call_states.save(kept, client=client)
    except StoreError:
        return _report_lost(count, "the store cannot be written")
    lost = count - len(kept)
    return _report_lost(lost, "it is too large") if lost else None


def _seal(sealer: Sealer, client: str, state: CallState) -> str:
    return sealer.seal(client, _GATEWAY, "", pack(state), "")


def _report_lost(count: int, reason: str) -> Diagnostic:
    calls = "1 call" if count == 1 else f"{count} calls"
    message = (
        f"The provider's state of {calls} is not kept for the next request: {reason}. The model"
        " continues without its earlier reasoning."
    )
    return ignored(Code.CALL_STATE_LOST, "messages", message, "call_state")
