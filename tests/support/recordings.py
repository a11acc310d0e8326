"""Recordings replayed: their events, deltas and history."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from antiphon import replay
from antiphon.core.deltas import Delta
from antiphon.core.history.capsule import Sealer
from antiphon.core.history.pairing import pair_calls
from antiphon.core.history.read_items import read_items
from antiphon.core.history.steps import Step
from antiphon.core.plan.plan import Notes
from antiphon.core.plan.unseal import unseal_history
from antiphon.core.stream.source import Source
from antiphon.core.translation.translation import Translation
from antiphon.dialects.dialect import resolve
from tests.support.corpus import Case
from tests.support.machines import documents, machine
from tests.support.stream_validator import check
from tests.support.tables import Test, table

Document = dict[str, Any]


def every(cases: Iterable[Case]) -> Callable[[Test], Test]:
    """Run a test with each of these recordings."""
    return table("case", cases, ids=lambda case: case.id)


def streams(cases: Iterable[Case]) -> list[Case]:
    return [case for case in cases if not case.meta["wire"].startswith("json")]


def answers(cases: Iterable[Case]) -> list[Case]:
    return [case for case in cases if case.meta["http_status"] < 400]


def events_of(case: Case, **options: Any) -> list[Document]:
    return replay(case.data, dialect=case.meta["protocol"], **options)


def final(events: list[Document]) -> Document:
    response: Document = events[-1]["response"]
    return response


def parts_of(case: Case) -> list[Document]:
    """The parts of every message."""
    output = final(events_of(case))["output"]
    return [part for item in output if item["type"] == "message" for part in item["content"]]


def deltas_of(case: Case) -> list[Delta]:
    dialect = resolve(case.meta["protocol"])
    if case not in streams([case]):
        return dialect.decode(case.data)
    framer, decoder = dialect.framer(), dialect.decoder()
    frames = framer.feed(case.data) + framer.close()
    return [delta for frame in frames for delta in decoder.feed(frame)] + decoder.close()


def history_of(case: Case) -> tuple[Step, ...]:
    """The history of the next request: a message, the recorded answer, and another message."""
    sealer = Sealer(["key"], new_nonce=bytes, now=lambda: 0)
    translation = Translation(
        machine((), seal=partial(sealer.seal, "local", "p", "m")),
        Source(resolve(case.meta["protocol"])),
    )
    streamed = case in streams([case])
    events = (
        translation.feed(case.data) + translation.close()
        if streamed
        else translation.feed_whole(case.data)
    )
    sent = documents(events)
    check(sent)
    output = json.loads(json.dumps(final(sent)["output"]))
    results = [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "ok"}
        for item in output
        if item["type"] == "function_call"
    ]
    hi, go_on = ({"role": "user", "content": text} for text in ("hi", "go on"))
    items = [hi, *output, *results, go_on]
    steps, _ = read_items(items, inputs=frozenset({"text"}), tool_output_images=False)
    notes: Notes = []
    unseal = partial(sealer.open, "local")
    steps = unseal_history(steps, notes, issuer="p", model="m", unseal=unseal)
    assert not notes
    return pair_calls(steps)[0]


def comparable(document: Any) -> Any:
    """Without times and sealed state, and with ids in the order in which they appear."""
    text = re.sub(r'"(created_at|completed_at)": \d+', r'"\1": 0', json.dumps(document))
    text = re.sub(r', "encrypted_content": "[^"]*"', "", text)
    seen: dict[str, str] = {}
    for found in re.findall(r'"((?:resp|msg|rs|fc|ctc|sh)_\w+)"', text):
        seen.setdefault(found, f"id_{len(seen)}")
        text = text.replace(f'"{found}"', f'"{seen[found]}"')
    return json.loads(text)
