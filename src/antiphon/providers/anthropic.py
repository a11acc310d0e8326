"""Anthropic (Claude): thinking by token budget or adaptive, depending on the model version."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.core.capabilities import Capabilities
from antiphon.dialects.anthropic.media import ACCEPTED_MEDIA
from antiphon.dialects.anthropic.quirks import AnthropicQuirks
from antiphon.providers.claude import ADAPTIVE, ALWAYS, BUDGET, LATEST, OLD, RECENT
from antiphon.providers.spec import Auth, Model, Spec

_OWN_FORMAT = frozenset("thinking prompt_caching cache_control context_edits betas extra".split())
"""What clients of the Messages format send, and only this API has."""


def _add_api_features(can: Capabilities) -> Capabilities:
    """Add what Anthropic's own API supports beyond the model itself."""
    users: dict[str, tuple[float, float]] = {"safety_identifier": (1, 256), "user": (1, 256)}
    return replace(
        can,
        parameters=can.parameters | {*users, "service_tier", "max_tool_calls"} | _OWN_FORMAT,
        ranges={**can.ranges, **users},
        allowed_values={"service_tier": frozenset({"auto", "default", "priority"})},
        inputs=can.inputs | {"file_url"},
        media=ACCEPTED_MEDIA,
        web_search="native",
        web_search_limits=frozenset(
            {"filters.allowed_domains", "filters.blocked_domains", "user_location"}
        ),
        hosted_tools=frozenset(
            "web_fetch code_execution tool_search_tool_regex tool_search_tool_bm25".split()
        ),
        tool_output_files=True,
        tool_errors=True,
        deferred_tools=True,
        client_blocks="messages",
    )


_NEW = AnthropicQuirks(
    thinking="adaptive", display="summarized", sampling="none", native_format=True
)
_4_6 = replace(_NEW, display=None, sampling="one")
_4_5 = replace(_4_6, thinking="budget")
_4_1 = replace(_4_5, native_format=False)
_4 = replace(_4_1, sampling="both")
_3 = replace(_4, thinking="none", max_tokens=4_096)
_FAMILIES: tuple[tuple[str, Capabilities, AnthropicQuirks], ...] = (
    *((f"claude-{name}", ALWAYS, _NEW) for name in ("opus-5-5", "sonnet-5-5")),
    *((f"claude-{name}", LATEST, _NEW) for name in ("opus-5", "opus-4-8", "opus-4-7", "fable-5")),
    ("claude-sonnet-5", replace(LATEST, efforts=ADAPTIVE.efforts), _NEW),
    *((f"claude-{name}", ADAPTIVE, _4_6) for name in ("opus-4-6", "sonnet-4-6")),
    *((f"claude-{name}-4-5", RECENT, _4_5) for name in ("opus", "sonnet", "haiku")),
    (
        "claude-opus-4-1",
        replace(BUDGET, conflicting_parameters=RECENT.conflicting_parameters),
        _4_1,
    ),
    *((f"claude-{name}", BUDGET, _4) for name in ("opus-4-", "sonnet-4-", "3-7-")),
    ("claude-3-", OLD, _3),
)

SPEC = Spec(
    name="anthropic",
    title="Anthropic",
    as_of="2026-10",
    base_url="https://api.anthropic.com",
    api_key_env=("ANTHROPIC_API_KEY",),
    auth=Auth(header="x-api-key", scheme="plain"),
    dialect="anthropic",
    capabilities=_add_api_features(LATEST),
    models=tuple(
        Model(id=name, capabilities=_add_api_features(can), family=name.endswith("-"))
        for name, can, _ in _FAMILIES
    ),
    quirks=replace(_NEW, models={name: quirks for name, _, quirks in _FAMILIES}),
)
