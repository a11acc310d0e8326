"""The stored history that a request continues: a chain of responses, or a conversation; and the
state that is kept of calls, for a client that returns nothing but their ids."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from antiphon.core.history.call_state import (
    CallState,
    calls_without_state,
    find_states,
    restore_states,
    unknown_calls,
    unpack,
)
from antiphon.core.history.capsule import Sealer
from antiphon.core.history.known_calls import reject_unknown_calls
from antiphon.core.items import Document
from antiphon.core.request import Request
from antiphon.errors import StoreError
from antiphon.store.chain import TurnSource, build_history, without_truncated_calls
from antiphon.store.conversation import (
    ConversationStore,
    conversation_not_found,
    load_conversation,
    load_items_before,
)
from antiphon.store.store import Store

_LARGE_ITEMS = 300
_LARGE_CHARS = 256 * 1024


_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def name_session(cache_key: str) -> str:
    """Return the session that a prompt cache key stands for. The key is a text of the client's own,
    and the session is logged: only a UUID, as agents send it, is kept as it is."""
    if _UUID.fullmatch(cache_key):
        return cache_key
    return f"key-{hashlib.sha256(cache_key.encode()).hexdigest()[:16]}"


class History(NamedTuple):
    """Items, oldest first."""

    items: Sequence[Document]
    is_cut: bool
    """Whether the oldest ones were left out, because of the limits in `[store]`."""
    session: str | None = None
    """The session of the oldest stored response, if the items are those of a chain."""
    tools: Sequence[Document] = ()
    """The tools of the newest stored response of a chain."""

    @property
    def is_large(self) -> bool:
        """Whether planning and encoding it would take so long that a thread has to do it."""
        if len(self.items) > _LARGE_ITEMS:
            return True
        left = _LARGE_CHARS
        for text in _texts(self.items):
            left -= len(text)
            if left < 0:
                return True
        return False


NO_HISTORY = History((), is_cut=False)


async def load_history(
    request: Request, conversations: ConversationStore, turns: TurnSource, client: str
) -> History:
    """Load what a request continues; raises `InvalidRequest`. A history beyond the limits loses its
    oldest turns if the request allows that by `truncation`, and is refused otherwise."""
    truncate = request.truncation == "auto"
    if request.conversation is not None:
        found = await load_conversation(
            conversations, request.conversation, client=client, truncate=truncate
        )
        if found is None:
            raise conversation_not_found(request.conversation)
        reject_unknown_calls(found.items, request.input)
        return History(without_truncated_calls(found.items), found.is_cut)
    assert request.previous_response_id is not None
    chain = await turns.chain(request.previous_response_id, client=client, truncate=truncate)
    is_cut = chain[0].previous_response_id is not None
    before = await load_items_before(conversations, chain[0], client=client, truncate=truncate)
    stored = (item for turn in chain for item in (*turn.input, *turn.output))
    reject_unknown_calls((*before, *stored), request.input)
    cache_key = chain[0].response.get("prompt_cache_key")
    return History(
        [*without_truncated_calls(before), *build_history(chain)],
        is_cut,
        session=name_session(cache_key) if cache_key else chain[0].id,
        tools=chain[-1].response.get("tools") or (),
    )


async def restore_call_states(
    request: Request, store: Store, sealer: Sealer, client: str
) -> Request:
    """Return the request with the state that was kept of its calls, or is stored with the responses
    that made them."""
    if request.state_carrier == "items":
        return request
    try:
        states = await _load_kept_states(request, store, sealer, client)
        if unknown := unknown_calls(request.input):
            outputs = await store.load_outputs(unknown, client=client)
            states |= find_states(request.input, outputs)
    except StoreError:
        return request  # it can be served without the state
    return (
        structs.replace(request, input=restore_states(request.input, states)) if states else request
    )


async def _load_kept_states(
    request: Request, store: Store, sealer: Sealer, client: str
) -> dict[str, CallState]:
    wanted = calls_without_state(request.input)
    found = await store.call_states.load(wanted, client=client) if wanted else {}
    states = {call: unpack(sealer.open(client, text)) for call, text in found.items()}
    return {call: state for call, state in states.items() if state is not None}


def _texts(items: Iterable[Document]) -> Iterator[str]:
    """Yield the long strings of items: those of the item itself, and of the parts in it."""
    for item in items:
        for value in item.values():
            if isinstance(value, str):
                yield value
            elif isinstance(value, list):
                parts = (part for part in value if isinstance(part, Mapping))
                yield from (each for part in parts for each in part.values() if type(each) is str)
