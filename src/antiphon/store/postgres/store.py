"""PostgreSQL store of turns: batched writes, a pool of connections, any number of gateways."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from antiphon.core.items import Document
from antiphon.errors import StoreError
from antiphon.store.chain import check_finished, decode_chain, max_links, measure_chain
from antiphon.store.decode_thread import DecodeThread
from antiphon.store.item_references import ItemCollector, OutputCollector
from antiphon.store.postgres.address import parse_address
from antiphon.store.postgres.call_states import PostgresCallStates
from antiphon.store.postgres.claims import GRACE_S
from antiphon.store.postgres.connections import Connections
from antiphon.store.postgres.conversations import LeaseClock, PostgresConversations
from antiphon.store.postgres.migrate import migrate
from antiphon.store.postgres.retention import Retention
from antiphon.store.postgres.runs import PostgresRuns
from antiphon.store.postgres.text import decode_text, encode_text
from antiphon.store.postgres.usage import PostgresUsageTable
from antiphon.store.turn import Clock, ItemLocation, StoreLimits, Turn, decode_turn, key_of_call

WAIT_S = 5.0
POOL_SIZE = 8
MAINTAIN_EVERY_S = 60.0
_log = logging.getLogger("antiphon.store")

_FOUND = """
    (turn.owner = $2 OR turn.owner IS NULL) AND (turn.expires_at IS NULL OR turn.expires_at > $3)
"""
_LOAD = f"SELECT body, expires_at FROM turn WHERE id = $1 AND {_FOUND}"
# The row of a run is locked before that of its turn, as by a run that ends: no deadlock.
_DELETE = f"""
    WITH locked AS MATERIALIZED (
        SELECT run.turn FROM run JOIN turn ON turn.seq = run.turn
        WHERE turn.id = $1 AND {_FOUND} FOR UPDATE OF run
    ), is_locked AS MATERIALIZED (
        SELECT count(*) FROM locked
    ), deleted AS (
        DELETE FROM turn USING is_locked WHERE turn.id = $1 AND {_FOUND} RETURNING turn.id
    ), unlocked AS (
        UPDATE conversation SET locked_by = NULL, lock_holder = NULL FROM deleted
        WHERE conversation.locked_by = deleted.id
    )
    SELECT id FROM deleted
"""
# UNION drops duplicates, so a cycle terminates; `follow_chain` then reports it.
_CHAIN = f"""
    WITH RECURSIVE link (id, seq, parent, expires_at, size) AS (
        SELECT turn.id, turn.seq, turn.previous_response_id, turn.expires_at,
            octet_length(turn.body)
        FROM turn WHERE turn.id = $1 AND {_FOUND}
        UNION
        SELECT turn.id, turn.seq, turn.previous_response_id, turn.expires_at,
            octet_length(turn.body)
        FROM link JOIN turn ON turn.id = link.parent WHERE {_FOUND}
    ), newest AS (
        SELECT * FROM link LIMIT $4
    )
    SELECT newest.*, CASE WHEN (SELECT sum(size) FROM newest) <= $5 THEN (
        SELECT body FROM turn WHERE turn.seq = newest.seq
    ) END AS body FROM newest
"""
_ITEMS = f"""
    SELECT wanted.id, place.seq, place.is_input, place.position
    FROM unnest($1::text[]) AS wanted (id) CROSS JOIN LATERAL (
        SELECT turn.seq, item.is_input, item.position
        FROM item JOIN turn ON turn.seq = item.turn
        WHERE item.id = wanted.id AND {_FOUND}
            AND (turn.owner IS NOT NULL OR turn.client IN ('', $2) OR NOT item.is_input)
        ORDER BY item.is_input, item.turn DESC LIMIT 1
    ) AS place
"""
_CONVERSATION_ITEMS = """
    SELECT wanted.id, found.body
    FROM unnest($1::text[]) AS wanted (id) CROSS JOIN LATERAL (
        SELECT item.body FROM conversation_item AS item
        JOIN conversation ON conversation.seq = item.conversation
        WHERE item.id = wanted.id AND conversation.owner IN ('', $2)
            AND (conversation.expires_at IS NULL OR conversation.expires_at > $3)
        ORDER BY item.seq DESC LIMIT 1
    ) AS found
