"""The message of a Messages response: whole, its usage, and why it has ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import UnsetType

from antiphon.core.items import Document, Item, Message, OutputText, ReasoningItem, RefusalText
from antiphon.core.response import Response, ResponseUsage
from antiphon.dialects.anthropic.kept_blocks import CITED
from antiphon.dialects.anthropic.message_ids import message_id
from antiphon.dialects.anthropic.render_items import (
    call_arguments,
    call_block,
    call_input,
    compaction_block,
    is_call,
    is_compaction,
    is_kept_block,
    is_listing,
    is_search,
    is_server_call,
    is_unfinished,
    kept_members,
    kept_of_part,
    listing_block,
    render_citation,
    server_arguments,
    server_result_block,
    server_use_block,
)

_TIERS = {"default": "standard"}
_CONTEXT = "context_management"
_NOT_OF_END = frozenset({"usage", "stop_reason", _CONTEXT})
_STOP_REASONS = frozenset("end_turn tool_use max_tokens stop_sequence refusal".split())


def render_whole(
    response: Response, *, ends_with_text: bool = False, lists_tools: bool = False
) -> bytes:
    """Render a response that is not streamed. `ends_with_text`: state of the provider after the
    last text is left out. `lists_tools`: as in a stream."""
    blocks = [
        block
        for index, item in enumerate(response.output)
        if lists_tools or not is_listing(item)
        for block in _item_blocks(item, response.id, index)
    ]
    if ends_with_text:
        blocks = _without_last_state(blocks)
    message = {
        **message_head(response),
        "content": blocks,
        **end_of_message(response, refusal_of(response.output)),
        **kept_context(response),
        "usage": render_usage(response),
    }
    return msgspec.json.encode(message)


def _without_last_state(blocks: list[Document]) -> list[Document]:
    match blocks:
        case [*_, {"type": "text"}, {"type": "thinking", "thinking": ""}]:
            return blocks[:-1]
    return blocks


def message_head(response: Response) -> Document:
    return {
        "id": message_id(response.id),
        "type": "message",
        "role": "assistant",
        "model": response.model,
    }


# --- content --------------------------------------------------------------------------------------


def _item_blocks(item: Item, response_id: str, index: int) -> Iterator[Document]:
    if isinstance(item, Message):
        yield from _text_blocks(item)
    elif isinstance(item, ReasoningItem):
        yield from _thinking_blocks(item)
    elif is_call(item):
        if not is_unfinished(item):
            yield {
                **call_block(item, response_id, index),
                "input": call_input(call_arguments(item)),
            }
    elif is_kept_block(item):
        yield item["block"]
    elif is_compaction(item):
        yield compaction_block(item)
    elif is_server_call(item):
        yield {**server_use_block(item), "input": call_input(server_arguments(item))}
        yield server_result_block(item)
    elif is_listing(item):
        yield listing_block(item)


def _text_blocks(message: Message) -> Iterator[Document]:
    for part in message.content:
        if isinstance(part, OutputText) and part.text:
            rendered = map(render_citation, part.annotations)
            citations = [citation for citation in rendered if citation is not None]
            block: Document = {"type": "text", "text": part.text}
            if citations:
                block[CITED] = citations
            yield block | (kept_of_part(part) or {})


def _thinking_blocks(item: ReasoningItem) -> Iterator[Document]:
    """One block for each part of a thought. The last one has the sealed state of all."""
    texts = [part.text for part in item.summary if part.text]
    if not isinstance(item.content, UnsetType):
        texts += [part.text for part in item.content if part.text]
    sealed = item.encrypted_content if isinstance(item.encrypted_content, str) else ""
    if sealed and not texts:
        texts = [""]
    for number, text in enumerate(texts, 1):
        signature = sealed if number == len(texts) else ""
        yield {"type": "thinking", "thinking": text, "signature": signature}


def refusal_of(output: Sequence[Item]) -> str:
    """The text with which the model has refused, if it has."""
    parts = [part for item in output if isinstance(item, Message) for part in item.content]
    return "".join(part.refusal for part in parts if isinstance(part, RefusalText))


# --- the end --------------------------------------------------------------------------------------


def end_of_message(response: Response, refusal: str) -> Document:
    """Why the response has ended, and the stop sequence that ended it."""
    sequence = response.stop_sequence
    matched = sequence if isinstance(sequence, str) else None
    end: Document = {"stop_reason": _stop_reason(response, matched, refusal)}
    end["stop_sequence"] = matched if end["stop_reason"] == "stop_sequence" else None
    if end["stop_reason"] == "refusal" and not _is_refusal_of_provider(response):
        details: Document = {"type": "refusal", "category": None, "explanation": refusal or None}
        if response.incomplete_details is not None:
            details["reason"] = "content_filter"  # for our own dialect; the API has no such end
        end["stop_details"] = details
    return end | _kept_end(response, end["stop_reason"])


def _is_refusal_of_provider(response: Response) -> bool:
    """Whether the provider itself has refused in this format: it has given its own details."""
    return (kept_members(response.extra) or {}).get("stop_reason") == "refusal"


def _kept_end(response: Response, reason: str) -> Document:
    """What the provider itself says of the end, in this format. A reason without a name elsewhere
    takes the place of the one that stands for it; any other is known by the output."""
    members = kept_members(response.extra) or {}
    left_out = _NOT_OF_END if reason == "refusal" else {*_NOT_OF_END, "stop_details"}
    kept = {name: members[name] for name in members if name not in left_out}
    own = members.get("stop_reason")
    is_nameless = isinstance(own, str) and own not in _STOP_REASONS
    if is_nameless and reason in ("end_turn", "max_tokens"):
        kept["stop_reason"] = own
    return kept


def kept_context(response: Response) -> Document:
    """What the provider has removed from the context. In a stream it is no part of the delta."""
    members = kept_members(response.extra) or {}
    return {name: members[name] for name in members if name == _CONTEXT}


def _stop_reason(response: Response, matched: str | None, refusal: str) -> str:
    if response.incomplete_details is not None:
        is_filtered = response.incomplete_details.reason == "content_filter"
        return "refusal" if is_filtered else "max_tokens"
    if refusal:
        return "refusal"
    if any(is_call(item) for item in response.output):
        return "tool_use"
    return "end_turn" if matched is None else "stop_sequence"


def render_usage(response: Response, estimate: int = 0) -> Document:
    """Token counts. Those of the input exclude cached tokens here, and include them elsewhere;
    `estimate` is for a response that has just begun."""
    usage = response.usage or ResponseUsage(input_tokens=estimate)
    details = usage.input_tokens_details
    uncached = usage.input_tokens - details.cached_tokens - details.cache_write_tokens
    counts: Document = {
        "input_tokens": max(0, uncached),
        "cache_creation_input_tokens": details.cache_write_tokens,
        "cache_read_input_tokens": details.cached_tokens,
        "output_tokens": usage.output_tokens,
        "service_tier": _TIERS.get(response.service_tier, response.service_tier),
    }
    if thinking := usage.output_tokens_details.reasoning_tokens:
        counts["output_tokens_details"] = {"thinking_tokens": thinking}
    if searches := sum(map(is_search, response.output)):
        counts["server_tool_use"] = {"web_search_requests": searches, "web_fetch_requests": 0}
    others: Document = (kept_members(response.extra) or {}).get("usage", {})
    return others | counts
