"""Model list for GET /v1/models, in two shapes: OpenAI's `data`, and Codex's `models`.

An entry of `models` decides how Codex uses a model: which tools it offers, when it compacts a
thread, which efforts can be chosen. All of it comes from the data of the providers. Codex ignores
unknown members; `antiphon` is for the command line of Antiphon itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from antiphon import __version__
from antiphon.core.capabilities import Capabilities
from antiphon.core.plan.effort import EFFORTS, resolve_effort
from antiphon.engine.routing import Router

_DEFAULT_CONTEXT_WINDOW = 128_000
_MAX_RESERVED_OUTPUT = 64_000
_MAX_TOOL_OUTPUT = 10_000
_MAX_DISCOVERED = 50  # in Codex's catalog, whose entries have instructions; brokers list hundreds

_EFFORT_DESCRIPTIONS: Mapping[str, str] = {
    "none": "No reasoning",
    "minimal": "The least reasoning that the model can do",
    "low": "Brief reasoning: fast, for simple tasks",
    "medium": "Moderate reasoning, for everyday work",
    "high": "Long reasoning, for difficult tasks",
    "xhigh": "Very long reasoning: slow, for very difficult tasks",
    "max": "The longest reasoning that the model can do: slow and expensive",
}
_ONLY_EFFORT_DESCRIPTION = "Reasoning; the model decides how long"


def model_list(
    router: Router, *, describes_images: bool = False, discovered: Sequence[str] = ()
) -> dict[str, Any]:
    """List the models, the default model first, also those that only the lists of providers name
    (`discovered`). Codex's catalog has a few of these.

    With `describes_images`, images are replaced by descriptions for models that do not accept
    them, so that every model is listed with image input.
    """
    default = router.default_name()
    names = list_names(router, discovered)
    only_discovered = {*discovered} - {default, *router.names()}
    left_out = [name for name in names if name in only_discovered][_MAX_DISCOVERED:]
    in_catalog = [name for name in names if name not in {*left_out}]
    return {
        "object": "list",
        "data": [model_entry(router, name) for name in names],
        "models": [
            _codex_entry(router, name, priority, describes_images)
            for priority, name in enumerate(in_catalog)
        ],
        "antiphon": {"version": __version__, "default_model": default},
    }


def list_names(router: Router, discovered: Sequence[str] = ()) -> list[str]:
    """List the names of models, the default model first."""
    return [*dict.fromkeys([router.default_name(), *router.listed_names(discovered)])]


def entity_tag(document: Mapping[str, Any]) -> str:
    """Hash of the list, for `ETag` and `If-None-Match`."""
    return f'"{hashlib.sha256(msgspec.json.encode(document)).hexdigest()[:32]}"'


def model_entry(router: Router, name: str) -> dict[str, Any]:
    """Describe a model in OpenAI's shape; raises 404 for an unknown name."""
    owner = router.resolve(name).provider.name
    return {"id": name, "object": "model", "created": 0, "owned_by": owner}


def _codex_entry(
    router: Router, name: str, priority: int, describes_images: bool
) -> dict[str, Any]:
    """Describe a model in the format of Codex's model catalog."""
    target = router.resolve(name)
    can = target.capabilities
    title = f"{target.model} by {target.provider.spec.title}"
    takes_images = describes_images or "image" in can.inputs
    entry = {
        "slug": name,
        "display_name": name,
        "description": title if can.context_window else f"{title}; context window unknown",
        # Built-in test models are hidden from the menu, unless one is the default.
        "visibility": "hide" if priority and target.provider.spec.in_process else "list",
        "supported_in_api": True,
        "priority": priority,
        "base_instructions": AGENT_PROMPT if can.tools else ADVISOR_PROMPT,
        "include_skills_usage_instructions": can.tools,
        "include_plugin_usage_instructions": can.tools,
        "support_verbosity": "verbosity" in can.parameters,
        # Clients that request a summary receive raw reasoning as one.
        "supports_reasoning_summary_parameter": True,
        "default_reasoning_summary": "auto",
        "input_modalities": ["text", "image"] if takes_images else ["text"],
        **_reasoning_levels(can),
        **_tool_settings(can),
        **_context_limits(can),
        # Codex before 0.150 rejects a catalog without these two; later releases ignore them.
        "supports_reasoning_summaries": True,
        "supports_parallel_tool_calls": can.tools,
    }
    return {key: value for key, value in entry.items() if value is not None}


def _tool_settings(can: Capabilities) -> dict[str, Any]:
    """Offer tools as plain functions, and `apply_patch` as a freeform tool, not as JSON.

    `direct` keeps Codex from offering a single tool that runs JavaScript instead of all others.
    """
    return {
        "shell_type": "unified_exec" if can.tools else "disabled",
        "apply_patch_tool_type": "freeform" if can.tools else None,
        "tool_mode": "direct",
        "supports_search_tool": can.tools,
        "web_search_tool_type": "text",
        "experimental_supported_tools": [],
    }


