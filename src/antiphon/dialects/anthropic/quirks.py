"""Differences between providers of the Messages API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct

from antiphon.core.items import Document
from antiphon.core.plan.plan import Plan

PATH = "/v1/messages"


class AnthropicQuirks(Struct, frozen=True, kw_only=True):
    """How one provider's requests differ from the common form: data, and a function at most."""

    path: str = PATH
    """Path of requests; `{model}` stands for the name of the model."""
    stream_path: str | None = None
    """Path of streamed requests, if it differs."""
    max_tokens: int = 32_000
    """`max_tokens` where the client sets no limit; the API requires one."""
    thinking: Literal["adaptive", "budget", "none"] = "budget"
    """Form of the effort: a level for a model that decides itself, or a number of tokens."""
    display: Literal["summarized", "omitted"] | None = None
    """Whether reasoning is shown; None leaves it to the model."""
    unsigned_thinking: bool = False
    """Replay reasoning that was never signed. The original API refuses it."""
    sampling: Literal["both", "one", "none"] = "one"
    """Which of temperature and top_p may be set; with "one", the temperature wins."""
    native_format: bool = False
    """Request structured output by `output_config`; otherwise by an instruction."""
    caching: Literal["automatic", "breakpoints", "off"] = "automatic"
    """Automatic: the provider places the breakpoints. Breakpoints: markers in the messages, for
    providers that know only those."""
    web_search: str = "web_search_20250305"
    """Type of the provider's own search tool."""
    models: Mapping[str, AnthropicQuirks] = {}
    """Quirks of single models, which replace all of these, by a part of the model's name; the
    longest match wins, and a dot equals a dash."""
    patch: Callable[[Document, Plan], Document] | None = None
    """Last change to the request body."""

    def of(self, model: str) -> AnthropicQuirks:
        name = model.casefold().replace(".", "-")
        known = [each for each in self.models if each.replace(".", "-") in name]
        return self.models[max(known, key=len)] if known else self


PLAIN = AnthropicQuirks()
