"""Pieces that go directly to the open item give the same bytes as those that take the long way.

The long way is the definition: every frame is split by lines and decoded in full, every delta
passes the filters and the machine, every event is encoded as a whole. Each recording, and each
golden transcript, is read both ways, cut at random, with each of the filters switched on. So are
streams of chunks that recordings do not have.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from antiphon.core.client_profile import OTHER
from antiphon.core.compaction.filters import CompactedContextFilter
from antiphon.core.deltas import Delta
from antiphon.core.events import Event
from antiphon.core.filters.filter import DeltaFilter
from antiphon.core.filters.simple_filters import (
    EmptyAnswerFilter,
    ReasoningSummaryFilter,
    RefusalTextFilter,
    SingleCallFilter,
)
from antiphon.core.freeform.filter import FreeformInputFilter
from antiphon.core.stream.machine import ResponseMachine
from antiphon.core.stream.source import Framer, Source, StreamDecoder
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.structured_output.filter import StructuredOutputFilter
from antiphon.core.tools.declaration import ToolChoice
from antiphon.core.tools.identity import Grammar, ToolIdentity, ToolIdentityMap
from antiphon.core.translation.next_step import Round
from antiphon.core.translation.translation import DeltaPath, Translation
from antiphon.core.web_search.citations import CitationFilter
from antiphon.core.web_search.filter import WebSearchFilter
from antiphon.core.web_search.rules import SearchRules
from antiphon.core.web_search.sources import NumberedSources, SearchResult
from antiphon.dialects.chat.decode import ChatDecoder
from antiphon.dialects.dialect import resolve
from antiphon.dialects.responses.render import SSEEncoder, encode_document
from antiphon.framing.limits import DEFAULT_LIMITS
from antiphon.framing.sse import Frame, SSEDecoder
from tests.support.corpus import cases
from tests.support.machines import counting_ids, machine
from tests.support.recordings import streams

STREAMS = 6000
GOLDEN = Path(__file__).parents[1] / "golden"


class Recording(NamedTuple):
    name: str
    dialect: str
    data: bytes


def recordings() -> Iterator[Recording]:
    for path in sorted(GOLDEN.glob("*/*/upstream.*")):
        if path.suffix != ".json":
            yield Recording(str(path.relative_to(GOLDEN)), path.parts[-3], path.read_bytes())
    for case in streams(cases()):
        yield Recording(case.id, case.meta["protocol"], case.data)


class EveryLine(SSEDecoder):
    """The framer without its shortcut."""

    def feed(self, chunk: bytes) -> list[Frame]:
        return self._feed_lines(chunk)


class EveryMember(ChatDecoder):
    """The decoder without its shortcut."""

    def _plain_piece(self, data: bytes) -> Delta | None:
        return None


class LongWayDialect:
    """A dialect whose framer and decoder take no shortcut."""

    def __init__(self, name: str) -> None:
        self._dialect = resolve(name)

    def framer(self, max_bytes: int = 1 << 30) -> Framer:
        framer = self._dialect.framer(max_bytes)
        return EveryLine(max_bytes) if type(framer) is SSEDecoder else framer

    def decoder(self) -> StreamDecoder:
        decoder = self._dialect.decoder()
        return EveryMember() if type(decoder) is ChatDecoder else decoder

    def decode(self, body: bytes) -> list[Delta]:
        return self._dialect.decode(body)

    def for_client(self, client_format: str) -> LongWayDialect:
        return self


class NoDirectWay(DeltaPath):
    """The direct way, closed for good."""

    def follow(self, delta: Delta | None) -> None:
        pass

    def take_whole(self, deltas: Sequence[Delta], events: list[Event]) -> bool:
        return False


class EveryStep(Translation):
    """The translation without its shortcut."""

    def __init__(
        self, machine: ResponseMachine, source: Source, filters: list[DeltaFilter]
    ) -> None:
        super().__init__(machine, source, filters)
        self.path = NoDirectWay(machine, filters, DEFAULT_LIMITS)


FREEFORM = ToolIdentity("edit", "edit", "custom", grammar=Grammar("regex", "[a-z]+"))
TOOLS = (FREEFORM, ToolIdentity("get_weather", "get_weather"))


def cited_sources() -> NumberedSources:
    known = NumberedSources()
    known.add(SearchResult(title="One", url="https://a.example/1"))
    return known


def search_filter() -> DeltaFilter:
    return WebSearchFilter(
        SearchRules(),
        history=(),
        tools=ToolIdentityMap(TOOLS),
        choice=ToolChoice(),
        new_id=counting_ids(),
    )


FILTERS: Mapping[str, Callable[[], DeltaFilter]] = {
    "empty answer": EmptyAnswerFilter,
    "reasoning summary": ReasoningSummaryFilter,
    "single call": SingleCallFilter,
    "refusal as text": lambda: RefusalTextFilter(OTHER),
    "compacted context": lambda: CompactedContextFilter({"summary": "s"}),
    "freeform input": lambda: FreeformInputFilter(ToolIdentityMap(TOOLS)),
    "structured output": lambda: StructuredOutputFilter(OutputContract(requested="json_object")),
    "web search": search_filter,
    "citations": lambda: CitationFilter(cited_sources()),
}
COMBINATIONS: Mapping[str, tuple[str, ...]] = {
    "none": (),
    **{name: (name,) for name in FILTERS},
    "agent": ("empty answer", "single call", "refusal as text"),
    "search": ("empty answer", "reasoning summary", "web search", "citations"),
}


def cut(data: bytes, choose: random.Random) -> list[bytes]:
    edges = sorted(choose.randrange(len(data) + 1) for _ in range(choose.choice([0, 3, 40])))
    return [data[a:b] for a, b in zip([0, *edges], [*edges, len(data)], strict=True)]


def translate(translation: Translation, source: Source, chunks: list[bytes]) -> list[list[Event]]:
    """Read the chunks, and again in a further round, if a filter wants one."""
    batches = [translation.feed(chunk) for chunk in chunks]
    batches.append(translation.close())
    if isinstance(translation.next, Round) and not translation.rounds:
        translation.begin_round()
        translation.read_from(source)
        batches += translate(translation, source, chunks)
    return batches


def directly(recording: Recording, filters: list[DeltaFilter], chunks: list[bytes]) -> bytes:
    source = Source(resolve(recording.dialect))
    encoder = SSEEncoder()
    batches = translate(Translation(machine(TOOLS), source, filters), source, chunks)
    return b"".join(encoder.feed(events) for events in batches)


def the_long_way(recording: Recording, filters: list[DeltaFilter], chunks: list[bytes]) -> bytes:
    source = Source(LongWayDialect(recording.dialect))
    translation = EveryStep(machine(TOOLS), source, filters)
    events = [event for batch in translate(translation, source, chunks) for event in batch]
    frames = []
    for number, event in enumerate(events):
        document = encode_document(event, number)
        name = document.partition(b'"type":"')[2].partition(b'"')[0]
        frames.append(b"event: %b\ndata: %b\n\n" % (name, document))
    return b"".join(frames)


def test_every_recording_gives_the_same_bytes_both_ways() -> None:
    choose = random.Random(24)
    count = 0
    for recording in recordings():
        for name, filters in COMBINATIONS.items():
            chunks = cut(recording.data, choose)
            quick = directly(recording, [FILTERS[each]() for each in filters], chunks)
            long = the_long_way(recording, [FILTERS[each]() for each in filters], chunks)
            assert quick == long, (recording.name, name, [len(chunk) for chunk in chunks])
            count += 1
    assert count > len(COMBINATIONS) * 50


def call(index: int, arguments: str | None, **more: Any) -> dict[str, Any]:
    name = more.pop("name", None)
    function = {"arguments": arguments} | ({} if name is None else {"name": name})
    return {"index": index, "function": function, **more}


TOOL_NAMES = ("get_weather", "edit", "web_search", "other")
PIECES: list[dict[str, Any]] = [
    {"content": "one "},
    {"content": "two [1] "},
    {"content": '{"a":'},
    {"content": ""},
    {"content": "é🙂", "role": "assistant", "refusal": None, "tool_calls": None},
    {"content": "x", "tool_calls": []},
    {"reasoning_content": "hmm "},
    {"reasoning": "well "},
    {"reasoning_content": "both", "content": "at once"},
    {"refusal": "No."},
    {"content": None, "annotations": [{"type": "url_citation", "url_citation": {"url": "u"}}]},
    *({"tool_calls": [call(0, "", id="a", name=name)]} for name in TOOL_NAMES),
    *({"tool_calls": [call(1, '{"x"', id="b", name=name)]} for name in TOOL_NAMES),
    {"tool_calls": [call(0, "abc")]},
    {"tool_calls": [call(0, '{"input": "lorem')]},
    {"tool_calls": [call(0, '"}')]},
    {"tool_calls": [call(1, "1")]},
    {"tool_calls": [call(2, "1")]},
    {"tool_calls": [call(0, "z", id="a")]},
    {"tool_calls": [call(0, "z", id="c")]},
    {"tool_calls": [call(0, "z", name="get_weather")]},
    {"tool_calls": [call(0, "1"), call(1, "2")]},
    {"tool_calls": [call(0, None)]},
    {"tool_calls": [call(0, "y")], "content": "text beside a call"},
]
LOGPROB = {"content": [{"token": "x", "logprob": -0.1, "bytes": None, "top_logprobs": []}]}
AROUND: list[dict[str, Any]] = [
    *[{}] * 12,
    {"usage": {"prompt_tokens": 1, "completion_tokens": 2}},
    {"service_tier": "flex"},
    {"service_tier": "default"},
    {"citations": ["https://a.example/2"]},
    {"logprobs": LOGPROB},
    {"finish_reason": "stop"},
    {"finish_reason": ""},
    {"index": 1},
    {"again": True},
    {"error": {"message": "It broke.", "type": "server_error"}},
]
OF_A_CHOICE = ("logprobs", "finish_reason", "index")


def make_chunk(piece: dict[str, Any], around: dict[str, Any]) -> bytes:
    """Make a chunk of a piece and of something that may stand beside it."""
    more = {name: value for name, value in around.items() if name not in OF_A_CHOICE}
    choice = {"index": 0, "delta": piece}
    choice |= {name: around[name] for name in OF_A_CHOICE if name in around}
    choices = [choice, choice] if more.pop("again", False) else [choice]
    return b"data: " + json.dumps({"model": "m", "choices": choices, **more}).encode() + b"\n\n"


BEHIND_A_CALL: list[dict[str, Any]] = [
    {"tool_calls": [call(0, "", id="a", name="get_weather")]},
    {"content": "waits"},
    {"tool_calls": [call(0, '{"x":')]},
    {"tool_calls": [call(0, "1}")]},
    {"content": " for the call"},
]
"""Text that waits until the arguments of a call are complete."""


def make_stream(choose: random.Random) -> list[bytes]:
    """Make the chunks of a stream. A piece comes several times in a row, as in real streams: the
    direct way begins with the second."""
    chunks = [make_chunk(each, {}) for each in choose.choice([[], BEHIND_A_CALL])]
    for _ in range(choose.randint(1, 6)):
        piece = choose.choice(PIECES)
        chunks += [make_chunk(piece, choose.choice(AROUND)) for _ in range(choose.randint(1, 4))]
    return chunks


def test_any_stream_of_chunks_gives_the_same_bytes_both_ways() -> None:
    for seed in range(STREAMS):
        choose = random.Random(seed)
        chunks = make_stream(choose)
        filters = COMBINATIONS[choose.choice(sorted(COMBINATIONS))]
        recording = Recording("synthetic", "chat", b"".join(chunks) + b"data: [DONE]\n\n")
        pieces = choose.choice([chunks, cut(recording.data, choose)])
        quick = directly(recording, [FILTERS[each]() for each in filters], pieces)
        long = the_long_way(recording, [FILTERS[each]() for each in filters], pieces)
        assert quick == long, (seed, filters, recording.data)


# Whole responses


def whole_recordings() -> Iterator[Recording]:
    for path in sorted(GOLDEN.glob("*/*/upstream.json")):
        yield Recording(str(path.relative_to(GOLDEN)), path.parts[-3], path.read_bytes())
    for case in cases():
        if case not in streams([case]):
            yield Recording(case.id, case.meta["protocol"], case.data)


def read_whole(translation: Translation, body: bytes) -> tuple[object, ...]:
    """Return the events of a body, and everything that is read of a translation after its end."""
    events = translation.feed_whole(body)
    machine, path = translation.machine, translation.path
    rest = (machine.phase, machine.has_ended, machine.fault, machine.pending_finish, machine.output)
    made = (machine.snapshot, machine.diagnostics, machine.has_output, translation.next)
    return (events, *rest, *made, path.has_output, path.is_holding_back, path.refused)


def check_whole(recording: Recording, filters: tuple[str, ...]) -> None:
    source = Source(resolve(recording.dialect))
    quick, long = (
        read_whole(kind(machine(TOOLS), source, [FILTERS[each]() for each in filters]), body)
        for kind, body in ((Translation, recording.data), (EveryStep, recording.data))
    )
    assert quick == long, (recording, filters)


def test_every_recorded_whole_response_gives_the_same_events_both_ways() -> None:
    found = [*whole_recordings()]
    for recording in found:
        for filters in COMBINATIONS.values():
            check_whole(recording, filters)
    assert len(found) > 20


WHOLE_MESSAGES: list[dict[str, Any]] = [
    *[{"content": "Hello."}] * 6,
    {"content": ""},
    {"content": '{"a":1}', "reasoning_content": "hmm"},
    *PIECES,
]
WHOLE_USAGE: list[Any] = [*[{"prompt_tokens": 3, "completion_tokens": 4}] * 4, {}, None, "much"]
FINISHES = ["stop", "stop", "stop", "end_turn", "length", "content_filter", "", None, "odd"]


def test_any_whole_response_gives_the_same_events_both_ways() -> None:
    for seed in range(STREAMS // 3):
        choose = random.Random(seed)
        around = choose.choice(AROUND)
        choice = {"index": 0, "message": choose.choice(WHOLE_MESSAGES)}
        choice["finish_reason"] = choose.choice(FINISHES)
        choice |= {name: around[name] for name in OF_A_CHOICE if name in around}
        more = {name: value for name, value in around.items() if name not in OF_A_CHOICE}
        body = {
            "model": choose.choice(["m", "", None]),
            "choices": [choice] * choose.choice([1, 2]),
        }
        body = {**body, "usage": choose.choice(WHOLE_USAGE), **more}
        filters = COMBINATIONS[choose.choice(sorted(COMBINATIONS))]
        check_whole(Recording(f"synthetic {seed}", "chat", json.dumps(body).encode()), filters)
