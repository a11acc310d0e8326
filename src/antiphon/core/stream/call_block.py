"""Tool call block: pieces of id, name and arguments in, events of one item of the right type out.

1. A call is announced once its type is certain, and keeps that type. A function is certain when its
   name and id are known; a custom call when the opening of `{"input": "` has been read; every
   other type when its arguments are complete. Arguments that do not open or parse as the type
   requires make the call a function.
2. A name may arrive in pieces, or again with every piece; the declared tools tell which.
3. A call is complete when its arguments form one JSON value, or its provider ended it. A call that
   is not complete is never published as completed unless the whole response is.
4. Arguments that cannot be parsed are never completed silently: a diagnostic reports them, and a
   call of a strict tool is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import ClassVar, Literal

import msgspec
from msgspec import UNSET, UnsetType

from antiphon.core.deltas import ToolCall
from antiphon.core.diagnostic import Code, Diagnostic, degraded
from antiphon.core.events import (
    ArgumentsDelta,
    ArgumentsDone,
    Event,
    InputDelta,
    InputDone,
    ItemAdded,
    ItemDone,
)
from antiphon.core.items import (
    CallItem,
    CustomToolCall,
    Document,
    FunctionCall,
    Item,
    Status,
    ToolSearchCall,
)
from antiphon.core.stream.json_field import FieldState, JSONProgress, JSONStringField, is_json
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.core.tools.restore import (
    ProviderCall,
    as_custom_call,
    as_function_call,
    restore_tool_call,
)
from antiphon.errors import InvalidToolArguments, InvalidTransition


class CallBlock:
    """One tool call, from its first piece to its item."""

    prefix: ClassVar[str] = "fc"

    def __init__(
        self,
        index: int,
        tools: ToolIdentityMap,
        new_id: Callable[[str], str],
        empty_arguments: str,
        extra: Document | UnsetType = UNSET,
    ) -> None:
        """`empty_arguments` replaces the arguments of a call that has none; `extra` is that of its
        item."""
        self.index = index
        self.output_index = -1
        self.announced = False
        self.closed = False
        self.truncated = False
        self.diagnostics: list[Diagnostic] = []
        self._is_rejected = False
        self._streaming = False
        self._ended = False
        self._tools = tools
        self._new_id = new_id
        self._empty_arguments = empty_arguments
        self._extra = extra
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

    # State

    @property
    def is_nameless(self) -> bool:
        return not self._name

    @property
    def _progress(self) -> JSONProgress:
        """How far the arguments have come. They are scanned once, and only when this is read."""
        for piece in self._pieces[self._scanned :]:
            self._json.feed(piece)
        self._scanned = len(self._pieces)
        return self._json

    @property
    def is_complete(self) -> bool:
        """The call is whole and nothing more can arrive, so the next item may be streamed."""
        if self.truncated:
            return False
        return self._ended or (self._progress.complete and not self._freeform)

    @property
    def is_finished(self) -> bool:
        return self.closed or self.is_complete

    @property
    def is_unfinished(self) -> bool:
        """The provider cut the call off, or its arguments have begun as JSON and not ended."""
        return self.truncated or (self._progress.open and not self._freeform)

    def _identity(self) -> ToolIdentity | None:
        return self._tools.by_provider_name(self._name)

    # Appending

    def check_delta(self, delta: ToolCall) -> None:
        """Raise `InvalidTransition`, before anything changes, if a delta contradicts this call."""
        if delta.call_id and self._call_id and delta.call_id != self._call_id:
            # {"index": 0, "id": "call_1"} {"index": 0, "id": "call_2"}
            raise InvalidTransition(f"toolCall.id: call {self.index} already has another id")
        if self.closed and (delta.arguments.strip() or self._is_new_name(delta.name)):
            # {"index": 0, "arguments": "{}"} {"index": 1, …} {"index": 0, "arguments": "{}"}
            raise InvalidTransition(f"toolCall.index: call {self.index} has already ended")
        if self.announced and self._is_new_name(delta.name):
            # {"name": "get_weather", "arguments": "{"} {"name": "get_time", "arguments": "}"}
            raise InvalidTransition(f"toolCall.name: call {self.index} already has another name")

    def _is_new_name(self, name: str | None) -> bool:
        return bool(name) and name != self._name

    def append(self, delta: ToolCall) -> list[Event]:
        """Add one delta, and return the events that follow from it."""
        if self.closed:
            # {"index": 0, "arguments": "\n"}: white space after the end (see `check_delta`).
            return []
        if delta.kind == "custom":
            self._freeform = True
        arguments = delta.arguments
        if self.announced:
            # {"index": 0, "function": {"arguments": "\"Rome"}}: one more piece of a known call.
            if not arguments:
                return []
            self._pieces.append(arguments)
            return self._stream(arguments)
        # {"index": 0, "id": "call_1", "function": {"name": "get_weather", "arguments": ""}}: id,
        # name and the first arguments may come in one chunk or in several, in any order.
        self._call_id = self._call_id or delta.call_id
        if delta.name:
            self._name = merge_name(self._name, delta.name, self._tools)
        if arguments:
            self._pieces.append(arguments)
            self._unread.append(arguments)
        return self._announce() if self._streaming else []

    def replace_input(self, text: str) -> None:
        """Replace the whole input of a custom call; what was streamed of it was its beginning."""
        self._pieces = [text]
        self._field = None
        self._freeform = True

    def end(self, *, complete: bool) -> None:
        """Note that the provider ended the call.

        {"type": "content_block_stop"} after {"partial_json": "{\\"city\\": "}: arguments that are
        visibly open are truncated, even if the provider reports the call as complete.
        """
        self._ended = True
        is_open = self._progress.open and not self._freeform
        self.truncated = self.truncated or is_open or not complete

    def end_round(self) -> None:
        """Note that this round adds no more; only freeform input may continue in the next one."""
        self._ended = self._ended or not (self._freeform or self.is_unfinished)

    # Announcing and streaming

    def start_streaming(self, output_index: int) -> list[Event]:
        self._streaming = True
        self.output_index = output_index
        return self._announce()

    def _announce(self) -> list[Event]:
        """Announce the item and send what was collected, once its type is certain."""
        if not self._call_id or not self._name_is_final():
            return []
        self._type = self._decide_type()
        if self._type is None:
            return []
        return [*self._add_item(self._make_empty_item(self._type)), *self._collected_delta()]

    def _name_is_final(self) -> bool:
        """A declared name is final at once, any other when its arguments begin."""
        return self._name in self._tools or bool(self._name and self._pieces)

    def _decide_type(self) -> Literal["function", "custom"] | None:
        """The item type; None while it depends on arguments that are still to come."""
        if self._freeform:
            return "custom"
        identity = self._identity()
        requested = identity.requested_type if identity else "function"
        if requested == "function":
            return "function"
        if requested == "custom":
            return self._read_input_field()
        return None

    def _read_input_field(self) -> Literal["custom"] | None:
        """Read on in `{"input": "…"}`, the function arguments of a custom tool."""
        if self._field is None:
            self._field = JSONStringField("input")
        unread, self._unread = "".join(self._unread), []
        self._input.append(self._field.feed(unread))
        if self._field.state is FieldState.MISMATCH:
            # {"note": "…", "input": "…"}: a later field may hold the input; decided at the end.
            return None
        return None if self._field.state is FieldState.PENDING else "custom"

    def _add_item(self, item: CallItem) -> list[Event]:
        self.announced = True
        return [ItemAdded(self.output_index, item)]

    def _collected_delta(self) -> list[Event]:
        """One delta for everything that arrived before the announcement."""
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

    def _provider_call(self, status: Status, arguments: str) -> ProviderCall:
        call_id = self._call_id or ""
        return ProviderCall(self._id, call_id, self._name, arguments, status, self._extra)

    def _make_empty_item(self, kind: Literal["function", "custom"]) -> CallItem:
        self._id = self._new_id("ctc" if kind == "custom" else self.prefix)
        call = self._provider_call("in_progress", "")
        if kind == "custom":
            return as_custom_call(self._identity(), call, "")
        return as_function_call(self._identity(), call)

    def item(self, status: Status = "in_progress") -> CallItem:
        call = self._provider_call(status, "".join(self._pieces))
        if self._type == "custom":
            text = "".join(self._pieces if self._field is None else self._input)
            return as_custom_call(self._identity(), call, text)
        return as_function_call(self._identity(), call)

    # Closing

    def status(self, *, ended_well: bool) -> Status:
        """Completed if the response ended well, or the call itself is known to be complete."""
        is_complete = ended_well or self.is_complete
        return "completed" if is_complete and not self._is_rejected else "incomplete"

    def close(self, status: Status) -> tuple[list[Event], Item]:
        """Close a call that has a name; a call without one has no item.

        Raises `InvalidToolArguments` for a strict call that cannot be parsed."""
        # {"function_call": {"name": "f", "arguments": "{}"}}: some providers send no call id.
        self._call_id = self._call_id or self._new_id("call")
        events = self._fill_empty_arguments() if status == "completed" else []
        item = self.item(status) if self.announced else self._restore_item(status)
        if status == "completed" and isinstance(item, FunctionCall):
            self._check_arguments(item)
        self.closed = True
        if not self.announced:
            events += self._announce_whole(item)
        return [*events, *self._done_events(item), ItemDone(self.output_index, item)], item

    def announce_cut(self) -> list[Event]:
        """Announce a call that was cut off after its name and before its type was certain."""
        if self.announced or not self._name_is_final():
            return []
        self._call_id = self._call_id or self._new_id("call")
        self._type = "custom" if self._freeform else "function"
        self._id = self._new_id("ctc" if self._freeform else self.prefix)
        return self._announce_whole(self.item())

    def _fill_empty_arguments(self) -> list[Event]:
        """{"name": "list_files", "arguments": ""}: clients that parse the arguments need JSON."""
        if not self._empty_arguments or self._freeform or not self._progress.empty:
            return []
        return self.append(ToolCall(self.index, arguments=self._empty_arguments))

    def _check_arguments(self, item: FunctionCall) -> None:
        """Report arguments that are not JSON, although their brackets match: `{"on"{}:true}`."""
        if not item.arguments or is_json(item.arguments):
            return
        identity = self._identity()
        if identity is not None and identity.strict:
            self._is_rejected = True
            raise InvalidToolArguments(
                f"toolCall.arguments: the arguments of call {self.index} are not valid JSON"
            )
        message = (
            f"The arguments of a call of `{item.name}` cannot be parsed as JSON; they are sent as"
            " the model wrote them."
        )
        self.diagnostics.append(degraded(Code.CALL_INVALID, "output", message, item.name))

    def _restore_item(self, status: Status) -> CallItem:
        """The item of a call whose type became certain only at its end."""
        arguments = "".join(self._pieces)
        if self._freeform:
            # Freeform input whose call id never came: nothing could be announced before.
            self._id = self._new_id("ctc")
            return as_custom_call(self._identity(), self._provider_call(status, ""), arguments)
        # {"name": "shell", "arguments": "{\"commands\": [\"ls\"]}"}: a shell_call, if it parses.
        call = self._provider_call(status, arguments)
        item = restore_tool_call(self._identity(), call)
        if status == "completed":
            self._check_type(item)
        self._id = self._new_id(_PREFIXES.get(type(item), self.prefix))
        return msgspec.structs.replace(item, id=self._id)

    def _check_type(self, item: CallItem) -> None:
        """Report arguments that are JSON, but not of the type that the client has declared."""
        identity = self._identity()
        requested = identity.requested_type if identity else "function"
        if isinstance(item, FunctionCall) and requested != "function" and is_json(item.arguments):
            message = (
                f"The arguments of a call of `{item.name}` are not those of a `{requested}` call;"
                " it is sent as a `function_call`."
            )
            self.diagnostics.append(degraded(Code.CALL_DEGRADED, "output", message, item.name))

    def _announce_whole(self, item: CallItem) -> list[Event]:
        """Announce a finished item, with one delta where its type has deltas."""
        match item:
            case FunctionCall(arguments=text):
                self._type = "function"
                empty: CallItem = msgspec.structs.replace(item, arguments="", status="in_progress")
            case CustomToolCall(input=text):
                self._type = "custom"
                empty = msgspec.structs.replace(item, input="", status="in_progress")
            case _:
                return self._add_item(msgspec.structs.replace(item, status="in_progress"))
        return self._add_item(empty) + ([self._delta(text)] if text else [])

    def _done_events(self, item: Item) -> list[Event]:
        match item:
            case FunctionCall(name=name, arguments=arguments):
                return [ArgumentsDone(self._id, self.output_index, name, arguments)]
            case CustomToolCall(input=text):
                return [InputDone(self._id, self.output_index, text)]
            case _:
                return []


_PREFIXES: dict[type, str] = {CustomToolCall: "ctc", ToolSearchCall: "tsc"}


def merge_name(known: str, name: str, tools: Container[str]) -> str:
    """Merge the name in the next chunk of a call into the name known so far.

    The samples are successive values of `tool_calls[0].function.name`.
    """
    known_is_declared = known in tools
    joined = known + name
    if known_is_declared and name == known:
        # Repeated with every chunk: "get_weather", "get_weather". This case comes first, because
        # "get_weatherget_weather" may be a declared tool as well.
        return known
    if joined in tools:
        # In pieces: "get_", "weather". Also the first chunk, and a chunk without a name.
        return joined
    if name.startswith(known) and (name in tools or not known_is_declared):
        # Cumulative: "get", "get_weather". Also the first chunk of an undeclared tool.
        return name
    # A declared name is final, whatever follows it: "get_weather", "x". Pieces of an undeclared
    # name are joined: "look_", "up".
    return known if known_is_declared else joined
