"""The model list, in both shapes clients read: OpenAI's `data`, and Codex's `models`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from antiphon.core.plan import Capabilities
from antiphon.engine.routing import Router

_LADDER = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_FALLBACK_WINDOW = 128_000


def model_list(router: Router) -> dict[str, Any]:
    names = router.names()
    return {
        "object": "list",
        "data": [
            {"id": name, "object": "model", "created": 0, "owned_by": _owner(router, name)}
            for name in names
        ],
        "models": [_entry(router, name, place) for place, name in enumerate(names)],
    }


def _owner(router: Router, name: str) -> str:
    return router.resolve(name).provider.name


def _entry(router: Router, name: str, place: int) -> Mapping[str, Any]:
    """What Codex wants to know of a model before it uses it."""
    target = router.resolve(name)
    can = target.provider.capabilities(target.model)
    window = can.context_window or _FALLBACK_WINDOW
    return {
        "slug": name,
        "display_name": name,
        "description": f"{target.model} by {target.provider.spec.title}",
        "supported_reasoning_levels": _levels(can),
        "default_reasoning_level": _default_level(can),
        "shell_type": "unified_exec",
        "visibility": "list",
        "supported_in_api": True,
        "priority": place,
        "support_verbosity": "verbosity" in can.parameters,
        "truncation_policy": {"mode": "bytes", "limit": 10_000},
        "experimental_supported_tools": [],
        "base_instructions": "You are a coding agent. You work with the user in their checkout.",
        "apply_patch_tool_type": "freeform",
        "context_window": window,
        "max_context_window": window,
        "input_modalities": [kind for kind in ("text", "image") if kind in can.inputs],
        "supports_search_tool": False,
    }


def _levels(can: Capabilities) -> list[dict[str, str]]:
    return [
        {"effort": effort, "description": f"Reasoning effort: {effort}"}
        for effort in _LADDER
        if effort in can.efforts
    ]


def _default_level(can: Capabilities) -> str | None:
    return "medium" if "medium" in can.efforts else None
