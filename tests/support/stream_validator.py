"""Independent validator of event streams: `check(events)` for plain wire dictionaries.

It was written from the contract, not from the code it judges, and shares nothing with it. A rule is
named in every verdict: the numbers 1 to 15 are the ordering rules of a Responses stream, `fields`
are the shapes of events and items, `response` the fields every response object carries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.wire_schemas import (
    LAST_STAGES,
    STAGES,
    check_event,
    check_item,
    check_logprobs,
    check_response,
    demand,
    hosted_stage,
    is_count,
    is_known_item,
)

Event = Mapping[str, Any]
TERMINALS = ("response.completed", "response.failed", "response.incomplete")

# Part type → the event that carries its text, the field the text stands in, the item it lives in.
_PARTS = {
    "output_text": ("response.output_text", "text", "message"),
    "refusal": ("response.refusal", "refusal", "message"),
    "reasoning_text": ("response.reasoning_text", "text", "reasoning"),
    "summary_text": ("response.reasoning_summary_text", "text", "reasoning"),
}
_PART_OF_EVENT = {event: kind for kind, (event, _, _) in _PARTS.items()}
_WRITTEN = {
    "response.function_call_arguments": ("function_call", "arguments"),
    "response.custom_tool_call_input": ("custom_tool_call", "input"),
    "response.mcp_call_arguments": ("mcp_call", "arguments"),
}
_WRITTEN_FIELD = dict(_WRITTEN.values())
# Progress of hosted tools beside their stages → the item it belongs to.
_PROGRESS = {
    "response.code_interpreter_call_code": "code_interpreter_call",
    "response.image_generation_call": "image_generation_call",
    "response.shell_call_command": "shell_call",
    "response.shell_call_output_content": "shell_call_output",
    "response.compaction": "compaction",
}


@dataclass
class _Part:
    kind: str
    index: int
    deltas: list[str] = field(default_factory=list)
    logprobs: list[Any] = field(default_factory=list)
    annotations: list[Any] = field(default_factory=list)
    text_done: bool = False
    done: Mapping[str, Any] | None = None

    @property
    def text(self) -> str:
        return "".join(self.deltas)


@dataclass
class _Item:
    added: Mapping[str, Any]
    parts: list[_Part] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    written_done: bool = False
    stages: list[str] = field(default_factory=list)
    progress: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    done: Mapping[str, Any] | None = None

    @property
    def id(self) -> str:
        return str(self.added["id"])

    @property
    def type(self) -> str:
        return str(self.added["type"])

    @property
    def is_call(self) -> bool:
        return self.type.endswith("_call")

    @property
    def is_output(self) -> bool:
        """The result of a call that the server ran itself: it comes whole, and names the call."""
        return self.type.endswith("_output")

    def open_part(self) -> _Part | None:
        return next((part for part in self.parts if part.done is None), None)

    def of_kind(self, summary: bool) -> list[_Part]:
        return [part for part in self.parts if (part.kind == "summary_text") == summary]


class _Validator:
    """Reads the events once, in order, and keeps the state to check them against."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self.number = 0
        self.next_seq = 0
        self.items: list[_Item] = []
        self.running = False

    def demand(self, truth: object, rule: str, what: str) -> None:
        demand(truth, f"rule {rule}", f"event {self.number}: {what}")

    def run(self) -> None:
        self.demand(self.events, "1", "there are no events")
        for number, event in enumerate(self.events):
            self.number = number
            check_event(event, f"event {self.number}")
            self.check_place(event)
            self.step(event)

    def check_place(self, event: Event) -> None:
        kind, last = event["type"], self.number == len(self.events) - 1
        number = event.get("sequence_number")
        expected = self.next_seq - (kind == "keepalive")  # it repeats the last number
        self.demand(is_count(number) and number == expected, "2", f"numbered {number}")
        self.next_seq += kind != "keepalive"
        self.demand((kind == "response.created") == (self.number == 0), "1", "created comes first")
        self.demand(
            (kind in TERMINALS) == last, "3", "the terminal event is the last, and is there"
        )
        if kind == "error":
            followed = not last and self.events[self.number + 1]["type"] == "response.failed"
            self.demand(followed, "13", "an error is followed by response.failed")
            self.demand(
                event["error"].get("message") == event["message"], "13", "both shapes say the same"
            )

    def step(self, event: Event) -> None:
        kind = str(event["type"])
        if kind in _LIFECYCLE:
            _LIFECYCLE[kind](self, event)
        elif kind not in ("error", "keepalive"):
            self.demand(self.running, "1", "items come after response.in_progress")
            self.inside(kind, event)

    def inside(self, kind: str, event: Event) -> None:
        stem, _, verb = kind.rpartition(".")
        if hosted := hosted_stage(kind):
            self.hosted(event, *hosted)
        elif kind in _STEPS:
            _STEPS[kind](self, event)
        elif stem in _WRITTEN:
            self.write(event, stem, verb)
        elif stem in _PROGRESS:
            self.progressed(event, stem, verb)
        else:
            self.grow_part(event, _PART_OF_EVENT[stem], verb)

    # Lifecycle

    def begin(self, event: Event) -> None:
        self.check_early(event["response"], ("in_progress", "queued"))

    def queued(self, event: Event) -> None:
        self.demand(self.events[0]["response"]["status"] == "queued", "1", "it was not queued")
        self.demand(self.number == 1, "1", "response.queued comes right after response.created")
        self.check_early(event["response"], ("queued",))

    def progress(self, event: Event) -> None:
        self.demand(not self.running, "1", "response.in_progress comes once")
        self.check_early(event["response"], ("in_progress",))
        self.running = True

    def check_early(self, response: Mapping[str, Any], statuses: tuple[str, ...]) -> None:
        check_response(response, f"event {self.number}")
        self.demand(response["status"] in statuses, "1", f"it is {response['status']}")
        first = self.events[0]["response"]["id"]
        self.demand(response["id"] == first, "4", "the response id never changes")
        self.demand(response["output"] == [], "4", "no output in an early snapshot")

    def end(self, event: Event) -> None:
        response, status = event["response"], str(event["type"]).rpartition(".")[2]
        self.demand(self.running, "1", "response.in_progress was never sent")
        check_response(response, f"event {self.number}")
        self.demand(response["id"] == self.events[0]["response"]["id"], "4", "the same response id")
        self.demand(response["status"] == status, "3", f"status {response['status']}")
        self.demand(len(response["output"]) == len(self.items), "5", "every item is in the output")
        for output_index, (item, final) in enumerate(
            zip(self.items, response["output"], strict=True)
        ):
            self.end_item(item, final, status)
            cut = final.get("status") == "incomplete"
            if cut:
                self.demand(status != "completed", "12", "a completed response has whole items")
                at_end = (
                    output_index == len(self.items) - 1 or item.is_call
                )  # calls are cut together
                self.demand(at_end, "12", "only the last item may be incomplete")

    def end_item(self, item: _Item, final: Mapping[str, Any], status: str) -> None:
        check_item(final, f"event {self.number}")
        if item.done is not None:
            self.demand(final == item.done, "5", f"{item.id} is the same in the output")
            return
        self.demand(status == "failed", "5", f"{item.id} was never done")
        self.check_identity(item, final)
        self.check_text(item, final)

    # Items

    def add_item(self, event: Event) -> None:
        item = event["item"]
        check_item(item, f"event {self.number}")
        self.demand(event["output_index"] == len(self.items), "5", "items are counted from 0")
        self.demand(item["id"] not in {other.id for other in self.items}, "5", "ids are unique")
        added = _Item(item)
        known = [other for other in self.items if is_known_item(other.added)]
        calls = {other.added.get("call_id") for other in known if not other.is_output}
        is_call = is_known_item(item) and not added.is_output
        fresh = not is_call or item.get("call_id") not in calls - {None, ""}
        self.demand(fresh, "5", "call ids are unique")
        begun = added.is_output or item.get("status", "in_progress") == "in_progress"
        self.demand(begun, "5", "it has just begun")
        written = ("content", "summary", _WRITTEN_FIELD.get(added.type, "content"))
        for name in written if is_known_item(item) else ():
            self.demand(not item.get(name), "5", f"{name} is empty at first")
        if self.items and self.items[-1].done is None:
            # A call cut off by a failure is never done, but what waited behind it is still told.
            failing = self.events[-1]["type"] == "response.failed" and self.items[-1].is_call
            never = not any(_finishes(later, len(self.items) - 1) for later in self.events)
            self.demand(failing and never, "11", "one item is open at a time")
        self.items.append(added)

    def current(self, event: Event) -> _Item:
        output_index = event["output_index"]
        self.demand(output_index < len(self.items), "5", f"item {output_index} was never added")
        item = self.items[output_index]
        self.demand(
            output_index == len(self.items) - 1, "11", f"item {output_index} is not the open one"
        )
        self.demand(item.done is None, "5", f"{item.id} is done already")
        if "item_id" in event:
            self.demand(event["item_id"] == item.id, "5", f"item {output_index} is {item.id}")
        return item

    def finish_item(self, event: Event) -> None:
        item, final = self.current(event), event["item"]
        check_item(final, f"event {self.number}")
        self.check_identity(item, final)
        ended = final.get("status", "completed") in ("completed", "incomplete", "failed")
        self.demand(ended, "5", "a done item has ended")
        self.demand(item.open_part() is None, "6", "every part is done before its item")
        if item.type in _WRITTEN_FIELD:
            self.demand(item.written_done, "7", f"{_WRITTEN_FIELD[item.type]}.done comes first")
        if item.stages and final.get("status", "completed") == "completed":
            self.demand(item.stages[-1] in LAST_STAGES, "10", "a hosted call ends before its item")
        self.check_text(item, final)
        item.done = final

    def check_identity(self, item: _Item, final: Mapping[str, Any]) -> None:
        for name in ("id", "type", "call_id", "name", "namespace", "role"):
            same = final.get(name) == item.added.get(name)
            self.demand(same, "5", f"{name} of {item.id} never changes")

    def check_text(self, item: _Item, final: Mapping[str, Any]) -> None:
        """What was streamed is what the item holds."""
        if name := _WRITTEN_FIELD.get(item.type):
            self.demand(final[name] == "".join(item.written), "7", f"{name} is what was streamed")
        if item.type in ("message", "reasoning"):
            parts = item.of_kind(summary=False)
            found = final.get("content") or []
            self.demand(len(found) == len(parts), "6", "content has the parts that were streamed")
            pairs = zip(parts, found, strict=True)
            content = [part.done or _so_far(part, last) for part, last in pairs]
            self.demand(found == content, "6", "content is what was streamed")
            summary = [part.done or _so_far(part) for part in item.of_kind(summary=True)]
            self.demand((final.get("summary") or []) == summary, "8", "summary was streamed")

    # Parts

    def add_part(self, event: Event) -> None:
        item, kind = self.current(event), event["part"].get("type")
        is_summary = event["type"] == "response.reasoning_summary_part.added"
        self.demand(kind in _PARTS and (kind == "summary_text") == is_summary, "6", f"part {kind}")
        _, name, home = _PARTS[kind]
        self.demand(item.type == home, "6", f"no {kind} in a {item.type}")
        self.demand(item.open_part() is None, "6", "one part is open at a time")
        index = event["summary_index" if is_summary else "content_index"]
        self.demand(index == len(item.of_kind(is_summary)), "6", "parts are counted from 0")
        self.demand(event["part"].get(name) == "", "6", "a part begins empty")
        self.demand(not event["part"].get("annotations"), "9", "a part begins without annotations")
        item.parts.append(_Part(kind, index))

    def part(self, event: Event, kind: str) -> _Part:
        part = self.current(event).open_part()
        assert_open = part is not None and part.kind == kind
        self.demand(assert_open, "8" if "summary" in kind else "6", f"no {kind} part is open")
        assert part is not None
        index = event.get("content_index", event.get("summary_index"))
        self.demand(index == part.index, "6", f"part {part.index} is the open one")
        return part

    def grow_part(self, event: Event, kind: str, verb: str) -> None:
        part = self.part(event, kind)
        self.demand(not part.text_done, "6", "the text is done already")
        if kind == "output_text":
            check_logprobs(event["logprobs"], f"event {self.number}")
        if verb == "delta":
            part.deltas.append(event["delta"])
            part.logprobs += event.get("logprobs", [])
            return
        text = event[_PARTS[kind][1]]
        self.demand(text == part.text, "6", "the done text is the sum of its deltas")
        same = event.get("logprobs", []) == part.logprobs
        self.demand(same, "15", "the done logprobs are those of the deltas")
        part.text_done = True

    def annotate(self, event: Event) -> None:
        part = self.part(event, "output_text")
        self.demand(not part.text_done, "9", "annotations come before the text is done")
        counted = event["annotation_index"] == len(part.annotations)
        self.demand(counted, "9", "annotations are counted from 0")
        part.annotations.append(event["annotation"])

    def finish_part(self, event: Event) -> None:
        final = event["part"]
        part = self.part(event, str(final.get("type")))
        self.demand(part.text_done, "6", "the text is done before its part")
        self.demand(final[_PARTS[part.kind][1]] == part.text, "6", "the part is what was streamed")
        same = final.get("annotations", []) == part.annotations
        self.demand(same, "9", "the part holds the annotations that were added")
        same = final.get("logprobs", []) == part.logprobs
        self.demand(same, "15", "the part holds the logprobs that were streamed")
        part.done = final

    # Calls

    def write(self, event: Event, stem: str, verb: str) -> None:
        item = self.current(event)
        home, name = _WRITTEN[stem]
        self.demand(item.type == home, "7", f"no {name} in a {item.type}")
        self.demand(not item.written_done, "7", f"the {name} is done already")
        if verb == "delta":
            item.written.append(event["delta"])
            return
        self.demand(event[name] == "".join(item.written), "7", f"the {name} is what was streamed")
        item.written_done = True

    def progressed(self, event: Event, stem: str, verb: str) -> None:
        """Code and commands come in pieces, whose sum is what the done event says."""
        item = self.current(event)
        self.demand(item.type == _PROGRESS[stem], "10", f"no {stem} in a {item.type}")
        index = event.get("command_index", 0)
        whole = event.get("code", event.get("command"))
        pieces = item.progress.setdefault((stem, index), [])
        if verb == "delta" and isinstance(event["delta"], str):
            pieces.append(event["delta"])
        elif verb == "done" and whole is not None:
            self.demand(whole == "".join(pieces), "10", f"{stem} is what was streamed")

    def hosted(self, event: Event, call: str, setup: str) -> None:
        item = self.current(event)
        self.demand(item.type == call, "10", f"no {call} in a {item.type}")
        ranks = [STAGES.get(name, 2) for name in (*item.stages, setup)]
        self.demand(ranks[0] == 0, "10", "a hosted call begins with in_progress")
        self.demand(ranks == sorted(set(ranks)), "10", "the stages of a call follow each other")
        item.stages.append(setup)


