"""A tool call while it grows: pieces of id, name and arguments in, one item of the right type out.

1. A call is announced once its type is certain, and keeps that type. A function is certain when its
   name and id are known; a custom call when the opening of `{"input": "` has been read; every
   other type when its arguments are complete. What does not open or parse as agreed is a function.
2. A name may come in pieces, or again with every piece; the tools we declared tell which.
3. A call is settled when its arguments form one complete JSON value, or its provider said so.
   An unsettled call is never published as completed unless the whole response is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import msgspec

from antiphon.core.stream.deltas import ToolCall
from antiphon.core.stream.json_field import FieldState, JSONProgress, JSONStringField
from antiphon.core.stream.partial_call import learned
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.core.tools.restore import Call, as_custom_call, as_function_call, restore
from antiphon.errors import InvalidTransition
from antiphon.wire.events import (
    ArgumentsDelta,
    ArgumentsDone,
    Event,
    InputDelta,
    InputDone,
    ItemAdded,
    ItemDone,
)
from antiphon.wire.items import CallItem, CustomToolCall, FunctionCall, Item, Status, ToolSearchCall


class CallBlock:
    prefix: ClassVar[str] = "fc"

    def __init__(
        self, index: int, tools: ToolIdentityMap, new_id: Callable[[str], str], empty_arguments: str
    ) -> None:
        self.index = index
        self.output_index = -1
        self.announced = False
        self.closed = False
        self.truncated = False
        self._live = False
        self._ended = False
        self._tools = tools
        self._new_id = new_id
        self._empty_arguments = empty_arguments
        self._id = ""
        self._call_id: str | None = None
        self._name = ""
        self._freeform = False
        self._pieces: list[str] = []
        self._unread: list[str] = []
        self._scanned = 0
        self._json = JSONProgress()
        self._field: JSONStringField | None = None
        self._input: list[str] = []
        self._type: Literal["function", "custom"] | None = None

    # What is known so far

    @property
    def nameless(self) -> bool:
        return not self._name

    @property
    def _progress(self) -> JSONProgress:
        """How far the arguments have come; they are scanned once, and only if somebody asks."""
        for piece in self._pieces[self._scanned :]:
            self._json.feed(piece)
        self._scanned = len(self._pieces)
        return self._json

    @property
    def settled(self) -> bool:
        """It is whole and nothing more can come, so the next item may go on the air."""
        if self.truncated:
            return False
        return self._ended or (self._progress.complete and not self._freeform)

    @property
    def over(self) -> bool:
        return self.closed or self.settled

    @property
    def unfinished(self) -> bool:
        """The provider said so, or the arguments have begun as JSON and visibly not ended."""
        return self.truncated or (self._progress.open and not self._freeform)

    def _identity(self) -> ToolIdentity | None:
        return self._tools.restored(self._name)

    # Growing

    def accept(self, delta: ToolCall) -> None:
        """Raise if this piece cannot belong to this call; nothing has changed then."""
        if delta.call_id and self._call_id and delta.call_id != self._call_id:
            raise InvalidTransition(f"toolCall.id: call {self.index} has another id already")
        if self.closed and (delta.arguments.strip() or self._is_news(delta.name)):
            raise InvalidTransition(f"toolCall.index: call {self.index} has ended")
        if self.announced and self._is_news(delta.name):
            raise InvalidTransition(f"toolCall.name: call {self.index} has another name already")

    def _is_news(self, name: str | None) -> bool:
        return bool(name) and name != self._name

    def grow(self, delta: ToolCall) -> list[Event]:
        if self.closed:
            return []
        self._call_id = self._call_id or delta.call_id
        self._freeform = self._freeform or delta.kind == "custom"
        if delta.name and not self.announced:
            self._name = learned(self._name, delta.name, self._tools)
        if not delta.arguments:
            return self._announce() if self._live and not self.announced else []
        self._pieces.append(delta.arguments)
        if not self.announced:
            self._unread.append(delta.arguments)
        if not self._live:
            return []
        return self._stream(delta.arguments) if self.announced else self._announce()

    def revise(self, text: str) -> None:
        """The whole input, after all; what was told of it was only how it began."""
        self._pieces = [text]
        self._field, self._freeform = None, True

    def end(self, *, complete: bool) -> None:
        self._ended = True
        cut = self._progress.open and not self._freeform  # whatever the provider says
        self.truncated = self.truncated or cut or not complete

    def end_round(self) -> None:
        """Nothing more will come in this round; only free text may be held back for the next."""
        self._ended = self._ended or not (self._freeform or self.unfinished)

    # Announcing and streaming

    def go_live(self, output_index: int) -> list[Event]:
        self._live = True
        self.output_index = output_index
        return self._announce()

    def _announce(self) -> list[Event]:
        """The events that make the item known, as soon as its type is certain."""
        if not self._call_id or not self._name_is_final():
            return []
        self._type = self._certain_type()
        if self._type is None:
            return []
        return self._added(self._blank(self._type)) + self._catch_up()

    def _name_is_final(self) -> bool:
        return self._name in self._tools or bool(self._name and self._pieces)

    def _certain_type(self) -> Literal["function", "custom"] | None:
        if self._freeform:
            return "custom"
        identity = self._identity()
        requested = identity.requested_type if identity else "function"
        if requested == "function":
            return "function"
        if requested == "custom":
            return self._read_wrapper()
        return None

    def _read_wrapper(self) -> Literal["function", "custom"] | None:
        if self._field is None:
            self._field = JSONStringField("input")
        fresh, self._unread = "".join(self._unread), []
        self._input.append(self._field.feed(fresh))
        if self._field.state is FieldState.MISMATCH:
            return None  # another field may still hold the input: decided when it is complete
        return None if self._field.state is FieldState.PENDING else "custom"

    def _added(self, item: CallItem) -> list[Event]:
        self.announced = True
        return [ItemAdded(self.output_index, item)]

    def _catch_up(self) -> list[Event]:
        """One delta for all that was written before the announcement."""
        parts = self._input if self._field is not None else self._pieces
        text = "".join(parts)
        return [self._delta(text)] if text else []

    def _stream(self, fragment: str) -> list[Event]:
        if self._field is None:
            return [self._delta(fragment)]
        text = self._field.feed(fragment)
        if not text:
            return []
        self._input.append(text)
        return [self._delta(text)]

    def _delta(self, text: str) -> Event:
        if self._type == "custom":
            return InputDelta(self._id, self.output_index, text)
        return ArgumentsDelta(self._id, self.output_index, text)

    # The item

    def _call(self, status: Status, arguments: str) -> Call:
        return Call(self._id, self._call_id or "", self._name, arguments, status)

    def _blank(self, kind: Literal["function", "custom"]) -> CallItem:
        self._id = self._new_id("ctc" if kind == "custom" else self.prefix)
        call = self._call("in_progress", "")
        if kind == "custom":
            return as_custom_call(self._identity(), call, "")
        return as_function_call(self._identity(), call)

    def item(self, status: Status = "in_progress") -> Item:
        call = self._call(status, "".join(self._pieces))
        if self._type == "custom":
            text = "".join(self._pieces if self._field is None else self._input)
            return as_custom_call(self._identity(), call, text)
        return as_function_call(self._identity(), call)

    # Closing

    def status(self, *, ended_well: bool) -> Status:
        """Completed if the provider finished well, or the call can be shown to be whole."""
        return "completed" if ended_well or self.settled else "incomplete"

    def close(self, status: Status) -> tuple[list[Event], Item]:
        """End a call that has a name; one without has no item."""
        events: list[Event] = []
        self._call_id = self._call_id or self._new_id("call")
        if status == "completed" and self._progress.empty and self._fills_arguments():
            events += self.grow(ToolCall(self.index, arguments=self._empty_arguments))
        self.closed = True
        if self.announced:
            item = self.item(status)
        else:
            item = self._restored(status)
            events += self._announce_whole(item)
        return [*events, *self._done(item), ItemDone(self.output_index, item)], item

    def _fills_arguments(self) -> bool:
        return bool(self._empty_arguments) and not self._freeform

    def _restored(self, status: Status) -> CallItem:
        if self._freeform:
            self._id = self._new_id("ctc")
            call = self._call(status, "")
            return as_custom_call(self._identity(), call, "".join(self._pieces))
        item = restore(self._identity(), self._call(status, "".join(self._pieces)))
        self._id = self._new_id(_PREFIXES.get(type(item), self.prefix))
        return msgspec.structs.replace(item, id=self._id)

    def _announce_whole(self, item: CallItem) -> list[Event]:
        """Added and one delta, for a call whose type became certain only at its end."""
        match item:
            case FunctionCall(arguments=text):
                self._type = "function"
                blank: CallItem = msgspec.structs.replace(item, arguments="", status="in_progress")
            case CustomToolCall(input=text):
                self._type = "custom"
                blank = msgspec.structs.replace(item, input="", status="in_progress")
            case _:
                return self._added(msgspec.structs.replace(item, status="in_progress"))
        return self._added(blank) + ([self._delta(text)] if text else [])

    def _done(self, item: Item) -> list[Event]:
        match item:
            case FunctionCall(name=name, arguments=arguments):
                return [ArgumentsDone(self._id, self.output_index, name, arguments)]
            case CustomToolCall(input=text):
                return [InputDone(self._id, self.output_index, text)]
            case _:
                return []


_PREFIXES: dict[type, str] = {CustomToolCall: "ctc", ToolSearchCall: "tsc"}
