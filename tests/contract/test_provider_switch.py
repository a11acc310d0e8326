"""A thread may change its provider between any two turns, in any direction.

For every ordered pair of dialects a session of six turns goes back and forth between them, a turn
here and a turn there. No request may be refused by the strict judge of its native format, nothing
that was said or called may be missing from it, and each provider gets its own state back, and never
a stranger's. With one dialect on both sides the history is, to the byte, what a client of this
provider alone would send.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import msgspec
import pytest

from antiphon.core.history.capsule import Sealer
from antiphon.core.plan.plan import Plan
from antiphon.core.response import Response
from antiphon.core.stream.machine import ResponseMachine
from antiphon.core.stream.source import Source
from antiphon.core.translation.translation import Translation
from antiphon.dialects.dialect import DIALECTS
from tests.support.machines import counting_ids, documents
from tests.support.plans import make_plan
from tests.support.request_body import parse_body
from tests.support.scripted_providers.scripted_provider import ScriptedProvider, native_tail
from tests.support.scripted_providers.session import (
    SESSION,
    Document,
    Turn,
    echo_items,
    request_body,
    result_items,
    user_items,
)
from tests.support.scripted_providers.table import SCRIPTED_PROVIDERS
from tests.support.stream_validator import check
from tests.support.tables import table

BOTH = table(
    ("one", "other"),
    [
        pytest.param(one, other, id=f"{one} and {other}")
        for one, other in product(SCRIPTED_PROVIDERS, repeat=2)
    ],
)


class Thread:
    """A client and a gateway without stored state."""

    def __init__(self) -> None:
        nonces = iter(range(10**6))
        self._sealer = Sealer(
            ["a key"], new_nonce=lambda size: next(nonces).to_bytes(size, "big"), now=lambda: 1000
        )
        self._new_id = counting_ids()
        self.items: list[Document] = []
        self.plan = Plan(provider="", model="")

    def encode_request(self, scripted: ScriptedProvider) -> bytes:
        """Encode the request to the provider for the items so far."""
        body = json.dumps(request_body("m", self.items)).encode()
        self.plan = make_plan(
            parse_body(body),
            [],
            provider=scripted.name,
            model="m",
            capabilities=scripted.capabilities,
            issuer=scripted.name,
            unseal=partial(self._sealer.open, "local"),
        )
        return scripted.dialect.encode(self.plan, stream=True).body

    def read_answer(self, scripted: ScriptedProvider, turn: Turn) -> list[Document]:
        """Decode the provider's answer; return its items."""
        machine = ResponseMachine(
            Response(id="resp_1", created_at=1, model="m"),
            new_id=self._new_id,
            now=lambda: 2,
            tools=self.plan.identities,
            seal=partial(self._sealer.seal, "local", scripted.name, "m"),
            empty_arguments="{}",
        )
        translation = Translation(machine, Source(scripted.dialect))
        events = documents([*translation.feed(scripted.stream_bytes(turn)), *translation.close()])
        check(events)
        final = json.loads(msgspec.json.encode(events[-1]))["response"]
        assert final["status"] == "completed"
        output: list[Document] = final["output"]
        return output


def session(*scripted_providers: ScriptedProvider) -> Iterator[tuple[ScriptedProvider, int, bytes]]:
    """Run the session with one provider after another and yield every request."""
    thread = Thread()
    output: list[Document] = []
    for index, turn in enumerate(SESSION):
        thread.items += user_items(turn) or result_items(output, SESSION[index - 1])
        scripted = scripted_providers[index % len(scripted_providers)]
        yield scripted, index, thread.encode_request(scripted)
        output = thread.read_answer(scripted, turn)
        thread.items += echo_items(output)


def strings(value: Any) -> Iterator[str]:
    """Every string in a document, also inside embedded JSON."""
    if isinstance(value, str):
        yield value
        if value.startswith("{"):
            yield from strings(json.loads(value))
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings(each)


def test_every_dialect_has_a_scripted_provider() -> None:
    assert {type(scripted.dialect) for scripted in SCRIPTED_PROVIDERS.values()} == {
        type(dialect) for dialect in DIALECTS.values()
    }


@BOTH
def test_every_provider_accepts_a_thread_that_changes_provider_at_every_turn(
    one: str, other: str
) -> None:
    requests = list(session(SCRIPTED_PROVIDERS[one], SCRIPTED_PROVIDERS[other]))
    refused = [(index, scripted.problems(body)) for scripted, index, body in requests]
    assert refused == [(index, []) for index in range(len(SESSION))]


@BOTH
def test_no_text_is_missing_from_a_thread(one: str, other: str) -> None:
    scripted_providers = (SCRIPTED_PROVIDERS[one], SCRIPTED_PROVIDERS[other])
    for _, index, body in session(*scripted_providers):
        known = "".join(strings(json.loads(body)))
        for earlier in range(index):
            turn, scripted = SESSION[earlier], scripted_providers[earlier % 2]
            arguments = [json.loads(call.arguments) for call in turn.calls]
            answers = [call.result for call in turn.calls]
            for text in (turn.user, scripted.output_text(turn), *answers, *strings(arguments)):
                assert text in known


@BOTH
def test_each_provider_gets_only_its_own_state_back(one: str, other: str) -> None:
    scripted_providers = (SCRIPTED_PROVIDERS[one], SCRIPTED_PROVIDERS[other])
    for scripted, index, body in session(*scripted_providers):
        known = set(strings(json.loads(body)))
        thinks = b'"thinking":{"type":"disabled"}' not in body
        for earlier in range(index):
            turn, author = SESSION[earlier], scripted_providers[earlier % 2]
            for state in author.states(turn):
                if author is scripted:
                    assert state in known or not thinks
                elif state != turn.thought:  # what was thought in plain may be events to anybody
                    assert state not in known


@table("name", SCRIPTED_PROVIDERS)
def test_with_one_provider_a_thread_equals_the_vendors_own_client(name: str) -> None:
    for scripted, index, body in session(SCRIPTED_PROVIDERS[name]):
        assert body.endswith(native_tail(scripted, SESSION[: index + 1])), body.decode()


@table("start", range(len(SCRIPTED_PROVIDERS)))
def test_a_thread_may_use_another_provider_at_any_turn(start: int) -> None:
    scripted_providers = [*SCRIPTED_PROVIDERS.values()]
    for scripted, _, body in session(*scripted_providers[start:], *scripted_providers[:start]):
        assert scripted.problems(body) == []