def _context_limits(can: Capabilities) -> dict[str, Any]:
    """Context window, and the number of tokens at which Codex compacts a thread.

    A tenth of the window is always reserved, and more if the model's output may be longer, up to a
    quarter: an output that is cut off by the window is a failed turn.
    """
    window = can.context_window or _DEFAULT_CONTEXT_WINDOW
    output = min(can.max_output_tokens or 0, _MAX_RESERVED_OUTPUT, window // 4)
    return {
        "context_window": window,
        "max_context_window": can.context_window,  # absent if unknown: the user may configure more
        "auto_compact_token_limit": window - max(window // 10, output),
        "truncation_policy": {"mode": "tokens", "limit": min(_MAX_TOOL_OUTPUT, window // 10)},
    }


def _reasoning_levels(can: Capabilities) -> dict[str, Any]:
    efforts = _distinct_efforts(can)
    default = resolve_effort("medium", "", can, [])
    return {
        "supported_reasoning_levels": [
            {"effort": effort, "description": _describe_effort(effort, efforts)}
            for effort in efforts.values()
        ],
        "default_reasoning_level": efforts.get(default),
    }


def _distinct_efforts(can: Capabilities) -> dict[str | None, str]:
    """One effort for each value that the provider knows: two with the same effect would mislead."""
    synonyms: dict[str | None, list[str]] = {}
    for effort in EFFORTS:
        if effort in can.efforts:
            synonyms.setdefault(can.efforts[effort], []).append(effort)
    return {value: _choose_effort(value, efforts) for value, efforts in synonyms.items()}


def _choose_effort(value: str | None, efforts: Sequence[str]) -> str:
    """Prefer the effort with the provider's own name, then `medium`, then the lowest."""
    return next((name for name in (value, "medium") if name and name in efforts), efforts[0])


def _describe_effort(effort: str, efforts: Mapping[str | None, str]) -> str:
    is_only_one = len([other for other in efforts.values() if other != "none"]) == 1
    if is_only_one and effort != "none":
        return _ONLY_EFFORT_DESCRIPTION
    return _EFFORT_DESCRIPTIONS[effort]


# System prompts for models that Codex has no prompt of its own for. Codex takes them from the
# catalog (`base_instructions`) and puts them before every thread. They describe how to work; how to
# use a tool is in the description of the tool.

AGENT_PROMPT = """\
You are a coding agent. You and the user work in the same directory, on the user's machine: what \
you do there is real. Carry a task through until it is done, or until you need something that only \
the user can give.

# Before you change anything
- Look first. Read the files that matter, find who calls what you are going to touch, and follow \
the conventions you find there. Search with `rg` where it is installed.
- Files named AGENTS.md hold the user's own rules for the directory they stand in and all below. \
The deepest one wins over the others, and what the user says now wins over all of them.
- If a request can be read in two ways that lead to different work, choose the likely one, say \
which one it was, and go on. Ask only if a wrong guess would be costly.

# While you work
- Call tools instead of describing what you would call. Calls that do not depend on each other go \
out together.
- Edit files with `apply_patch` where you have it. Give it the patch itself, with enough lines \
around each change to find the place, and never inside quotes, fences or JSON of your own.
- Change what the task needs and nothing else: no renaming in passing, no new dependencies, no \
comments that repeat the code. Mend causes, not symptoms.
- Changes that are not yours belong to the user. Leave them as they are, and never throw work away \
(`git reset --hard`, `git checkout -- .`, `rm -rf`) unless you were told to. Commit only when asked.
- If a command fails, read what it says before you try something else. Do not run the same thing \
again in the hope of another result.
- If you have a plan tool and the task has several steps, keep the plan current.

# Before you say that it is done
- Prove it: run the tests, the type checker or the program itself, the narrowest check first. If \
you could not check something, say so.
- Never claim what you have not seen. A test that still fails, or a part that is missing, is said \
plainly.

# What you say
- Be short. Begin with the result, then what the user has to know: what changed and where (as \
`path/file.py:12`), how it was checked, what is left open.
- Do not print whole files or long diffs: the user sees them. Lists are for lists, headings for \
long answers.
- A question gets an answer, not an edit. A review begins with the faults, the worst one first.
"""

ADVISOR_PROMPT = """\
You are a programmer whom the user asks for advice. You have no tools here: you can neither read \
the user's files nor run anything, so work with what you are shown, and ask for what you need to \
see. Give changes as complete pieces of code or as patches that the user can apply, say which file \
each one belongs to, and say what you could not check. Be short, and begin with the answer.
"""
