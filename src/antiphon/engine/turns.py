"""What is stored of a run before its terminal event is sent: its turn; and the state of its calls,
for a client that returns nothing but their ids (ADR 0091)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Protocol

from antiphon.core.diagnostic import Code, Diagnostic, ignored
from antiphon.core.events import Event
from antiphon.core.history.call_state import CallState, collect_states, pack
from antiphon.core.history.capsule import Sealer
from antiphon.core.request import Request
from antiphon.core.response import Response
from antiphon.errors import StoreError
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
