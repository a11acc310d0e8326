"""Writes of runs in the PostgreSQL store: turns and events, several in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from antiphon.errors import StoreUnavailable
from antiphon.store.postgres.batches import BatchedStatement
from antiphon.store.postgres.connections import Connections
from antiphon.store.postgres.conversations import PostgresConversations
from antiphon.store.postgres.text import encode_optional_text, encode_text
from antiphon.store.run_log import LoggedBatch, RunStart, check_order, check_token
from antiphon.store.turn import Clock, StoreLimits, Turn, encode_turn, locate_items

_MAX_UNCERTAIN = 10_000

_SAVE = "SELECT save_turn($1, $2, $3, $4, $5, $6, $7, $8, $9)"
_BEGIN = "SELECT begin_run($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)"
_APPEND = "SELECT current, last_seq FROM append_events($1, $2, $3, $4, $5, $6)"
_FINISH = """
    SELECT current, last_seq FROM finish_run($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
        $14, $15, $16, $17, $18, $19, $20, $21, $22)
"""
_CONVERSATION = 15  # index of the parameter of finish_run that names the conversation


class TurnEncoder:
    """Encodes turns as the first eight parameters of `save_turn`, `begin_run` and `finish_run`."""

    def __init__(self, now: Clock, limits: StoreLimits) -> None:
        self._now = now
        self._limits = limits

    def encode(self, turn: Turn) -> tuple[Any, ...]:
        """Raises `StoreRefused` if a turn is too large or not encodable."""
        body = encode_turn(turn, self._limits)
        expires_at = self._limits.expiry_of(turn, self._now())
        items = locate_items(turn)
        return (
            encode_text(turn.id),
            encode_optional_text(turn.previous_response_id),
            expires_at,
            encode_text(turn.client) or None,
            body,
            [encode_text(id) for id in items],
            [location.is_input for location in items.values()],
            [location.position for location in items.values()],
        )


class EncodedTurn(Struct, frozen=True):
    """A turn with the parameters of the statements that save it."""

    turn: Turn
    values: tuple[Any, ...]
    """Of `TurnEncoder`."""
    conversation: tuple[Any, ...]
    """The parameters of `finish_run` that add it to its conversation; the first names it."""

    @property
    def has_conversation(self) -> bool:
        return self.conversation[0] is not None


class RunWriter:
    """Writes turns and events; a write that may have been written is repeated as such."""

    def __init__(
        self,
        connections: Connections,
        conversations: PostgresConversations,
        *,
        now: Clock,
        limits: StoreLimits,
    ) -> None:
        self._place = connections.address.name
        self._conversations = conversations
        self._now = now
        self._log_ttl_s = limits.log_ttl_s
        self._encoder = TurnEncoder(now, limits)
        self._save = BatchedStatement(connections, _SAVE)
        self._begin = BatchedStatement(connections, _BEGIN)
        self._append = BatchedStatement(connections, _APPEND)
        self._finish = BatchedStatement(connections, _FINISH, ordered_by=_CONVERSATION)
        self._uncertain: dict[str, None] = {}
        """Response ids whose last write may have been written although it failed."""

    @property
    def transactions(self) -> int:
        """Number of transactions committed for turns and events."""
        statements = (self._save, self._begin, self._append, self._finish)
        return sum(each.transactions for each in statements)

    def encode(self, turn: Turn, conversation_id: str | None) -> EncodedTurn:
        """Raises `StoreRefused` if a turn is too large or not encodable."""
        values = self._encoder.encode(turn)
        return EncodedTurn(turn, values, _added(self._conversations, conversation_id, turn))

    async def save(self, encoded: EncodedTurn) -> None:
        """Save a turn that has no run."""
        if not encoded.has_conversation:
            await self._save.run(*encoded.values)
            return
        end = self._end_values(encoded.turn, False, 0, ())
        await self._finish.run(*encoded.values, *end, *encoded.conversation)

    async def begin(self, turn: Turn, start: RunStart) -> None:
        await self._begin.run(
            *self._encoder.encode(turn),
            turn.status,
            start.holder,
            start.is_background,
            start.is_streamed,
            start.request,
        )

    async def append(self, response_id: str, token: int, batches: Sequence[LoggedBatch]) -> None:
        values = (encode_text(response_id), token, *_columns(batches))
        row = await self._write(self._append, response_id, values)
        check_token(response_id, token, row["current"])
        check_order(response_id, row["last_seq"], batches, self._place)

    async def finish(
        self,
        encoded: EncodedTurn,
        has_run: bool | None,
        token: int,
        batches: Sequence[LoggedBatch],
    ) -> None:
        """Save a turn with the end of its run. `has_run` is None if it is not known whether its
        beginning was written."""
        turn = encoded.turn
        end = self._end_values(turn, has_run, token, batches)
        values = (*encoded.values, *end, *encoded.conversation)
        row = await self._write(self._finish, turn.id, values)
        check_token(turn.id, token, row["current"])
        check_order(turn.id, row["last_seq"], batches, self._place)

    async def close(self) -> None:
        """Finish pending writes."""
        for each in (self._save, self._begin, self._append, self._finish):
            await each.close()

    def _end_values(
        self, turn: Turn, has_run: bool | None, token: int, batches: Sequence[LoggedBatch]
    ) -> tuple[Any, ...]:
        log_expires_at = self._now() + self._log_ttl_s
        return (has_run, token, *_columns(batches), turn.status, log_expires_at)

    async def _write(
        self, statement: BatchedStatement, response_id: str, values: tuple[Any, ...]
    ) -> Any:
        """Run a statement of a run; remembers whether the next one may find it written."""
        is_repeated = response_id in self._uncertain
        try:
            row = await statement.run(*values, is_repeated=is_repeated)
        except StoreUnavailable:
            self._uncertain[response_id] = None
            if len(self._uncertain) > _MAX_UNCERTAIN:
                del self._uncertain[next(iter(self._uncertain))]
            raise
        self._uncertain.pop(response_id, None)
        return row


def _columns(batches: Sequence[LoggedBatch]) -> tuple[list[int], list[int], list[bytes]]:
    return (
        [batch.first_seq for batch in batches],
        [batch.last_seq for batch in batches],
        [batch.frames for batch in batches],
    )


def _added(
    conversations: PostgresConversations, conversation_id: str | None, turn: Turn
) -> tuple[Any, ...]:
    """Return the parameters that add a turn to its conversation, if it has one."""
    if conversation_id is None:
        return (None, "", 0, None, [], [])
    id, client, now, expires_at, _, ids, bodies = conversations.turn_values(conversation_id, turn)
    return (id, client, now, expires_at, ids, bodies)