_LIFECYCLE: Mapping[str, Callable[[_Validator, Event], None]] = {
    "response.created": _Validator.begin,
    "response.queued": _Validator.queued,
    "response.in_progress": _Validator.progress,
    **dict.fromkeys(TERMINALS, _Validator.end),
}
_STEPS: Mapping[str, Callable[[_Validator, Event], None]] = {
    "response.output_item.added": _Validator.add_item,
    "response.output_item.done": _Validator.finish_item,
    "response.content_part.added": _Validator.add_part,
    "response.content_part.done": _Validator.finish_part,
    "response.reasoning_summary_part.added": _Validator.add_part,
    "response.reasoning_summary_part.done": _Validator.finish_part,
    "response.output_text.annotation.added": _Validator.annotate,
}


def _finishes(event: Event, output_index: int) -> bool:
    done = event["type"] == "response.output_item.done"
    return done and event.get("output_index") == output_index


def _so_far(part: _Part, final: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The document of a part that was not ended. Members of a provider's own format (`extra`) may
    come until the end of the part: they are those of the `final` one."""
    document: dict[str, Any] = {"type": part.kind, _PARTS[part.kind][1]: part.text}
    if part.kind == "output_text":
        document |= {"annotations": part.annotations, "logprobs": part.logprobs}
    return document | {"extra": final["extra"]} if final and "extra" in final else document


def check(events: Sequence[Event]) -> None:
    """Raise AssertionError, naming the rule and the event, unless the stream keeps every rule."""
    _Validator(events).run()
