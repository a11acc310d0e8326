"""The Response object of the API, with the default of every field."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType, field, structs

from antiphon.core.items import Document, Item

ResponseStatus: TypeAlias = Literal[
    "queued", "in_progress", "completed", "incomplete", "failed", "cancelled"
]


class InputTokensDetails(Struct, frozen=True):
    cached_tokens: int = 0
    cache_write_tokens: int = 0


class OutputTokensDetails(Struct, frozen=True):
    reasoning_tokens: int = 0


class ResponseUsage(Struct, frozen=True):
    input_tokens: int = 0
    input_tokens_details: InputTokensDetails = InputTokensDetails()
    output_tokens: int = 0
    output_tokens_details: OutputTokensDetails = OutputTokensDetails()
    total_tokens: int = 0
    estimated: bool | UnsetType = UNSET
    """True: the provider sent no counts, and these are estimated by length. Not in the API."""


class ResponseError(Struct, frozen=True):
    code: str
    message: str


class IncompleteDetails(Struct, frozen=True):
    reason: str


def _default_text() -> Document:
    return {"format": {"type": "text"}, "verbosity": "medium"}


def _default_reasoning() -> Document:
    return {"effort": None, "summary": None}


class Response(Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["response"] = "response"
    created_at: int
    completed_at: int | None = None
    status: ResponseStatus = "in_progress"
    background: bool = False
    error: ResponseError | None = None
    incomplete_details: IncompleteDetails | None = None
    instructions: str | Sequence[Document] | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    model: str
    output: Sequence[Item] = ()
    output_text: str | UnsetType = UNSET
    """All text of `output`, once the response has ended."""
    parallel_tool_calls: bool = True
    previous_response_id: str | None = None
    conversation: Document | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    prompt_cache_key: str | None = None
    reasoning: Document | None = field(default_factory=_default_reasoning)
    safety_identifier: str | None = None
    service_tier: str = "default"
    stop_sequence: str | UnsetType = UNSET
    """The text of `stop` that ended the response. Not in the API."""
    store: bool = True
    temperature: float = 1.0
    text: Document = field(default_factory=_default_text)
    tool_choice: str | Mapping[str, Any] = "auto"
    tools: Sequence[Document] = ()
    top_logprobs: int = 0
    top_p: float = 1.0
    truncation: str = "disabled"
    usage: ResponseUsage | None = None
    user: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    extra: Document | UnsetType = UNSET
    """`{"format": …, "members": {…}}`: members of the provider's own response that have no name
    here, for a client of the same format. Other clients get none. Not in the API."""


def text_of_output(output: Iterable[Mapping[str, Any]]) -> str:
    """Join the text of all messages of an output, as `output_text` has it."""
    return "".join(
        part["text"]
        for item in output
        if item["type"] == "message"
        for part in item["content"]
        if part["type"] == "output_text"
    )


_OTHER_NAMES: Mapping[str, str] = {
    "max_completion_tokens": "max_output_tokens",
    "logprobs": "top_logprobs",
    "reasoning_effort": "effort",
    "reasoning": "effort",
}
"""Other names of settings in requests to providers, in snake case."""


class UsedSettings(Struct, frozen=True, kw_only=True):
    """The settings of a request that are used. Labels of the client, such as `metadata`, and the
    model are not among them: a response repeats them as they were sent."""

    parameters: Mapping[str, Any] = {}
    """Parameters that are sent to the provider, or that the gateway applies itself."""
    effort: str | None = None
    text_format: Document = field(default_factory=lambda: {"type": "text"})
    forces_call: bool = False
    """Whether the provider has to call a tool."""
    unused: Collection[Mapping[str, Any]] = ()
    """Tools that cannot be called."""


def remove_settings(used: UsedSettings, refused: Iterable[str]) -> UsedSettings:
    """The settings after a provider has refused some of its parameters, by its names for them."""
    snake_case = {re.sub(r"(?=[A-Z])", "_", name).lower() for name in refused}
    names = {_OTHER_NAMES.get(name, name) for name in snake_case}
    parameters = {name: value for name, value in used.parameters.items() if name not in names}
    effort = None if "effort" in names else used.effort
    return structs.replace(used, parameters=parameters, effort=effort)
