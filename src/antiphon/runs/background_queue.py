"""Queue of background responses: places for those that are generated, requests of those that wait.

A request is also stored with its response, so that another process can generate it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import msgspec

from antiphon.core.client_profile import Profile
from antiphon.core.items import Document
from antiphon.core.mcp.credentials import name_servers, without_credentials
from antiphon.dialects.responses.parse import parse_request
from antiphon.engine.engine import Engine
from antiphon.engine.services import Caller, Prepared, Services
from antiphon.errors import InvalidRequest
from antiphon.store.run_log import ClaimedRun


class AcceptedRequest(NamedTuple):
    """A request whose response is generated later, and the contexts to leave when that has
    ended."""

    services: Services
    prepared: Prepared
    held: ExitStack


class BackgroundQueue:
    """Places of one process, and the requests that it has accepted and that wait for one."""

    def __init__(self, places: int) -> None:
        self.free = places
        self._waiting: dict[str, AcceptedRequest] = {}
        """By response id; kept so that they need not be planned again."""
        self._no_claim = asyncio.Event()
        """Not set while a claim of queued responses reserves the free places."""
        self._no_claim.set()

    # Places

    async def take_place(self) -> bool:
        """Take a free place if no other response waits for one. A claim has all free places until
        it is known how many it needs."""
        while not (self._no_claim.is_set() or self._waiting):
            await self._no_claim.wait()
        has_room = self.free > 0 and not self._waiting
        self.free -= has_room
        return has_room

    @contextmanager
    def reserve_places(self) -> Iterator[int]:
        """Have all free places during a claim; yields their number."""
        free, self.free = self.free, 0
        self._no_claim.clear()
        try:
            yield free
        finally:
            self.free += free
            self._no_claim.set()

    def use_place(self) -> None:
        """Take a place for a response that was claimed."""
        self.free -= 1

    def return_place(self) -> None:
        self.free += 1

    # Requests that wait

    def add(self, response_id: str, accepted: AcceptedRequest) -> None:
        self._waiting[response_id] = accepted

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def ids(self) -> set[str]:
        """The responses that wait for a place."""
        return {*self._waiting}

    def take(self, response_id: str) -> AcceptedRequest | None:
        """Take the request of a response that is generated now, if this process has accepted it."""
        return self._waiting.pop(response_id, None)

    def drop(self, *response_ids: str) -> None:
        """Forget responses that are not generated here."""
        for response_id in response_ids:
            if (accepted := self._waiting.pop(response_id, None)) is not None:
                accepted.held.close()


class QueuedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a process needs to generate a response that another one has accepted."""

    request: Document
    client: str
    request_id: str
    profile: Profile
    locale: str
    languages: str = ""
    servers: list[str] = []
    """Labels of the MCP servers whose credentials only the process has that accepted it."""


_decode = msgspec.json.Decoder(QueuedRequest).decode


def encode_request(prepared: Prepared) -> bytes:
    """Encode a request for the store."""
    caller = prepared.caller
    return msgspec.json.encode(
        QueuedRequest(
            request=without_credentials(prepared.request.raw),
            client=caller.client,
            request_id=caller.request_id,
            profile=caller.profile,
            locale=caller.locale,
            languages=caller.languages,
            servers=name_servers(prepared.request.raw),
        )
    )


async def prepare_queued(engine: Engine, claimed: ClaimedRun) -> AcceptedRequest:
    """Prepare the request of a response that another process has accepted; raises `InvalidRequest`
    if that cannot be generated here."""
    queued = _decode(claimed.start.request)
    if queued.servers:
        raise _credentials_missing(queued.servers)
    caller = Caller(
        queued.client, queued.request_id, queued.profile, queued.locale, languages=queued.languages
    )
    prepared = await engine.prepare(
        parse_request(queued.request),
        caller,
        response_id=claimed.turn.id,
        created_at=claimed.turn.created_at,
    )
    return AcceptedRequest(engine.services, prepared, ExitStack())


def _credentials_missing(servers: Sequence[str]) -> InvalidRequest:
    names = ", ".join(map(repr, servers))
    return InvalidRequest(
        f"The response was not generated: the request has credentials for MCP servers ({names}),"
        " which are never stored, and the process of the gateway that accepted it did not begin it."
        " Send the request again, or configure the servers with their credentials ([mcp.servers])"
        " at the gateway."
    )
