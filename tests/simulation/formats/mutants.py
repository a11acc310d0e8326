"""Planted defects of Messages and Chat Completions: their streams, errors and state."""

from __future__ import annotations

import json
from typing import Any

import antiphon.dialects.anthropic.errors as messages_errors_module
import antiphon.dialects.anthropic.parse as messages_parse_module
import antiphon.dialects.anthropic.render as messages_render_module
import antiphon.dialects.anthropic.render_blocks as render_blocks_module
import antiphon.dialects.anthropic.render_message as render_message_module
import antiphon.dialects.chat.render as chat_render_module
import antiphon.engine.prepare as prepare_module
from antiphon.core.history.capsule import Capsule, Sealer
from antiphon.dialects.anthropic.client import MessagesClient
from antiphon.dialects.anthropic.render import MessagesRenderer
from antiphon.dialects.anthropic.render_blocks import ContentBlocks
from antiphon.dialects.chat.client import ChatClient
from antiphon.dialects.chat.render import ChatRenderer
from tests.simulation.mutant import Mutant
from tests.simulation.plan import TENANTS

_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
_END = (
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn",'
    b'"stop_sequence":null},"usage":{"input_tokens":1,"output_tokens":1,'
    b'"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}\n\n'
)


# Messages


def _stop_after_error(original: Any) -> Any:
    return lambda self, event: original(self, event) + _STOP


def _end_turn_in_place_of_error(_: Any) -> Any:
    return lambda self, event: self._blocks.close() + _END + _STOP


def _leave_open(_: Any) -> Any:
    def close(self: ContentBlocks) -> bytes:
        self.leave_open()
        return b""

    return close


def _skip_an_index(original: Any) -> Any:
    def open_block(self: ContentBlocks, *arguments: Any) -> bytes:
        self._count += self._count == 1
        return bytes(original(self, *arguments))

    return open_block


def _lose_the_second(original: Any) -> Any:
    """Lose the second delta of a response."""

    def render_text(self: Any, event: Any) -> bytes:
        number = self.__dict__["texts"] = self.__dict__.get("texts", 0) + 1
        rendered: bytes = original(self, event)
        return b"" if number == 2 else rendered

    return render_text


def _sign_twice(original: Any) -> Any:
    def end_thought(self: ContentBlocks, sealed: str) -> bytes:
        is_signed = self._open is not None
        again = self.delta(render_blocks_module._SIGNATURE, sealed) if is_signed else b""
        return again + bytes(original(self, sealed))

    return end_thought


def _sign_nothing(_: Any) -> Any:
    return lambda self, sealed: self.close()


def _end_turn_with_calls(original: Any) -> Any:
    def stop_reason(*arguments: Any) -> str:
        found: str = original(*arguments)
        return "end_turn" if found == "tool_use" else found

    return stop_reason


def _limit_is_overload(original: Any) -> Any:
    def classify(problem: Any) -> Any:
        status, kind = original(problem)
        return (529, "overloaded_error") if status == 429 else (status, kind)

    return classify


def _limit_is_another_type(original: Any) -> Any:
    def classify(problem: Any) -> Any:
        status, kind = original(problem)
        return status, "api_error" if status == 429 else kind

    return classify


def _fail_whole(_: Any) -> Any:
    """Respond with what there is of a response that has failed."""
    return lambda self, response: None


def _forget_the_thread(_: Any) -> Any:
    """Begin a thread where one is to be continued."""
    return lambda thread: {"store": thread is not None}


def _without_notes(original: Any) -> Any:
    """Lose the messages of the system in a thread."""
    return lambda messages: original([each for each in messages if each["role"] != "system"])


# Both


def _write_anew(original: Any) -> Any:
    """Decode the arguments of a call and encode them again, at the end of the call."""

    def render_arguments(self: Any, event: Any) -> bytes:
        held = self.__dict__.setdefault("held", {})
        text = held[event.output_index] = held.get(event.output_index, "") + event.delta
        try:
            anew = json.dumps(json.loads(text), ensure_ascii=False)
        except ValueError:
            return b""
        event = type(event)(**{**_members(event), "delta": anew})
        return bytes(original(self, event))

    return render_arguments


def _members(event: Any) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__struct_fields__}


def _say_nothing_of_retries(original: Any) -> Any:
    def error(self: Any, problem: Any) -> Any:
        reply = original(self, problem)
        reply.headers.pop("x-should-retry", None)
        return reply

    return error


def _forbid_retries(original: Any) -> Any:
    def error(self: Any, problem: Any) -> Any:
        reply = original(self, problem)
        reply.headers["x-should-retry"] = "false"
        return reply

    return error


# Chat Completions


def _finish_after_fault(_: Any) -> Any:
    return lambda self, event: self._chunk({}, "stop")


def _finish_twice(original: Any) -> Any:
    def render_end(self: ChatRenderer, event: Any) -> bytes:
        reason = chat_render_module.finish_reason(event.response)
        return self._chunk({}, reason) + bytes(original(self, event))

    return render_end


def _without_usage(original: Any) -> Any:
    def render_end(self: ChatRenderer, event: Any) -> bytes:
        self._with_usage = False
        return bytes(original(self, event))

    return render_end


def _without_role(original: Any) -> Any:
    return lambda self, event: original(self, event).replace(b'"role":"assistant",', b"")


def _done_after_error(_: Any) -> Any:
    return lambda self: chat_render_module.DONE