"""
_BODY = "SELECT seq, body FROM turn WHERE seq = ANY ($1)"
_BODIES = 50  # turns whose bodies are in memory at a time
_RENEW = "UPDATE turn SET expires_at = $1 WHERE id = ANY ($2)"
_PROBE = "UPDATE probe SET checked_at = now()"


def _database_time() -> None:
    return None


class _ChainRow(NamedTuple):
    """A turn of a chain."""

    id: str
    """As it is stored, and so is `parent`."""
    seq: int
    parent: str | None
    expires_at: int | None
    size: int
    body: bytes | None

    @property
    def previous_response_id(self) -> str | None:
        return None if self.parent is None else decode_text(self.parent)


class PostgresStore:
    """A `Store` in one schema of a PostgreSQL database."""

    def __init__(
        self,
        url: str,
        *,
        now: Clock,
        lease_now: LeaseClock = _database_time,
        limits: StoreLimits | None = None,
        wait_s: float = WAIT_S,
        pool_size: int = POOL_SIZE,
        grace_s: float = GRACE_S,
    ) -> None:
        self._limits = limits = limits or StoreLimits()
        self._now = now
        self._connections = Connections(parse_address(url), wait_s=wait_s, pool_size=pool_size)
        self._decoding = DecodeThread()
        self._conversations = PostgresConversations(
            self._connections, self._decoding, now=now, lease_now=lease_now, limits=limits
        )
        self._retention = Retention(self._connections, now=now, limits=limits)
        self._runs = PostgresRuns(
            self._connections,
            self._conversations,
            self._retention,
            now=now,
            lease_now=lease_now,
            limits=limits,
            grace_s=grace_s,
        )
        self._usage = PostgresUsageTable(self._connections)
        self._call_states = PostgresCallStates(self._connections, now=now, limits=limits)
        self._maintaining: asyncio.Task[None] | None = None

    @property
    def transactions(self) -> int:
        """Number of transactions committed for turns and events."""
        return self._runs.transactions

    @property
    def name(self) -> str:
        return self._connections.address.name

    @property
    def runs(self) -> PostgresRuns:
        return self._runs

    @property
    def conversations(self) -> PostgresConversations:
        return self._conversations

    @property
    def usage(self) -> PostgresUsageTable:
        return self._usage

    @property
    def call_states(self) -> PostgresCallStates:
        return self._call_states

    async def open(self) -> None:
        await migrate(self._connections.address)
        await self._connections.open()
        self._maintaining = asyncio.get_running_loop().create_task(self._maintain())

    async def close(self) -> None:
        if self._maintaining is not None:
            self._maintaining.cancel()
            await asyncio.wait((self._maintaining,))
        await self._runs.close()
        await self._conversations.close()
        self._decoding.close()
        await self._connections.close()

    async def check(self) -> None:
        await self._connections.fetch(_PROBE)

    async def save(self, turn: Turn, *, conversation_id: str | None = None) -> None:
        await self._runs.save(turn, conversation_id)

    async def load(self, response_id: str, *, client: str = "") -> Turn | None:
        row = await self._connections.fetch_row(_LOAD, *self._key(response_id, client))
        return None if row is None else decode_turn(row["body"], row["expires_at"])

    async def delete(self, response_id: str, *, client: str = "") -> bool:
        await self._runs.begin_now(response_id)  # so that its end is refused
        key = self._key(response_id, client)

        async def work(connection: Any, is_repeated: bool) -> bool:
            return bool(await connection.fetch(_DELETE, *key)) or is_repeated

        return await self._connections.run(work)

    async def chain(
        self, response_id: str, *, client: str = "", truncate: bool = False
    ) -> list[Turn]:
        limits = self._limits
        key = self._key(response_id, client)
        most = limits.max_history_bytes
        rows = await self._connections.fetch(_CHAIN, *key, max_links(limits), most)
        links = {row["id"]: _ChainRow(*row.values()) for row in rows}
        kept = measure_chain(
            response_id,
            lambda id: links.get(id) or links.get(encode_text(id)),
            limits,
            truncate=truncate,
        )
        bodies = await self._load_bodies([*kept.values()])
        decode = partial(decode_chain, bodies, limits, truncate=truncate)
        turns = await self._decoding.run(decode, sum(link.size for link in kept.values()))
        await self._renew(turns, key[2])
        check_finished(turns)
        return turns

    async def _load_bodies(self, links: Sequence[_ChainRow]) -> list[tuple[bytes, int | None]]:
        """Return the bodies of turns, and when these expire. They are read already unless the
        oldest turns of their chain were left out."""
        found = {link.seq: link.body for link in links}
        if None in found.values():
            rows = await self._connections.fetch(_BODY, [*found])
            found = {row["seq"]: row["body"] for row in rows}
        bodies = [(found.get(link.seq), link.expires_at) for link in links]
        return [(body, expires_at) for body, expires_at in bodies if body is not None]

    async def load_items(
        self, item_ids: Collection[str], *, client: str = ""
    ) -> dict[str, Document]:
        ids = {
            encode_text(id): id for id in item_ids if id.encode("utf-8", "replace").decode() == id
        }
        if not ids:
            return {}
        key = ([*ids], encode_text(client), self._now())
        wanted: defaultdict[int, dict[str, ItemLocation]] = defaultdict(dict)
        for row in await self._connections.fetch(_ITEMS, *key):
            wanted[row["seq"]][ids[row["id"]]] = ItemLocation(row["is_input"], row["position"])
        collector = ItemCollector()
        seqs = [*wanted]
        for first in range(0, len(seqs), _BODIES):
            for row in await self._connections.fetch(_BODY, seqs[first : first + _BODIES]):
                add = partial(collector.add, row["body"], wanted[row["seq"]])
                await self._decoding.run(add, len(row["body"]))
        if missing := [text for text, id in ids.items() if id not in collector.items]:
            for row in await self._connections.fetch(_CONVERSATION_ITEMS, missing, *key[1:]):
                add = partial(collector.add_item, ids[row["id"]], row["body"])
                await self._decoding.run(add, len(row["body"]))
        return collector.items

    async def load_outputs(
        self, call_ids: Collection[str], *, client: str = ""
    ) -> dict[str, list[Document]]:
        keys = {encode_text(key_of_call(id)): id for id in call_ids}
        owner = (encode_text(client), self._now())
        wanted: defaultdict[int, list[str]] = defaultdict(list)
        for row in await self._connections.fetch(_ITEMS, [*keys], *owner) if keys else ():
            wanted[row["seq"]] += [] if row["is_input"] else [keys[row["id"]]]
        collector = OutputCollector()
        seqs = [*wanted]
        for first in range(0, len(seqs), _BODIES):
            for row in await self._connections.fetch(_BODY, seqs[first : first + _BODIES]):
                add = partial(collector.add, row["body"], wanted[row["seq"]])
                await self._decoding.run(add, len(row["body"]))
        return collector.outputs

    def _key(self, response_id: str, client: str) -> tuple[str, str, int]:
        return encode_text(response_id), encode_text(client), self._now()

    async def _renew(self, turns: list[Turn], now: int) -> None:
        """Extend the lifetime of a chain that is in use, at most once per half a lifetime."""
        needs_renewal = self._limits.needs_renewal
        ids = [encode_text(turn.id) for turn in turns if needs_renewal(turn.expires_at, now)]
        if ids:
            with suppress(StoreError):  # the next reading renews them
                await self._connections.fetch(_RENEW, self._limits.expiry(now), ids)

    async def _maintain(self) -> None:
        """Delete what has expired, once a minute."""
        while True:
            await asyncio.sleep(MAINTAIN_EVERY_S)
            try:
                await self._retention.purge()
            except StoreError as error:  # retried in the next round
                _log.warning("%s", error)
