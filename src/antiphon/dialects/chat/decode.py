"""Chat Completions decoder: chunks and whole bodies, in all their variants, become deltas.

It never raises: an error object is a `Failure`, an unreadable frame is a protocol `Failure`, and
anything unknown is an `Extra`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from antiphon.core.deltas import (
    Delta,
    Extra,
    Failure,
    Finish,
    Reasoning,
    ReasoningState,
    Refusal,
    Start,
    Text,
    ToolCall,
)
from antiphon.core.faults.classify import classify_document
from antiphon.dialects.chat.chunks import (
    Choice,
    Chunk,
    Function,
    Message,
    decode_chunk,
    decode_plain,
    decode_tolerant,
    open_envelope,
)
from antiphon.dialects.chat.reasoning_state import DETAILS, SIGNATURES
from antiphon.dialects.chat.thoughts import ThoughtSplitter
from antiphon.dialects.chat.tool_calls import CallFragment, CallTracker
from antiphon.dialects.content_blocks import url_citation
from antiphon.dialects.json_input import (
    UNREADABLE,
    decode_repaired,
    error_or_extra,
    fail_unreadable,
    nonempty_string,
    report_unreadable,
)
from antiphon.dialects.service_tier import read_service_tier
from antiphon.dialects.usage import count, read_logprobs, read_usage
from antiphon.framing.sse import Frame

_decode_document = msgspec.json.Decoder().decode
_EMPTY_MESSAGE = Message()


class ChatDecoder:
    """Decoder of one streamed response."""

    __slots__ = (
        "_calls",
        "_choice",
        "_expects_plain",
        "_finished",
        "_has_output",
        "_implied_finish",
        "_plain_failed",
        "_search_results",
        "_service_tier",
        "_started",
        "_thoughts",
        "ended",
    )

    def __init__(self, *, implied_finish: str | None = None) -> None:
        """`implied_finish`: the finish reason of providers that send `[DONE]` without one."""
        self._implied_finish = implied_finish
        self._choice = FirstChoice()
        self._calls: CallTracker | None = None
        self._search_results: SearchResults | None = None
        self._thoughts: ThoughtSplitter | None = None
        self._started = False
        self._finished = False
        self._has_output = False
        self._service_tier: Any = None
        self._expects_plain = False
        """Whether the last chunk was one piece of output, so that the next may be plain."""
        self._plain_failed = False
        """Whether this server's chunks are never plain, though they have one piece of output."""
        self.ended = False
        """The provider has marked the end of the stream; nothing more will come."""

    def feed(self, frame: Frame) -> list[Delta]:
        data = frame.data
        if data == b"[DONE]":
            return self._done()
        if self._expects_plain and (piece := self._plain_piece(data)) is not None:
            if self._choice.may_number_chunks:
                self._choice.stop_numbering()
            return [piece]
        try:
            deltas = self._chunk_deltas(decode_chunk(data), data)
        except UNREADABLE:
            deltas = self._feed_broken(data)
        self._note_piece(deltas)
        return deltas

    def _plain_piece(self, data: bytes) -> Delta | None:
        """Decode a chunk that continues the output with one piece; None if it may be anything else.

        The long way, `_chunk_deltas`, gives the same delta. It is not faster to parse less: what is
        saved is to ask for each member that is not there."""
        try:
            chunk = decode_plain(data)
        except UNREADABLE:
            return None
        if len(chunk.choices) != 1 or chunk.service_tier != self._service_tier:
            return None
        delta = chunk.choices[0].delta
        text = delta.content
        reasoning = delta.reasoning_content or delta.reasoning or delta.reasoning_text
        calls = delta.tool_calls
        if text and not (reasoning or calls):
            return Text(text)
        if reasoning and not (text or calls):
            return Reasoning(reasoning)
        tracker = self._calls
        if calls and len(calls) == 1 and tracker and tracker.is_list and not (text or reasoning):
            return tracker.continue_call(calls[0].index, calls[0].function.arguments)
        return None

    def _note_piece(self, deltas: list[Delta]) -> None:
        """Decide how the next chunk is decoded, by one that took the long way. A server whose
        pieces are not plain, because it adds to each of them, is not tried again and again."""
        is_piece = len(deltas) == 1 and _is_piece(deltas[0])
        self._plain_failed = self._plain_failed or (is_piece and self._expects_plain)
        thinks = self._thoughts is not None and self._thoughts.is_open
        self._expects_plain = is_piece and not (self._plain_failed or thinks)

    def _feed_broken(self, data: bytes) -> list[Delta]:
        """Decode a frame that is not valid JSON, or has members of unexpected types."""
        try:
            chunk, data = decode_tolerant(data)
            return self._chunk_deltas(chunk, data)
        except UNREADABLE:
            return report_unreadable(data, finished=self._finished)

    def close(self) -> list[Delta]:
        """The connection has ended; a stream that was cut off has nothing to add."""
        return []

    def _done(self) -> list[Delta]:
        self.ended = True
        if self._implied_finish and not self._finished:
            return [Finish(self._implied_finish)]
        return []

    def _chunk_deltas(self, chunk: Chunk, data: bytes) -> list[Delta]:
        if chunk.data is not None:
            chunk = open_envelope(chunk)
        deltas: list[Delta] = []
        if not self._started and (chunk.model or chunk.choices):
            self._started = True
            deltas.append(_start(chunk))
        if chunk.service_tier != self._service_tier:
            deltas += self._report_service_tier(chunk.service_tier)
        if chunk.usage or chunk.x_groq:
            deltas += _chunk_usage(chunk)  # first: usage counts even if the choice failed
        if chunk.web_search or chunk.search_results or chunk.citations:
            self._search_results = self._search_results or SearchResults()
            deltas += _cite_search_results(chunk, self._search_results)
        for choice in chunk.choices or ():
            if self._choice.is_other(choice.index, is_alone=len(chunk.choices or ()) == 1):
                deltas.append(Extra("choice", choice.index, is_output=True))
            else:
                deltas += self._choice_deltas(choice)
        if chunk.choices is None or chunk.error or chunk.base_resp:
            deltas += _failure(data)
        return deltas + _groq_failure(chunk.x_groq) if chunk.x_groq else deltas

    def _report_service_tier(self, tier: Any) -> Iterator[Delta]:
        """The tier of this chunk; most servers that report one do so in every chunk."""
        self._service_tier = tier
        return read_service_tier(tier)

    def _choice_deltas(self, choice: Choice) -> list[Delta]:
        message = choice.delta
        if message is None:  # a whole message in a stream counts only if no deltas came
            message = _EMPTY_MESSAGE if self._has_output else choice.message or _EMPTY_MESSAGE
        deltas = self._message_deltas(message, choice.logprobs)
        self._has_output = self._has_output or bool(deltas)
        if choice.finish_reason and isinstance(choice.finish_reason, str):
            self._finished = True
            deltas.append(Finish(choice.finish_reason))
        if choice.usage or choice.error:
            deltas += _choice_usage_and_error(choice)
        return deltas

    def _message_deltas(self, message: Message, logprobs: Any) -> list[Delta]:
        """The deltas of one message, in the order of generation."""
        deltas = [*_reasoning(message)] if _has_reasoning(message) else []
        content = message.content
        if message.extra_content or self._thoughts is not None:
            self._thoughts = self._thoughts or ThoughtSplitter()
            thought, content = self._thoughts.split(content, message.extra_content)
            deltas += [Reasoning(thought, "summary")] if thought else []
        if type(content) is str and content and not logprobs:  # as nearly always
            deltas.append(Text(content))
        elif content:
            deltas += _content(content, logprobs)
        if message.refusal and isinstance(message.refusal, str):
            deltas.append(Refusal(message.refusal))
        if message.tool_calls or message.function_call:
            deltas += self._call_deltas(message)
        deltas += _annotations_and_extras(message)
        return deltas

    def _call_deltas(self, message: Message) -> Iterator[Delta]:
        self._calls = self._calls or CallTracker()
        if message.tool_calls:
            self._calls.note_list()
        # llama-cpp-python 0.3 sends each piece of a call in both forms:
        # {"function_call": {"arguments": "{"}, "tool_calls": [{"arguments": "{", …}]}
        legacy = None if self._calls.is_list else message.function_call
        for fragment, signature in _call_fragments(message, legacy):
            yield from signature
            yield self._calls.feed(fragment)


