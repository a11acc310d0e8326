"""Types of requests, responses and events, for editors and type checkers.

The dictionaries are those of the wire: `create` returns a `Response`, a stream yields an `Event`.
Test `item["type"]` or `"delta" in event` to narrow a union. `make types` writes this file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, final


@final
class OutputText(TypedDict):
    type: Literal["output_text"]
    text: str
    annotations: list[dict[str, Any]]
    logprobs: list[dict[str, Any]]


@final
class RefusalText(TypedDict):
    type: Literal["refusal"]
    refusal: str


@final
class ReasoningText(TypedDict):
    type: Literal["reasoning_text"]
    text: str


@final
class SummaryText(TypedDict):
    type: Literal["summary_text"]
    text: str


@final
class Message(TypedDict):
    type: Literal["message"]
    id: str
    status: Literal["in_progress", "completed", "incomplete"]
    role: Literal["assistant"]
    content: list[OutputText | RefusalText]
    phase: NotRequired[str]


@final
class ReasoningItem(TypedDict):
    type: Literal["reasoning"]
    id: str
    status: Literal["in_progress", "completed", "incomplete"]
    summary: list[SummaryText]
    content: NotRequired[list[ReasoningText]]
    encrypted_content: NotRequired[str]


@final
class FunctionCall(TypedDict):
    type: Literal["function_call"]
    id: str
    call_id: str
    name: str
    arguments: str
    status: Literal["in_progress", "completed", "incomplete"]
    namespace: NotRequired[str]


@final
class CustomToolCall(TypedDict):
    type: Literal["custom_tool_call"]
    id: str
    call_id: str
    name: str
    input: str
    status: Literal["in_progress", "completed", "incomplete"]
    namespace: NotRequired[str]


@final
class ShellCall(TypedDict):
    type: Literal["shell_call"]
    id: str
    call_id: str
    action: dict[str, Any]
    status: Literal["in_progress", "completed", "incomplete"]


@final
class LocalShellCall(TypedDict):
    type: Literal["local_shell_call"]
    id: str
    call_id: str
    action: dict[str, Any]
    status: Literal["in_progress", "completed", "incomplete"]


@final
class ApplyPatchCall(TypedDict):
    type: Literal["apply_patch_call"]
    id: str
    call_id: str
    operation: dict[str, Any]
    status: Literal["in_progress", "completed", "incomplete"]


@final
class ToolSearchCall(TypedDict):
    type: Literal["tool_search_call"]
    id: str
    call_id: str
    execution: Literal["client"]
    arguments: dict[str, Any]
    status: Literal["in_progress", "completed", "incomplete"]


@final
class HostedToolItem(TypedDict):
    """An item of a tool that a server runs; its fields depend on the tool."""

    type: Literal[
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "computer_call",
        "mcp_call",
        "mcp_list_tools",
        "mcp_approval_request",
        "compaction",
        "shell_call_output",
        "apply_patch_call_output",
        "tool_search_output",
        "program",
        "program_output",
    ]
    id: str
    status: NotRequired[str]
    action: NotRequired[dict[str, Any]]
    queries: NotRequired[list[str]]
    results: NotRequired[list[dict[str, Any]] | None]
    code: NotRequired[str | None]
    container_id: NotRequired[str]
    outputs: NotRequired[list[dict[str, Any]] | None]
    result: NotRequired[str | None]
    call_id: NotRequired[str]
    server_label: NotRequired[str]
    name: NotRequired[str]
    arguments: NotRequired[str]
    output: NotRequired[Any]
    error: NotRequired[Any]
    tools: NotRequired[list[dict[str, Any]]]
    encrypted_content: NotRequired[str]


Item: TypeAlias = (
    Message
    | ReasoningItem
    | FunctionCall
    | CustomToolCall
    | ShellCall
    | LocalShellCall
    | ApplyPatchCall
    | ToolSearchCall
    | HostedToolItem
)
"""An element of `output`."""


@final
class InputTokensDetails(TypedDict):
    cached_tokens: int
    cache_write_tokens: int


@final
class OutputTokensDetails(TypedDict):
    reasoning_tokens: int


@final
class ResponseUsage(TypedDict):
    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int
    estimated: NotRequired[bool]


@final
class ResponseError(TypedDict):
    code: str
    message: str


@final
class IncompleteDetails(TypedDict):
    reason: str


@final
class Response(TypedDict):
    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
    background: bool
    error: ResponseError | None
    incomplete_details: IncompleteDetails | None
    instructions: str | list[dict[str, Any]] | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    model: str
    output: list[Item]
    output_text: NotRequired[str]
    parallel_tool_calls: bool
    previous_response_id: str | None
    conversation: dict[str, Any] | None
    presence_penalty: float
    frequency_penalty: float
    prompt_cache_key: str | None
    reasoning: dict[str, Any] | None
    safety_identifier: str | None
    service_tier: str
    stop_sequence: NotRequired[str]
    store: bool
    temperature: float
    text: dict[str, Any]
    tool_choice: str | dict[str, Any]
    tools: list[dict[str, Any]]
    top_logprobs: int
    top_p: float
    truncation: str
    usage: ResponseUsage | None
    user: str | None
    metadata: dict[str, Any]


@final
class TextDelta(TypedDict):
    type: Literal["response.output_text.delta"]
    item_id: str
    output_index: int
    content_index: int
    delta: str
    logprobs: list[dict[str, Any]]
    sequence_number: int


@final
class ReasoningDelta(TypedDict):
    type: Literal["response.reasoning_text.delta"]
    item_id: str
    output_index: int
    content_index: int
    delta: str
    sequence_number: int


@final
class ArgumentsDelta(TypedDict):
    type: Literal["response.function_call_arguments.delta"]
    item_id: str
    output_index: int
    delta: str
    sequence_number: int


@final
class InputDelta(TypedDict):
    type: Literal["response.custom_tool_call_input.delta"]
    item_id: str
    output_index: int
    delta: str
    sequence_number: int


@final
class SummaryDelta(TypedDict):
    type: Literal["response.reasoning_summary_text.delta"]
    item_id: str
    output_index: int
    summary_index: int
    delta: str
    sequence_number: int


@final
class RefusalDelta(TypedDict):
    type: Literal["response.refusal.delta"]
    item_id: str
    output_index: int
    content_index: int
    delta: str
    sequence_number: int


@final
class AnnotationAdded(TypedDict):
    type: Literal["response.output_text.annotation.added"]
    item_id: str
    output_index: int
    content_index: int
    annotation_index: int
    annotation: dict[str, Any]
    sequence_number: int


@final
class ItemAdded(TypedDict):
    type: Literal["response.output_item.added"]
    output_index: int
    item: Item
    sequence_number: int


@final
class ItemDone(TypedDict):
    type: Literal["response.output_item.done"]
    output_index: int
    item: Item
    sequence_number: int


@final
class PartAdded(TypedDict):
    type: Literal["response.content_part.added"]
    item_id: str
    output_index: int
    content_index: int
    part: OutputText | RefusalText | ReasoningText
    sequence_number: int


@final
class PartDone(TypedDict):
    type: Literal["response.content_part.done"]
    item_id: str
    output_index: int
    content_index: int
    part: OutputText | RefusalText | ReasoningText
    sequence_number: int


@final
class TextDone(TypedDict):
    type: Literal["response.output_text.done"]
    item_id: str
    output_index: int
    content_index: int
    text: str
    logprobs: list[dict[str, Any]]
    sequence_number: int


@final
class RefusalDone(TypedDict):
    type: Literal["response.refusal.done"]
    item_id: str
    output_index: int
    content_index: int
    refusal: str
    sequence_number: int


@final
class ReasoningDone(TypedDict):
    type: Literal["response.reasoning_text.done"]
    item_id: str
    output_index: int
    content_index: int
    text: str
    sequence_number: int


@final
class SummaryPartAdded(TypedDict):
    type: Literal["response.reasoning_summary_part.added"]
    item_id: str
    output_index: int
    summary_index: int
    part: SummaryText
    sequence_number: int


@final
class SummaryPartDone(TypedDict):
    type: Literal["response.reasoning_summary_part.done"]
    item_id: str
    output_index: int
    summary_index: int
    part: SummaryText
    sequence_number: int


@final
class SummaryDone(TypedDict):
    type: Literal["response.reasoning_summary_text.done"]
    item_id: str
    output_index: int
    summary_index: int
    text: str
    sequence_number: int


@final
class ArgumentsDone(TypedDict):
    type: Literal["response.function_call_arguments.done"]
    item_id: str
    output_index: int
    name: str
    arguments: str
    sequence_number: int


@final
class InputDone(TypedDict):
    type: Literal["response.custom_tool_call_input.done"]
    item_id: str
    output_index: int
    input: str
    sequence_number: int


@final
class MCPArgumentsDelta(TypedDict):
    type: Literal["response.mcp_call_arguments.delta"]
    item_id: str
    output_index: int
    delta: str
    sequence_number: int


@final
class MCPArgumentsDone(TypedDict):
    type: Literal["response.mcp_call_arguments.done"]
    item_id: str
    output_index: int
    arguments: str
    sequence_number: int


@final
class Keepalive(TypedDict):
    type: Literal["keepalive"]
    sequence_number: int


@final
class ResponseEvent(TypedDict):
    """The beginning, progress or end of a response."""

    type: Literal[
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.completed",
        "response.incomplete",
        "response.failed",
    ]
    sequence_number: int
    response: Response


@final
class HostedToolEvent(TypedDict):
    """Progress of a tool that a server runs."""

    type: Literal[
        "response.web_search_call.in_progress",
        "response.web_search_call.searching",
        "response.web_search_call.completed",
        "response.file_search_call.in_progress",
        "response.file_search_call.searching",
        "response.file_search_call.completed",
        "response.code_interpreter_call.in_progress",
        "response.code_interpreter_call.interpreting",
        "response.code_interpreter_call.completed",
        "response.code_interpreter_call_code.delta",
        "response.code_interpreter_call_code.done",
        "response.image_generation_call.in_progress",
        "response.image_generation_call.generating",
        "response.image_generation_call.partial_image",
        "response.image_generation_call.completed",
        "response.mcp_call.in_progress",
        "response.mcp_call.completed",
        "response.mcp_call.failed",
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.mcp_list_tools.failed",
        "response.shell_call_command.added",
        "response.shell_call_command.delta",
        "response.shell_call_command.done",
        "response.shell_call_output_content.delta",
        "response.shell_call_output_content.done",
        "response.compaction.compacting",
    ]
    sequence_number: int
    output_index: int
    item_id: NotRequired[str]
    delta: NotRequired[Any]
    code: NotRequired[str]
    command: NotRequired[str]
    command_index: NotRequired[int]
    partial_image_b64: NotRequired[str]
    partial_image_index: NotRequired[int]


Event: TypeAlias = (
    TextDelta
    | ReasoningDelta
    | ArgumentsDelta
    | InputDelta
    | SummaryDelta
    | RefusalDelta
    | AnnotationAdded
    | ItemAdded
    | ItemDone
    | PartAdded
    | PartDone
    | TextDone
    | RefusalDone
    | ReasoningDone
    | SummaryPartAdded
    | SummaryPartDone
    | SummaryDone
    | ArgumentsDone
    | InputDone
    | MCPArgumentsDelta
    | MCPArgumentsDone
    | Keepalive
    | ResponseEvent
    | HostedToolEvent
)
"""An event of a stream."""


@final
class CreateRequest(TypedDict, total=False):
    """The fields of a request. None of them is required here: a document may have the others."""

    model: str
    input: str | Sequence[Mapping[str, Any]]
    instructions: str | None
    previous_response_id: str | None
    conversation: str | Mapping[str, Any] | None
    prompt: Mapping[str, Any] | None
    tools: Sequence[Mapping[str, Any]]
    tool_choice: str | Mapping[str, Any]
    parallel_tool_calls: bool | None
    max_tool_calls: int | None
    reasoning: Mapping[str, Any] | None
    text: Mapping[str, Any]
    max_output_tokens: int | None
    stop: str | Sequence[str] | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    seed: int | None
    logit_bias: Mapping[str, float] | None
    top_logprobs: int | None
    presence_penalty: float | None
    frequency_penalty: float | None
    truncation: Literal["auto", "disabled"] | None
    context_management: Sequence[Mapping[str, Any]] | None
    include: Sequence[str] | None
    store: bool | None
    background: bool | None
    stream: bool | None
    stream_options: Mapping[str, Any] | None
    metadata: Mapping[str, str] | None
    service_tier: str | None
    prompt_cache_key: str
    prompt_cache_options: Mapping[str, Any] | None
    prompt_cache_retention: str | None
    safety_identifier: str
    user: str
    moderation: Mapping[str, Any] | None
    access_programs: Mapping[str, Any] | None
    image: Mapping[str, Any] | None
    multi_agent: Mapping[str, Any] | None
    client_metadata: Mapping[str, Any] | None
