"""Parsing of a Messages request (`POST /v1/messages`) to a canonical `Request`.

What makes a request meaningless and members of a wrong type are refused, with the path of the
member as the API writes it (`messages.3.content.0.type`). Betas, unknown members, unknown blocks
and contradictions are not: they go to a provider of the same format as they came, and are reported
for every other one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from antiphon.core.items import Document
from antiphon.core.plan.effort import effort_of_budget
from antiphon.core.request import Request, Thinking
from antiphon.dialects.anthropic.errors import THREAD_UNSUPPORTED
from antiphon.dialects.anthropic.kept_blocks import is_server_block
from antiphon.dialects.anthropic.message_ids import response_id
from antiphon.dialects.anthropic.parse_blocks import read_messages, read_system
from antiphon.dialects.anthropic.parse_errors import invalid, is_number, mapping, type_name
from antiphon.dialects.anthropic.parse_mcp import FORMAT, SERVERS, add_servers
from antiphon.dialects.anthropic.parse_tools import read_tool_choice, read_tools
from antiphon.dialects.anthropic.parse_types import REQUEST, check_members
from antiphon.dialects.client_dialect import NO_HEADERS
from antiphon.dialects.validate import MAX_MODEL_NAME, describe_unknown, suggest_misspelt
from antiphon.errors import InvalidRequest

_KNOWN = frozenset(
    """
    model messages system tools tool_choice max_tokens stream stop_sequences temperature top_p top_k
    metadata thinking output_config output_format context_management service_tier cache_control
    thread
    """.split()
)
_SERVICE_TIERS = {"standard_only": "default"}


def parse_messages(
    document: Document,
    *,
    headers: Mapping[str, str] = NO_HEADERS,
    is_large: bool = False,
    is_count: bool = False,
) -> Request:
    """Make the canonical request, or raise an `InvalidRequest`. `headers` are those of the HTTP
    request, in lower case: they name the betas, and the session of Claude Code."""
    fields = {name: value for name, value in document.items() if value is not None}
    check_members(fields, REQUEST)
    others = {name: value for name, value in fields.items() if name not in _KNOWN}
    unknown = [name for name in others if name != SERVERS]
    messages = _read_message_list(fields, unknown)
    edits = _read_edits(fields)
    servers = fields.get(SERVERS)
    has_servers = servers is not None
    tools, max_searches = read_tools(fields.get("tools", []), messages, has_servers=has_servers)
    return Request(
        raw=document,
        is_large=is_large,
        **describe_unknown(unknown, _KNOWN),
        extra={"format": FORMAT, "members": others} if others else None,
        model=_read_model(fields, unknown),
        input=(*read_system(fields.get("system")), *read_messages(messages)),
        stream=fields.get("stream") is True and not is_count,
        stream_options={"include_obfuscation": False},
        include=frozenset({"reasoning.encrypted_content"}),
        shows_searches=True,
        tools=add_servers(tools, servers, messages) if has_servers else tools,
        tool_choice=read_tool_choice(fields.get("tool_choice"), tools),
        parallel_tool_calls=_read_parallel(fields),
        max_tool_calls=max_searches,
        **_read_format(fields),
        betas=_read_betas(headers),
        client_format=FORMAT,
        prompt_caching="client",
        cache_control=mapping(fields.get("cache_control")) or None,
        context_edits=edits,
        context_management=_read_compaction(edits or ()),
        prefill=_is_prefill(messages[-1]) or None,
        **_read_thread(fields.get("thread")),
        **_read_thinking(fields),
        **_read_sampling(fields),
        **_read_user(fields, headers),
        service_tier=_read_tier(fields),
    )


def _read_message_list(fields: Document, unknown: Sequence[str]) -> list[Document]:
    messages = fields.get("messages")
    if messages is None:
        raise _missing("messages", unknown)
    if not isinstance(messages, list):
        raise invalid("messages", f"Input should be a valid list, not {type_name(messages)}")
    if not messages:
        raise invalid("messages", "at least one message is required")
    return messages


def _missing(name: str, unknown: Sequence[str]) -> InvalidRequest:
    hint = suggest_misspelt(name, unknown)
    return invalid(name, f"Field required.{hint}" if hint else "Field required")


def _read_model(fields: Document, unknown: Sequence[str]) -> str:
    model = fields.get("model")
    if model is None:
        raise _missing("model", unknown)
    if not isinstance(model, str) or not model.strip():
        raise invalid("model", "Input should be a non-empty string")
    if len(model) > MAX_MODEL_NAME:
        raise invalid("model", f"String should have at most {MAX_MODEL_NAME} characters")
    return model


def _read_parallel(fields: Document) -> bool | None:
    choice = mapping(fields.get("tool_choice"))
    return False if choice.get("disable_parallel_tool_use") is True else None


def _read_format(fields: Document) -> dict[str, Any]:
    """The output format, by its newer or its older name."""
    path, given = "output_config.format", mapping(fields.get("output_config")).get("format")
    if given is None:
        path, given = "output_format", fields.get("output_format")
    if given is None:
        return {}
    if given.get("type") != "json_schema":
        raise invalid(f"{path}.type", "Input should be 'json_schema'")
    if given.get("schema") is None:
        raise invalid(f"{path}.schema", "Field required")
    form = {"type": "json_schema", "name": "output", "schema": given["schema"], "strict": True}
    return {"text_format": form, "format_param": path, "schema_param": f"{path}.schema"}


def _read_betas(headers: Mapping[str, str]) -> tuple[str, ...] | None:
    names = (name.strip() for name in headers.get("anthropic-beta", "").split(","))
    return tuple(name for name in names if name and name.isascii()) or None


def _read_edits(fields: Document) -> tuple[Document, ...] | None:
    edits = mapping(fields.get("context_management")).get("edits")
    return None if edits is None else tuple(edits)


def _read_compaction(edits: tuple[Document, ...]) -> tuple[Document, ...]:
    """The edit that replaces a long context by a summary. The gateway makes it for providers that
    have no such edits."""
    for edit in edits:
        if str(edit.get("type")).startswith("compact_"):
            limit = mapping(edit.get("trigger")).get("value")
            threshold = {"compact_threshold": limit} if type(limit) is int and limit > 0 else {}
            return ({"type": "compaction", **threshold},)
    return ()


def _is_prefill(message: Any) -> bool:
    """Whether the last message is the beginning of the output: text of the assistant, and no turn
    that the provider has paused."""
    match message:
        case {"role": "assistant", "content": str(text)} if text:
            return True
        case {"role": "assistant", "content": [*blocks, {"type": "text"}]}:
            return not any(map(is_server_block, blocks))
    return False


def _read_thread(thread: Any) -> dict[str, Any]:
    """A thread of the server is a chain of stored responses (`previous_response_id`)."""
    if thread is None:
        return {"store": False}
    kind = thread.get("type")
    if kind == "create":
        return {"store": True}
    if kind != "continue":
        problem = "thread.type: Input should be 'create' or 'continue'"
        raise InvalidRequest(problem, param="thread.type", code=THREAD_UNSUPPORTED)
    if not (previous := thread.get("previous_message_id")):
        raise invalid("thread.previous_message_id", "Field required")
    previous_id = response_id(previous)
    return {"store": True, "previous_response_id": previous_id, "inherits_tools": True}


# --- thinking -------------------------------------------------------------------------------------

_MODES: Mapping[str, Literal["enabled", "adaptive", "disabled"]] = {
    "enabled": "enabled",
    "adaptive": "adaptive",
    "disabled": "disabled",
}


def _read_thinking(fields: Document) -> dict[str, Any]:
    """Thinking and effort. They may contradict each other: Claude Code disables thinking beside an
    effort."""
    given = mapping(fields.get("thinking"))
    budget = given.get("budget_tokens")
    thinking = Thinking(
        mode=_MODES.get(str(given.get("type")), "default"),
        budget_tokens=budget if budget is not None and budget > 0 else None,
        display=given.get("display"),
        effort=mapping(fields.get("output_config")).get("effort") or None,
    )
    return {"thinking": thinking, "effort": _effort(thinking)}


def _effort(thinking: Thinking) -> str | None:
    """The effort of the canonical request."""
    if thinking.mode == "disabled":
        return "none"
    if thinking.effort is not None or thinking.mode == "default":
        return thinking.effort
    return effort_of_budget(thinking.budget_tokens)


# --- numbers and names ----------------------------------------------------------------------------


def _read_sampling(fields: Document) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if (limit := fields.get("max_tokens")) is not None:
        values["max_output_tokens"] = max(1, _integer(limit, "max_tokens"))
    if (top_k := fields.get("top_k")) is not None:
        values["top_k"] = max(0, _integer(top_k, "top_k"))
    for name in ("temperature", "top_p"):
        if (value := fields.get(name)) is not None:
            if not is_number(value):
                raise invalid(name, "Input should be a valid number")
            values[name] = value
    if stop := _read_stop(fields.get("stop_sequences")):
        values["stop"] = stop
    return values


def _integer(value: Any, path: str) -> int:
    if type(value) is not int:
        raise invalid(path, "Input should be a valid integer")
    return value


def _read_stop(value: Any) -> tuple[str, ...]:
    texts = value if isinstance(value, list) else [] if value is None else [value]
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise invalid(f"stop_sequences.{index}", "Input should be a valid string")
    return tuple(text for text in texts if text.strip())


def _read_tier(fields: Document) -> str | None:
    tier = fields.get("service_tier")
    return None if tier is None else _SERVICE_TIERS.get(tier, tier)


def _read_user(fields: Document, headers: Mapping[str, str]) -> dict[str, Any]:
    """The user's id, and the session: Claude Code sends it in a header, and in JSON as that id."""
    user = mapping(fields.get("metadata")).get("user_id") or None
    sent = headers.get("x-claude-code-session-id", "")
    session = sent if sent and sent.isprintable() else _session_of(user or "")
    return {"user": user, "prompt_cache_key": session or None}


def _session_of(user: str) -> str | None:
    if not user.startswith("{"):
        return None
    try:
        session = mapping(msgspec.json.decode(user)).get("session_id")
    except (ValueError, RecursionError):  # no JSON, or no text
        return None
    return session if isinstance(session, str) else None