def _start(chunk: Chunk) -> Start:
    """Who responds, as far as a chunk says so."""
    model = chunk.model if isinstance(chunk.model, str) else None
    response_id = chunk.id if isinstance(chunk.id, str) else None
    return Start(model or None, response_id or None)


class FirstChoice:
    """Recognizes the first choice of a stream by its index.

    Some servers number the chunks instead, each of which has one choice: TGI 1 and Foundry Local
    send {"index":1,…} {"index":2,…}. An index that is not higher than the one before shows that it
    does not number them.
    """

    def __init__(self) -> None:
        self._lowest: int | None = None
        self._number = -1
        """The latest index."""
        self.may_number_chunks = True

    def stop_numbering(self) -> None:
        """Note a chunk whose choice is the first one: its index numbers no chunks."""
        self.may_number_chunks = False

    def is_other(self, index: Any, *, is_alone: bool) -> bool:
        """Whether a choice is another than the first. `is_alone`: it has a chunk of its own."""
        if type(index) is not int:  # only a number says so: `"index": "0"`
            return False
        if is_alone and (self._lowest is None or index < self._lowest):
            self._lowest = index
        is_next = is_alone and self.may_number_chunks and index > self._number
        self.may_number_chunks = is_next
        self._number = index
        return index > 0 and index != self._lowest and not is_next


