"""The model list, in both shapes clients read: OpenAI's `data`, and Codex's `models`.

Each entry of `models` decides how Codex works with a model: which tools it offers, when it
compacts a thread, which efforts can be chosen. All of it comes from the providers' data. Codex
skips members it does not know; `antiphon` is for our own command line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from antiphon import __version__
from antiphon.core.plan.plan import Capabilities
from antiphon.core.planning.effort import EFFORTS, resolve_effort
from antiphon.engine.routing import Router
from antiphon.server.agent_prompts import CODING, TALKING

_ASSUMED_WINDOW = 128_000
_LONG_ANSWER = 64_000
_LONG_TOOL_OUTPUT = 10_000

_ABOUT: Mapping[str, str] = {
    "none": "Answers without thinking first",
    "minimal": "Thinks as little as it can",
    "low": "Thinks briefly: quick, for what is plain",
    "medium": "Thinks for a while: for everyday work",
    "high": "Thinks long: for what is difficult",
    "xhigh": "Thinks very long: slow, for what is very difficult",
    "max": "Thinks as long as it can: slow and costly",
}
_SWITCHED_ON = "Thinks first; how long is up to the model"


def model_list(router: Router, *, sees: bool = False) -> dict[str, Any]:
    """Every name that can be asked for, the one for those who do not say any first.

    With `sees`, images are described to models that cannot see: they may be sent to all of them.
    """
    default = router.default_name()
    names = [*dict.fromkeys([default, *router.names()])]
    return {
        "object": "list",
        "data": [
            {"id": name, "object": "model", "created": 0, "owned_by": _owner(router, name)}
            for name in names
        ],
        "models": [_entry(router, name, place, sees) for place, name in enumerate(names)],
        "antiphon": {"version": __version__, "default_model": default},
    }


def entity_tag(document: Mapping[str, Any]) -> str:
    """Changes whenever the list does."""
    return f'"{hashlib.sha256(msgspec.json.encode(document)).hexdigest()[:32]}"'


def _owner(router: Router, name: str) -> str:
    return router.resolve(name).provider.name


def _entry(router: Router, name: str, place: int, sees: bool) -> dict[str, Any]:
    """What Codex wants to know of a model before it uses it."""
    target = router.resolve(name)
    can = target.capabilities
    about = f"{target.model} by {target.provider.spec.title}"
    entry = {
        "slug": name,
        "display_name": name,
        "description": about if can.context_window else f"{about}; context window unknown",
        # What is built in is for trying things out: it need not fill the menu.
        "visibility": "hide" if place and target.provider.spec.in_process else "list",
        "supported_in_api": True,
        "priority": place,
        "base_instructions": CODING if can.tools else TALKING,
        "include_skills_usage_instructions": can.tools,
        "include_plugin_usage_instructions": can.tools,
        "support_verbosity": "verbosity" in can.parameters,
        # Whoever asks for a summary is told raw thought as one.
        "supports_reasoning_summary_parameter": True,
        "default_reasoning_summary": "auto",
        "input_modalities": ["text", "image"] if sees or "image" in can.inputs else ["text"],
        **_thinking(can),
        **_tools(can),
        **_room(can),
        # Releases before 0.150 read no catalog without these two; later ones do not know them.
        "supports_reasoning_summaries": True,
        "supports_parallel_tool_calls": can.tools,
    }
    return {key: value for key, value in entry.items() if value is not None}


def _tools(can: Capabilities) -> dict[str, Any]:
    """Plain tools, one call each, with a patch that is written as it is and not as JSON.

    `direct` keeps Codex from offering nothing but one tool that runs JavaScript.
    """
    return {
        "shell_type": "unified_exec" if can.tools else "disabled",
        "apply_patch_tool_type": "freeform" if can.tools else None,
        "tool_mode": "direct",
        "supports_search_tool": can.tools,
        "web_search_tool_type": "text",
        "experimental_supported_tools": [],
    }


# How much fits


def _room(can: Capabilities) -> dict[str, Any]:
    """The window, and how much of it a thread may fill before it is compacted.

    A tenth is always left, and more where one answer may be longer: one that is cut short for want
    of room is a turn that has failed.
    """
    window = can.context_window or _ASSUMED_WINDOW
    answer = min(can.max_output_tokens or 0, _LONG_ANSWER, window // 4)
    return {
        "context_window": window,
        "max_context_window": can.context_window,  # unknown: the user's own number may be larger
        "auto_compact_token_limit": window - max(window // 10, answer),
        "truncation_policy": {"mode": "tokens", "limit": min(_LONG_TOOL_OUTPUT, window // 10)},
    }


# How long it thinks


def _thinking(can: Capabilities) -> dict[str, Any]:
    rungs = _real_rungs(can)
    word, _ = resolve_effort("medium", "", can)
    return {
        "supported_reasoning_levels": [
            {"effort": rung, "description": _about(rung, rungs)} for rung in rungs.values()
        ],
        "default_reasoning_level": rungs.get(word),
    }


def _real_rungs(can: Capabilities) -> dict[str | None, str]:
    """One rung for each word that the provider has: two names for the same would be a lie."""
    rungs = [rung for rung in EFFORTS if rung in can.efforts]
    alike: dict[str | None, list[str]] = {}
    for rung in rungs:
        alike.setdefault(can.efforts[rung], []).append(rung)
    return {word: _namesake(word, names) for word, names in alike.items()}


def _namesake(word: str | None, rungs: Sequence[str]) -> str:
    """The rung that is called like the word; else the middle one, where people look first."""
    return next((name for name in (word, "medium") if name and name in rungs), rungs[0])


def _about(rung: str, rungs: Mapping[str | None, str]) -> str:
    is_only_one = len([other for other in rungs.values() if other != "none"]) == 1
    return _SWITCHED_ON if is_only_one and rung != "none" else _ABOUT[rung]
