"""Rendering of canonical events for clients of Chat Completions: chunks, whole responses, errors.

1. Every chunk has the same id, time and model; its delta holds one thing. The name of a call is
   sent once: clients join the names of several chunks.
2. Reasoning is sent under both of its names in the same chunk: every client takes it once.
3. A response that ends has exactly one `finish_reason`: agents wait for it for ever. A response
   that fails has none: half of a response must not look like a whole one.
4. The citations of a text come in one chunk, at its end: some clients keep those of the last chunk
   only. Those of a further text have an index: others cannot join two lists without it.
5. A client that has sent `functions` gets its call as `function_call`: it is older than
   `tool_calls`, and reads one call of a message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from antiphon.core.client_profile import Profile
from antiphon.core.diagnostic import Diagnostic
from antiphon.core.events import (
    ArgumentsDelta,
    Completed,
    Created,
    Failed,
    Incomplete,
    InputDelta,
    ItemAdded,
    ItemDone,
    ReasoningDelta,
    RefusalDelta,
    SummaryDelta,
    SummaryPartAdded,
    TextDelta,
)
from antiphon.core.history.call_state import MAX_CHARS_IN_ID
from antiphon.core.items import (
    Document,
    Item,
    Message,
    OutputText,
    ReasoningItem,
    RefusalText,
)
from antiphon.core.request import Request
from antiphon.core.response import Response, ResponseUsage
from antiphon.dialects.chat.call_items import read_call
from antiphon.dialects.chat.client_call_ids import NO_STATES, SealedStates
from antiphon.dialects.chat.errors import stream_error
from antiphon.dialects.chat.own_names import sends_functions
from antiphon.dialects.client_dialect import EventBatch

DONE = b"data: [DONE]\n\n"
KEEPALIVE = b": keep-alive\n\n"
_BREAK = "\n\n"

_encode = msgspec.json.Encoder().encode
_REFUSAL_READERS = frozenset({"openai-python", "openai-node"})
"""Clients that read `refusal`. Others show nothing of it, so that they get it as content."""
_DETAIL_READERS = frozenset({"ai-sdk"})
"""Clients that send `reasoning_details` back."""
_OPENING = b'data: {"id":%b,"object":"chat.completion.chunk","created":%d,"model":%b,"choices":'


class ChatRenderer:
    """Renders the events of one response as chunks."""

    keepalive_diagnostic: Diagnostic | None = None
    """Clients of this format get comments, always: other data raises an error in some of them."""

    def __init__(self, request: Request, profile: Profile) -> None:
        self._with_usage = (request.stream_options or {}).get("include_usage") is True
        self._refusal = "refusal" if profile.name in _REFUSAL_READERS else "content"
        self._with_details = profile.name in _DETAIL_READERS
        self._opening = b""
        self._calls: dict[int, int] = {}
        """The index of each call by the output index of its item."""
        self._separator = ""
        """What stands between the text and a refusal that is sent as content."""
        self._is_old = sends_functions(request.raw)
        self._states = CarriedStates(request)
        self._has_arguments = False
        self._citations = 0
        """How many were sent."""
        self._has_failed = False
        self._renderers: Mapping[type, Callable[[Any], bytes]] = {
            TextDelta: self._render_text,
            ReasoningDelta: self._render_reasoning,
            ArgumentsDelta: self._render_arguments,
            InputDelta: self._render_arguments,
            SummaryDelta: self._render_reasoning,
            RefusalDelta: self._render_refusal,
            ItemAdded: self._render_item_start,
            ItemDone: self._render_item_end,
            SummaryPartAdded: self._render_summary_part,
            Created: self._render_start,
            Completed: self._render_end,
            Incomplete: self._render_end,
            Failed: self._render_failure,
        }

    def feed(self, batch: EventBatch) -> bytes:
        renderers = self._renderers
        return b"".join(
            renderers[type(event)](event) for event in batch.events if type(event) in renderers
        )

    def keepalive(self, last_number: int) -> bytes:
        return KEEPALIVE

    def close(self) -> bytes:
        return b"" if self._has_failed else DONE

    # Chunks

    def _chunk(self, delta: Document, finish: str | None = None, logprobs: Any = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        return b"%b[%b]}\n\n" % (self._opening, _encode(choice))

    def _render_start(self, event: Created) -> bytes:
        response = event.response
        identity = (_encode(completion_id(response)), response.created_at, _encode(response.model))
        self._opening = _OPENING % identity
        return self._chunk({"role": "assistant", "content": ""})

    def _render_text(self, event: TextDelta) -> bytes:
        self._separator = _BREAK
        logprobs = {"content": event.logprobs, "refusal": None} if event.logprobs else None
        return self._chunk({"content": event.delta}, logprobs=logprobs)

    def _render_refusal(self, event: RefusalDelta) -> bytes:
        if self._refusal == "refusal":
            return self._chunk({"refusal": event.delta})
        separator, self._separator = self._separator, ""
        return self._chunk({"content": separator + event.delta})

    def _render_reasoning(self, event: ReasoningDelta | SummaryDelta) -> bytes:
        return self._chunk({"reasoning_content": event.delta, "reasoning": event.delta})

    def _render_summary_part(self, event: SummaryPartAdded) -> bytes:
        """Separate the parts of a summary: its text is one string in this format."""
        if event.summary_index == 0:
            return b""
        return self._chunk({"reasoning_content": _BREAK, "reasoning": _BREAK})

    def _render_item_start(self, event: ItemAdded) -> bytes:
        call = read_call(event.item)
        if call is None:
            return b""
        index = self._calls[event.output_index] = len(self._calls)
        self._has_arguments = False
        return self._call_chunk(index, call.render(self._states.take(), arguments=""))

    def _call_chunk(self, index: int, call: Document) -> bytes:
        """A chunk with a call, or a part of it."""
        if self._is_old:
            return self._chunk({"function_call": call["function"]})
        return self._chunk({"tool_calls": [{"index": index, **call}]})

    def _render_arguments(self, event: ArgumentsDelta | InputDelta) -> bytes:
        if not event.delta:
            return b""
        self._has_arguments = True
        fragment: Document = {"function": {"arguments": event.delta}}
        if isinstance(event, InputDelta):
            fragment = {"custom": {"input": event.delta}}
        return self._call_chunk(self._calls[event.output_index], fragment)

    def _render_item_end(self, event: ItemDone) -> bytes:
        """Send what only the finished item has: arguments that were not streamed, and state."""
        item = event.item
        self._states.add(item)
        if isinstance(item, ReasoningItem) and self._with_details:
            details = [*render_details(item)]
            return self._chunk({"reasoning_details": details}) if details else b""
        if isinstance(item, Message):
            return self._render_citations(item)
        call = read_call(item)
        if call is None or self._has_arguments or not call.arguments:
            return b""
        part: Document = {call.kind: {call.member: call.arguments}}
        return self._call_chunk(self._calls[event.output_index], part)

    def _render_citations(self, message: Message) -> bytes:
        rendered = render_annotations([message])
        first = self._citations
        self._citations += len(rendered)
        if first:
            rendered = [{"index": index, **each} for index, each in enumerate(rendered, first)]
        return self._chunk({"annotations": rendered}) if rendered else b""

    def _render_end(self, event: Completed | Incomplete) -> bytes:
        response = event.response
        last = self._chunk({}, finish_reason(response, is_old=self._is_old))
        if not self._with_usage:
            return last
        usage = _encode(render_usage(response.usage))
        return b'%b%b[],"usage":%b}\n\n' % (last, self._opening, usage)

    def _render_failure(self, event: Failed) -> bytes:
        self._has_failed = True
        return stream_error(event.response)


def completion_id(response: Response) -> str:
    """`resp_6afb…` is `chatcmpl-6afb…` in this format."""
    return f"chatcmpl-{response.id.removeprefix('resp_')}"


class CarriedStates:
    """Sealed states that the id of the next call carries, for a client that wants nothing stored
    and returns nothing else."""

    def __init__(self, request: Request) -> None:
        self._is_needed = request.state_carrier == "call_ids"
        self._states = NO_STATES

    def add(self, item: Item) -> None:
        if not self._is_needed:
            return
        before, before_text = self._states
        if isinstance(item, Message) and not before_text:
            self._states = SealedStates((), before)
        elif isinstance(item, ReasoningItem) and isinstance(item.encrypted_content, str):
            self._states = SealedStates((*before, item.encrypted_content), before_text)

    def take(self) -> SealedStates:
        """Return the states since the last call; none if they are too long for an id."""
        states, self._states = self._states, NO_STATES
        size = sum(len(state) for group in states for state in group)
        return states if size <= MAX_CHARS_IN_ID else NO_STATES


def render_whole(response: Response, request: Request, profile: Profile) -> bytes:
    """Render a response that is not streamed."""
    is_old = sends_functions(request.raw)
    calls = _render_calls(response.output, request)
    choice = {
        "index": 0,
        "message": _render_message(response.output, calls, profile, is_old=is_old),
        "logprobs": _render_logprobs(response.output),
        "finish_reason": finish_reason(response, is_old=is_old),
    }
    return _encode(
        {
            "id": completion_id(response),
            "object": "chat.completion",
            "created": response.created_at,
            "model": response.model,
            "choices": [choice],
            "usage": render_usage(response.usage),
            "service_tier": response.service_tier,
        }
    )


def _render_calls(output: Sequence[Item], request: Request) -> list[Document]:
    states = CarriedStates(request)
    calls: list[Document] = []
    for item in output:
        states.add(item)
        call = read_call(item)
        if call is not None:
            calls.append(call.render(states.take()))
    return calls


def _render_message(
    output: Sequence[Item], calls: list[Document], profile: Profile, *, is_old: bool
) -> Document:
    parts = [part for item in output if isinstance(item, Message) for part in item.content]
    text = "".join(part.text for part in parts if isinstance(part, OutputText))
    refusal = "".join(part.refusal for part in parts if isinstance(part, RefusalText))
    if refusal and profile.name not in _REFUSAL_READERS:
        text, refusal = f"{text}{_BREAK if text else ''}{refusal}", ""
    message: Document = {
        "role": "assistant",
        "content": None if not text and (calls or refusal) else text,
        "refusal": refusal or None,
    }
    if annotations := render_annotations(output):
        message["annotations"] = annotations
    if reasoning := _join_reasoning(output):
        message |= {"reasoning_content": reasoning, "reasoning": reasoning}
    details = [
        detail
        for item in output
        if isinstance(item, ReasoningItem)
        for detail in render_details(item)
    ]
    if details:
        message["reasoning_details"] = details
    if calls:
        message |= {"function_call": calls[0]["function"]} if is_old else {"tool_calls": calls}
    return message


def _join_reasoning(output: Sequence[Item]) -> str:
    texts: list[str] = []
    for item in output:
        if isinstance(item, ReasoningItem):
            content = "" if item.content is msgspec.UNSET else "".join(p.text for p in item.content)
            texts.append(content or "\n\n".join(part.text for part in item.summary))
    return "".join(texts)


def _render_logprobs(output: Sequence[Item]) -> Document | None:
    tokens = [
        token
        for item in output
        if isinstance(item, Message)
        for part in item.content
        if isinstance(part, OutputText)
        for token in part.logprobs
    ]
    return {"content": tokens, "refusal": None} if tokens else None


def render_details(item: ReasoningItem) -> Iterator[Document]:
    """Render the sealed state of reasoning as routers do, for clients that send it back."""
    sealed = item.encrypted_content
    if isinstance(sealed, str):
        fields = {"id": item.id, "data": sealed, "format": "unknown", "index": 0}
        yield {"type": "reasoning.encrypted", **fields}


def render_annotations(output: Sequence[Item]) -> list[Document]:
    """Render the citations of pages, with their members in an object. The format has no others, and
    some clients refuse a response with one of another type."""
    return [
        {
            "type": "url_citation",
            "url_citation": {name: each[name] for name in each if name != "type"},
        }
        for item in output
        if isinstance(item, Message)
        for part in item.content
        if isinstance(part, OutputText)
        for each in part.annotations
        if each.get("type") == "url_citation" and isinstance(each.get("url"), str)
    ]


def finish_reason(response: Response, *, is_old: bool = False) -> str:
    """Return why a response has ended. `is_old`: for a client that sends `functions`."""
    if response.incomplete_details is not None:
        return (
            "content_filter" if response.incomplete_details.reason == "content_filter" else "length"
        )
    has_calls = any(read_call(item) is not None for item in response.output)
    if not has_calls:
        return "stop"
    return "function_call" if is_old else "tool_calls"


def render_usage(usage: ResponseUsage | None) -> Document:
    usage = usage or ResponseUsage()
    details = usage.input_tokens_details
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {
            "cached_tokens": details.cached_tokens,
            "cache_write_tokens": details.cache_write_tokens,
        },
        "completion_tokens_details": {
            "reasoning_tokens": usage.output_tokens_details.reasoning_tokens
        },
    }