def _is_piece(delta: Delta) -> bool:
    """Whether a delta is nothing but a piece of output: a call has begun before."""
    if type(delta) is ToolCall:
        return not (delta.call_id or delta.name)
    return type(delta) is Text or type(delta) is Reasoning


def decode(body: bytes) -> list[Delta]:
    """Decode a whole response, its items in the order reasoning, tool calls, message."""
    try:
        return _decode_whole(*decode_tolerant(body))
    except UNREADABLE:
        return [fail_unreadable(body)]


def _decode_whole(chunk: Chunk, body: bytes) -> list[Delta]:
    if chunk.data is not None:
        chunk = open_envelope(chunk)
    deltas: list[Delta] = [_start(chunk)]
    deltas += read_service_tier(chunk.service_tier)
    deltas += _chunk_usage(chunk)
    if chunk.web_search or chunk.search_results or chunk.citations:
        deltas += _cite_search_results(chunk, SearchResults())
    calls = CallTracker()  # of all choices: Copilot gives each call of Claude one, without an index
    for choice in chunk.choices or ():
        deltas += _whole_choice_deltas(choice, calls)
    if not chunk.choices or chunk.error or chunk.base_resp:
        deltas += _failure(body)
    return deltas


def _whole_choice_deltas(choice: Choice, calls: CallTracker) -> Iterator[Delta]:
    if type(choice.index) is int and choice.index > 0:
        yield Extra("choice", choice.index, is_output=True)
        return
    message = choice.message or choice.delta or _EMPTY_MESSAGE
    if _has_reasoning(message):
        yield from _reasoning(message)
    answer = message.content
    if message.extra_content:
        thought, answer = ThoughtSplitter().split(answer, message.extra_content)
        yield from [Reasoning(thought, "summary")] if thought else []
    content = [*_content(answer, choice.logprobs)] if answer else []
    yield from [delta for delta in content if type(delta) is Reasoning]
    if message.tool_calls or message.function_call:
        yield from _whole_calls(message, calls)
    yield from [delta for delta in content if type(delta) is not Reasoning]
    if message.refusal and isinstance(message.refusal, str):
        yield Refusal(message.refusal)
    yield from _annotations_and_extras(message)
    yield Finish(nonempty_string(choice.finish_reason))
    if choice.usage or choice.error:
        yield from _choice_usage_and_error(choice)


