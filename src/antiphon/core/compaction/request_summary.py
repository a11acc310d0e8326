"""The request for a summary: the client's request with a prompt in place of its trigger.

The model sees the history as in any other turn, without tools, and is asked for JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from antiphon.core.compaction.summary import WrittenSummary
from antiphon.core.items import Document
from antiphon.core.request import Request
from antiphon.errors import InvalidRequest

TRIGGER = "compaction_trigger"
"""The type of the last input item of a request to compact. Elsewhere in a history it is ignored: an
earlier turn has served it."""
FORMAT_NAME = "conversation_summary"
_MAX_ARGUMENTS = 200  # characters of an open call that the summary repeats

PROMPT = (
    "The conversation above has become too long. Write a summary of it, which will take the place"
    " of everything but the messages of the user. An assistant will continue the work from it and"
    " will not see the rest, so leave out nothing that is still needed. Do not continue the task"
    " now, and do not call tools. Write in the language of the conversation. If an earlier summary"
    " is part of the conversation, keep what still holds of it.\n\n"
    "Answer with one JSON object with these fields:\n"
    "- goal: what the user wants to achieve.\n"
    "- decisions: what was decided, and why.\n"
    "- open_work: what remains to be done, the next step first.\n"
    "- files_touched: each file that was read, created or changed: its path, and what was done.\n"
    "- facts: names, numbers, paths, commands, versions, error messages and results that matter,"
    " word for word.\n"
    "- last_user_wishes: the last requests of the user, as exactly as possible.\n"
    "A field that has no content is an empty string or an empty list."
)

_LISTS = [name for name in WrittenSummary.__struct_fields__ if name != "goal"]
_STRINGS: Document = {"type": "array", "items": {"type": "string"}}
FORMAT: Document = {
    "type": "json_schema",
    "name": FORMAT_NAME,
    "strict": True,
    "schema": {
        "type": "object",
        "properties": {"goal": {"type": "string"}, **dict.fromkeys(_LISTS, _STRINGS)},
        "required": ["goal", *_LISTS],
        "additionalProperties": False,
    },
}
_PROMPT_ITEMS: tuple[Document, ...] = (
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": PROMPT}]},
    # A format that an earlier item has set would otherwise apply.
    {"type": "configuration_update", "text": {"format": FORMAT}},
)
_KEPT_FIELDS = frozenset(
    """
    model instructions reasoning service_tier metadata user safety_identifier prompt_cache_key
    prompt_cache_options prompt_cache_retention conversation prompt moderation
    """.split()
)
"""Fields of the client's request that hold for the summary, or are refused as in any request."""


class SummaryTask(Struct, frozen=True):
    """The task of a turn that compacts: its output becomes a compaction item."""

    open_calls: tuple[str, ...] = ()


def request_summary(request: Request, history: Sequence[Document]) -> tuple[Request, SummaryTask]:
    """Return the request for a summary of the history and the input before the trigger."""
    earlier = request.input[:-1]
    if not history and not earlier:
        raise InvalidRequest(
            "There is nothing to compact: `input` holds no item before the 'compaction_trigger'.",
            param="input",
            code="invalid_value",
        )
    summary = Request(
        raw={name: value for name, value in request.raw.items() if name in _KEPT_FIELDS},
        is_large=request.is_large,
        unknown=request.unknown,
        unknown_more=request.unknown_more,
        similar=request.similar,
        model=request.model,
        input=(*earlier, *_PROMPT_ITEMS),
        instructions=request.instructions,
        previous_response_id=request.previous_response_id,
        stream=request.stream,
        store=request.store,
        reasoning=request.reasoning,
        effort=request.effort,
        truncation="auto",  # a summary of the newest part is better than none
        service_tier=request.service_tier,
        metadata=request.metadata,
        prompt_cache_key=request.prompt_cache_key,
        prompt_cache_options=request.prompt_cache_options,
        prompt_cache_retention=request.prompt_cache_retention,
        safety_identifier=request.safety_identifier,
        user=request.user,
        prompt=request.prompt,
        moderation=request.moderation,
    )
    return summary, SummaryTask(find_open_calls([*history, *earlier]))


def with_trigger(request: Request, history: Sequence[Document]) -> Request:
    """Return the request that compacts this history and the whole input of a request."""
    items = (*history, *request.input, {"type": TRIGGER})
    raw = {name: value for name, value in request.raw.items() if name in _KEPT_FIELDS}
    return structs.replace(
        request,
        raw=raw,
        input=items,
        previous_response_id=None,
        conversation=None,
        stream=False,
        store=False,
        background=False,
        context_management=(),
    )


def find_open_calls(items: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Describe the tool calls that have no output: name, id and the begin of the arguments."""
    calls: dict[str, str] = {}
    for item in items:
        kind = item.get("type")
        call_id = item.get("call_id")
        if not isinstance(kind, str) or not isinstance(call_id, str):
            continue
        if kind.endswith("_call"):
            calls[call_id] = _describe_call(kind, call_id, item)
        elif kind.endswith("_output"):
            calls.pop(call_id, None)
    return tuple(calls.values())


def _describe_call(kind: str, call_id: str, item: Mapping[str, Any]) -> str:
    content = next((item[name] for name in _CONTENT if item.get(name)), "")
    text = content if isinstance(content, str) else str(content)
    short = text if len(text) <= _MAX_ARGUMENTS else f"{text[:_MAX_ARGUMENTS]}…"
    return f"{item.get('name') or kind} ({call_id}): {short}"


_CONTENT = ("arguments", "input", "action", "actions", "operation")
