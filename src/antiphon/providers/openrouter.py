"""OpenRouter: models of many vendors; their state is replayed in `reasoning_details`.

Claude caches a prompt only up to a breakpoint. One member of the request has OpenRouter place it at
the end of the prompt, and move it with the thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from antiphon.core.capabilities import Capabilities
from antiphon.core.plan.plan import Plan
from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.providers.spec import Spec, parse_efforts

_NEED_BREAKPOINTS = "anthropic/"


def _patch(body: dict[str, Any], plan: Plan) -> dict[str, Any]:
    if "tools" in body:
        body["tools"] = [_tool(tool) for tool in body["tools"]]
    if plan.effort is not None and plan.effort.isdecimal():
        body["reasoning"] = {"max_tokens": int(plan.effort)}
    if plan.model.startswith(_NEED_BREAKPOINTS):
        body["cache_control"] = {"type": "ephemeral"}
        body["messages"] = body.pop("messages")  # it stays the last member
    return body


def _tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Convert a web search tool: OpenRouter's built-in tools have a prefix."""
    return tool if tool["type"] == "function" else {"type": "openrouter:web_search"}


SPEC = Spec(
    name="openrouter",
    title="OpenRouter",
    as_of="2026-10",
    base_url="https://openrouter.ai/api/v1",
    api_key_env=("OPENROUTER_API_KEY",),
    capabilities=Capabilities(
        # OpenRouter itself drops parameters that a model does not support.
        parameters=frozenset(
            """
            temperature top_p max_output_tokens presence_penalty frequency_penalty top_logprobs
            parallel_tool_calls safety_identifier user logit_bias seed stop top_k
            """.split()
        ),
        efforts=parse_efforts("none minimal low medium high xhigh xhigh"),
        thinking_budgets=True,
        inputs=frozenset({"text", "image", "file"}),
        web_search="none",  # `native` works with every model, but is billed separately
    ),
    quirks=ChatQuirks(
        content_beside_calls=True,
        fields={"usage": {"include": True}},
        effort_field="reasoning.effort",
        replay_details=True,
        patch=_patch,
    ),
)