def _whole_calls(message: Message, calls: CallTracker) -> Iterator[Delta]:
    legacy = None if message.tool_calls else message.function_call
    for fragment, signature in _call_fragments(message, legacy):
        yield from signature
        yield calls.feed(msgspec.structs.replace(fragment, index=calls.count))


# --- content, reasoning and calls of a message ---


def _content(content: Any, logprobs: Any) -> Iterator[Delta]:
    if isinstance(content, str):
        yield Text(content, read_logprobs(logprobs) if logprobs else ())
    elif isinstance(content, list):
        for part in content:
            yield from _content_part(part)
    else:
        yield Extra("content", content, is_output=True)


def _content_part(part: Any) -> Iterator[Delta]:
    match part:
        case {"type": "text", "text": str(text)}:
            yield Text(text)
        case {"type": "thinking", "thinking": str(text)}:
            yield Reasoning(text)
        case {"type": "thinking", "thinking": list(parts)}:
            yield from (Reasoning(text) for text in _texts(parts))
        # Databricks: {"type": "reasoning", "summary": [{"type": "summary_text", "text": "…"}]}
        case {"type": "reasoning", "summary": list(parts)}:
            yield from (Reasoning(text, "summary") for text in _texts(parts))
        case _:
            yield Extra("content_part", part, is_output=True)


def _texts(parts: list[Any]) -> Iterator[str]:
    for each in parts:
        if isinstance(each, dict) and (text := nonempty_string(each.get("text"))):
            yield text


def _has_reasoning(message: Message) -> Any:
    return (
        message.reasoning_content
        or message.reasoning
        or message.reasoning_details
        or message.reasoning_text
    )


def _reasoning(message: Message) -> Iterator[Delta]:
    """Reasoning, from the first field that has it; several often carry the same text."""
    details = message.reasoning_details
    entries = [d for d in details if isinstance(d, dict)] if isinstance(details, list) else []
    fields = (message.reasoning_content, message.reasoning, message.reasoning_text)
    text = next(filter(None, map(nonempty_string, fields)), None)
    if text is not None:
        summarized = entries and all(e.get("type") == "reasoning.summary" for e in entries)
        yield Reasoning(text, "summary" if summarized else "raw")
    else:
        for entry in entries:
            yield from _reasoning_detail(entry)
    if entries:
        yield ReasoningState(DETAILS, entries, "turn")


def _reasoning_detail(entry: Mapping[str, Any]) -> Iterator[Delta]:
    match entry:
        case {"type": "reasoning.summary", "summary": str(text)}:
            index = entry.get("index")
            yield Reasoning(text, "summary", index if isinstance(index, int) else 0)
        case {"text": str(text)}:
            yield Reasoning(text)
        case _:  # encrypted: part of the state only
            pass


def _call_fragments(
    message: Message, legacy: Function | None
) -> Iterator[tuple[CallFragment, list[Delta]]]:
    """Each fragment of a call, with the state that is sent back with the call. `legacy` is the
    call in the form that had no list of calls."""
    for number, call in enumerate(message.tool_calls or ()):
        function = call.function or call.custom or Function()
        custom = call.function is None and call.custom is not None
        yield (
            CallFragment(
                index=call.index if isinstance(call.index, int) else None,
                call_id=None if call.id == "null" else nonempty_string(call.id),  # Mistral
                name=_function_name(function.name),
                arguments=_arguments(function.input if custom else function.arguments),
                kind="custom" if custom else "function",
                first_in_chunk=number == 0,
            ),
            _signature(call.extra_content, "tool"),
        )
    if legacy and (legacy.name or legacy.arguments):
        yield CallFragment(0, None, _function_name(legacy.name), _arguments(legacy.arguments)), []


