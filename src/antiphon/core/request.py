"""A request in its canonical form: what every client format is parsed to, and every plan made of.

Its fields are those of the Responses API, and what other client formats have beyond it (ADR 0080).
The document that a client sent stays unchanged in `raw`, for the trace: nothing is decided by it.
`unknown` names fields of it that the client's format does not document, as many as are worth it.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from msgspec import Struct, field

from antiphon.core.items import Document


class Thinking(Struct, frozen=True, kw_only=True):
    """How a client of a format with a setting of its own for it wants the model to think."""

    mode: Literal["default", "enabled", "adaptive", "disabled"] = "default"
    budget_tokens: int | None = None
    display: str | None = None
    """How much of its reasoning is shown."""
    effort: str | None = None
    """The effort beside it, which may contradict it."""


class Request(Struct, frozen=True, kw_only=True):
    """A validated request. Absent and null fields have the API's defaults, or None."""

    raw: Document
    is_large: bool = False
    """Whether deciding about the request takes long enough to delay others."""
    unknown: tuple[str, ...] = ()
    """Top-level fields that no version of the API documents: the first of them, shortened."""
    unknown_more: int = 0
    """How many other unknown fields there are."""
    similar: dict[str, str] = {}
    """Unknown fields → documented ones that they resemble."""

    model: str
    input: tuple[Document, ...] = ()
    instructions: str | None = None
    previous_response_id: str | None = None
    inherits_tools: bool = False
    """A request that continues a response and has no tools has those of that response."""
    conversation: str | None = None
    prompt: Document | None = None

    stream: bool = False
    stream_options: Document | None = None
    store: bool = True
    background: bool = False
    state_carrier: Literal["items", "store", "call_ids"] = "items"
    """How the provider's state comes back with the history: in reasoning items that the client
    returns; or by the ids of calls, if it returns nothing else: from the store, or within the ids,
    for a client that wants nothing stored."""
    include: frozenset[str] = frozenset()
    shows_searches: bool = False
    """The client's format shows what a search of the web has found, by its titles."""

    tools: tuple[Document, ...] = ()
    tool_choice: str | Document = "auto"
    parallel_tool_calls: bool | None = None
    max_tool_calls: int | None = None

    text_format: Document = field(default_factory=partial(dict, type="text"))
    format_param: str = "text.format"
    """The member of the client's document that requests the output format, for messages."""
    schema_param: str = "text.format.schema"
    """The member that has the schema of the output format."""
    verbosity: str | None = None
    reasoning: Document | None = None
    effort: str | None = None
    summary: str | None = None
    thinking: Thinking | None = None
    prefill: bool | None = None
    """The last item is the beginning of the response: the model is to continue it."""

    max_output_tokens: int | None = None
    stop: tuple[str, ...] | None = None
    """Texts that end the output, which does not contain them."""
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    logit_bias: dict[str, float] | None = None
    """Additions to the logits of tokens, by their ids in the provider's own vocabulary."""
    top_logprobs: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None

    truncation: str | None = None
    context_management: tuple[Document, ...] = ()
    metadata: dict[str, str] | None = None
    client_metadata: Document | None = None
    service_tier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: Document | None = None
    prompt_cache_retention: str | None = None
    safety_identifier: str | None = None
    user: str | None = None
    image: Document | None = None
    moderation: Document | None = None
    access_programs: Document | None = None
    multi_agent: Document | None = None
    prompt_caching: Literal["client"] | None = None
    """The client itself places the breakpoints of the prompt cache, or wants none."""
    cache_control: Document | None = None
    """A breakpoint that the provider moves to the end of the prompt by itself."""
    context_edits: tuple[Document, ...] | None = None
    """What the provider is to remove from a long context, such as old tool results."""
    client_format: str = ""
    """The format of the client, if providers of the same format exist: their content blocks reach
    the client as they are."""
    betas: tuple[str, ...] | None = None
    """Features of a provider's API that the client has switched on for this request."""
    extra: Document | None = None
    """`{"format": …, "members": {…}}`: members of the client's own document that have no name here.
    Only a provider of the same format gets them."""