def _finish_with_stop(original: Any) -> Any:
    def finish_reason(response: Any, **options: Any) -> str:
        found: str = original(response, **options)
        return "stop" if found == "tool_calls" else found

    return finish_reason


def _number_from_one(original: Any) -> Any:
    def render_item_start(self: ChatRenderer, event: Any) -> bytes:
        self._calls.setdefault(-1, 0)
        return bytes(original(self, event))

    return render_item_start


def _without_output(original: Any) -> Any:
    """Count no output."""

    def render_usage(*arguments: Any) -> Any:
        counts = original(*arguments)
        return {**counts, "completion_tokens": 0} if "prompt_tokens" in counts else counts

    return render_usage


def _count_input_twice(original: Any) -> Any:
    def render_usage(*arguments: Any) -> Any:
        counts = original(*arguments)
        return {**counts, "cache_read_input_tokens": counts["input_tokens"]}

    return render_usage


# State


def _open_for_anybody(original: Any) -> Any:
    """Open a capsule whichever client it was sealed for."""

    def open_any(self: Sealer, owner: str, text: str) -> Any:
        for name in (owner, *TENANTS):
            if isinstance(opened := original(self, name, text), Capsule):
                return opened
        return opened

    return open_any


def _restore_for_anybody(original: Any) -> Any:
    """Use the state of a call whichever client has made it."""

    async def restore(request: Any, store: Any, sealer: Any, client: str) -> Any:
        for name in (client, *TENANTS):
            found = await original(request, store, sealer, name)
            if found is not request:
                opened = [sealer.open(name, each) for each in _sealed(found.input)]
                again = [
                    sealer.seal(client, each.issuer, each.model, each.states, each.text)
                    for each in opened
                    if isinstance(each, Capsule)
                ]
                return _replace_sealed(found, again)
        return request

    return restore


def _restore_nothing(_: Any) -> Any:
    async def restore(request: Any, *arguments: Any) -> Any:
        return request

    return restore


def _sealed(items: Any) -> list[str]:
    return [item["encrypted_content"] for item in items if "encrypted_content" in item]


def _replace_sealed(request: Any, sealed: list[str]) -> Any:
    waiting = iter(sealed)
    items = tuple(
        {**item, "encrypted_content": next(waiting)} if "encrypted_content" in item else item
        for item in request.input
    )
    members = {name: getattr(request, name) for name in request.__struct_fields__}
    return type(request)(**{**members, "input": items})


FORMAT_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "an error is followed by the end", MessagesRenderer, "_render_failure", _stop_after_error
    ),
    Mutant(
        "a failed message ends its turn",
        MessagesRenderer,
        "_render_failure",
        _end_turn_in_place_of_error,
    ),
    Mutant("a block is not closed", ContentBlocks, "close", _leave_open),
    Mutant("a gap in the indexes of blocks", ContentBlocks, "open", _skip_an_index),
    Mutant("a text delta of Messages is lost", MessagesRenderer, "_render_text", _lose_the_second),
    Mutant("a thought has two signatures", ContentBlocks, "end_thought", _sign_twice),
    Mutant("a thought has no signature", ContentBlocks, "end_thought", _sign_nothing),
    Mutant("a call ends the turn", render_message_module, "_stop_reason", _end_turn_with_calls),
    Mutant(
        "arguments of Messages are written anew", MessagesRenderer, "_render_arguments", _write_anew
    ),
    Mutant("a thread is not continued", messages_parse_module, "_read_thread", _forget_the_thread),
    Mutant("a system message is lost", messages_parse_module, "read_messages", _without_notes),
    Mutant("a limit is an overload", messages_errors_module, "_classify", _limit_is_overload),
    Mutant("a limit has another type", messages_errors_module, "_classify", _limit_is_another_type),
    Mutant("a failed message looks whole", MessagesClient, "failure", _fail_whole),
    Mutant("a failed completion looks whole", ChatClient, "failure", _fail_whole),
    Mutant("every error forbids a retry", MessagesClient, "error", _forbid_retries),
    Mutant("no error forbids a retry", ChatClient, "error", _say_nothing_of_retries),
    Mutant("a fault finishes with stop", ChatRenderer, "_render_failure", _finish_after_fault),
    Mutant("two finish reasons", ChatRenderer, "_render_end", _finish_twice),
    Mutant("usage is missing", ChatRenderer, "_render_end", _without_usage),
    Mutant("output is not counted", chat_render_module, "render_usage", _without_output),
    Mutant("input counts twice", messages_render_module, "render_usage", _count_input_twice),
    Mutant("no role comes first", ChatRenderer, "_render_start", _without_role),
    Mutant("an end marker after an error", ChatRenderer, "close", _done_after_error),
    Mutant("a call finishes with stop", chat_render_module, "finish_reason", _finish_with_stop),
    Mutant("calls are numbered from one", ChatRenderer, "_render_item_start", _number_from_one),
    Mutant("a text delta of Chat is lost", ChatRenderer, "_render_text", _lose_the_second),
    Mutant("arguments of Chat are written anew", ChatRenderer, "_render_arguments", _write_anew),
    Mutant("a signature of another client is accepted", Sealer, "open", _open_for_anybody),
    Mutant("state of a call is lost", prepare_module, "restore_call_states", _restore_nothing),
    Mutant(
        "state of a call for another client",
        prepare_module,
        "restore_call_states",
        _restore_for_anybody,
    ),
)