def _function_name(value: Any) -> str | None:
    """A name, without the tokens that gpt-oss leaves behind it: `ls<|channel|>commentary`."""
    name = nonempty_string(value)
    return name and (name.partition("<|")[0] or name)


def _arguments(value: Any) -> str:
    """Arguments as JSON text; some servers send the JSON value itself."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def _signature(extra: Any, attach: Any) -> list[Delta]:
    return [
        ReasoningState(scheme, value, attach)
        for member, scheme in (SIGNATURES.items() if isinstance(extra, dict) else ())
        if isinstance(found := extra.get(member), dict)
        and isinstance(value := found.get("thought_signature"), str)
    ]


def _annotations_and_extras(message: Message) -> list[Delta]:
    """Citations, the signature of a text, and fields that only the trace records."""
    deltas: list[Delta] = []
    if message.annotations and isinstance(message.annotations, list):
        deltas += [read_annotation(annotation) for annotation in message.annotations]
    if message.extra_content:
        deltas += _signature(message.extra_content, "text")
    if message.audio or message.images or message.executed_tools:
        media = {"audio": message.audio, "images": message.images}
        deltas += [Extra(name, value, is_output=True) for name, value in media.items() if value]
        if message.executed_tools:
            deltas.append(Extra("executed_tools", message.executed_tools))
    return deltas


# --- usage, search results and errors of a chunk ---


def _choice_usage_and_error(choice: Choice) -> Iterator[Delta]:
    if isinstance(choice.usage, dict):
        yield read_usage(choice.usage)
    if choice.error and (fault := classify_document({"error": choice.error})):
        yield Failure(fault)


def _chunk_usage(chunk: Chunk) -> Iterator[Delta]:
    if isinstance(chunk.usage, dict):
        yield read_usage(chunk.usage)
    elif isinstance(chunk.x_groq, dict) and isinstance(chunk.x_groq.get("usage"), dict):
        yield read_usage(chunk.x_groq["usage"])


def _cite_search_results(chunk: Chunk, results: SearchResults) -> list[Delta]:
    """Citations of the search results of a provider that searches itself."""
    return results.feed(chunk.web_search or chunk.search_results or chunk.citations)


def _failure(data: bytes) -> list[Delta]:
    """The error of a chunk that carries one, or that has no known member. The members that are not
    known have not been decoded before, and may need a repair."""
    fault = classify_document(decode_repaired(_decode_document, data)[0])
    return [] if fault is None else [Failure(fault)]


def _groq_failure(x_groq: Any) -> list[Delta]:
    """Why Groq has stopped a stream early: `{"x_groq": {"id": "req_1", "error": "…"}}`."""
    match x_groq:
        case {"error": str() | {} as error} if error:
            return [error_or_extra({"error": error})]
    return []


# Citations


def read_annotation(annotation: Any) -> Delta:
    """A `url_citation` in the documented form; anything else becomes an `Extra`."""
    match annotation:
        case {"type": "url_citation", "url_citation": {"url": str(url)} as cited}:
            return url_citation(
                url,
                cited.get("title"),
                count(cited.get("start_index")),
                count(cited.get("end_index")),
            )
    return Extra("annotation", annotation)


class SearchResults:
    """Search results of one response, each cited once: providers that search themselves repeat
    their results with many chunks."""

    def __init__(self) -> None:
        self._cited: set[str] = set()

    def feed(self, results: Any) -> list[Delta]:
        """Annotations for the results that are new in this list."""
        deltas: list[Delta] = []
        for result in results if isinstance(results, list) else ():
            url, title = _url_and_title(result)
            if url is not None and url not in self._cited:
                self._cited.add(url)
                deltas.append(url_citation(url, title, 0, 0))
        return deltas


def _url_and_title(result: Any) -> tuple[str | None, Any]:
    match result:
        case str():
            return result, None
        case {"url": str(url)} | {"link": str(url)}:
            return url, result.get("title")
    return None, None
