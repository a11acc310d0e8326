"""The tools a client declares and the choice it makes among them.

Every tool type of the API is read field by field, so that a response may repeat it. Types that
nobody knows yet pass as they are: what becomes of them is the plan's decision.
"""

from __future__ import annotations

from typing import Any

from antiphon.wire.validate import (
    Reader,
    Readers,
    anything,
    document,
    either,
    flag,
    label,
    many,
    mapping,
    number,
    shape,
    tagged,
    text,
    whole,
    word,
)

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

_TEXTS = many(text)
_NOTHING = shape({})
_CALLERS: Readers = {"allowed_callers": many(word("direct", "programmatic"))}

# --- tools that the client runs -------------------------------------------------------------------

_DECLARED: Readers = {"description": text, "async": flag, "defer_loading": flag, **_CALLERS}
_FORMAT = tagged(
    {
        "text": _NOTHING,
        "grammar": shape({"syntax": word("lark", "regex"), "definition": text}),
    }
)

NAMESPACED: Readers = {
    "function": shape(
        {"name": label},
        {"parameters": document, "strict": flag, "output_schema": document, **_DECLARED},
    ),
    "custom": shape({"name": label}, {"format": _FORMAT, **_DECLARED}),
}
"""The tools that may stand in a namespace."""

# --- tools that run elsewhere ---------------------------------------------------------------------

_NETWORK = tagged(
    {
        "disabled": _NOTHING,
        "allowlist": shape(
            {"allowed_domains": _TEXTS},
            {"domain_secrets": many(shape({"domain": text, "name": text, "value": text}))},
        ),
    }
)
_CONTAINER: Readers = {
    "file_ids": _TEXTS,
    "memory_limit": word("1g", "4g", "16g", "64g"),
    "network_policy": _NETWORK,
}
_ARCHIVE = shape({"type": word("base64"), "media_type": word("application/zip"), "data": text})
_SKILL = tagged(
    {
        "skill_reference": shape({"skill_id": text}, {"version": text}),
        "inline": shape({"name": text, "description": text, "source": _ARCHIVE}),
    }
)
_ENVIRONMENT = tagged(
    {
        "container_auto": shape({}, {"skills": many(_SKILL), **_CONTAINER}),
        "local": shape(
            {}, {"skills": many(shape({"name": text, "description": text, "path": text}))}
        ),
        "container_reference": shape({"container_id": text}),
    }
)

_SCALAR: dict[type, Reader[Any]] = {
    str: text,
    int: number(-1e300, 1e300),
    float: anything,
}
_COMPARISON = shape(
    {
        "key": text,
        "value": either(
            "a string, a number, a boolean or an array",
            {
                **_SCALAR,
                bool: anything,
                list: many(either("a string or a number", _SCALAR)),
            },
        ),
    }
)
_FILTERS = tagged(
    {
        **dict.fromkeys(("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"), _COMPARISON),
        **dict.fromkeys(("and", "or"), shape({"filters": many(anything)})),
    }
)
_RANKING = shape(
    {},
    {
        "ranker": word("auto", "default-2024-11-15"),
        "score_threshold": number(0, 1),
        "hybrid_search": shape(
            {"embedding_weight": number(-1e300, 1e300), "text_weight": number(-1e300, 1e300)}
        ),
    },
)

_PLACE: Readers = {"city": text, "country": text, "region": text, "timezone": text}
_APPROXIMATE: Readers = {"type": word("approximate")}
_CONTEXT_SIZE: Readers = {"search_context_size": word("low", "medium", "high")}
_WEB_SEARCH = shape(
    {},
    {
        "filters": shape({}, {"allowed_domains": _TEXTS}),
        "user_location": shape({}, {**_PLACE, **_APPROXIMATE}),
        "external_web_access": flag,
        **_CONTEXT_SIZE,
    },
)
_WEB_SEARCH_PREVIEW = shape(
    {},
    {
        "user_location": shape(_APPROXIMATE, _PLACE),
        "search_content_types": many(word("text", "image")),
        **_CONTEXT_SIZE,
    },
)

_CONNECTORS = "dropbox gmail googlecalendar googledrive microsoftteams outlookcalendar outlookemail"
_NAMED_TOOLS = shape({}, {"tool_names": _TEXTS, "read_only": flag})
_MCP = shape(
    {"server_label": text},
    {
        "server_url": text,
        "connector_id": word(*(f"connector_{at}" for at in f"{_CONNECTORS} sharepoint".split())),
        "tunnel_id": text,
        "server_description": text,
        "authorization": text,
        "headers": mapping(text),
        "allowed_tools": either("an array or an object", {list: _TEXTS, dict: _NAMED_TOOLS}),
        "require_approval": either(
            "a string or an object",
            {
                str: word("always", "never"),
                dict: shape({}, {"always": _NAMED_TOOLS, "never": _NAMED_TOOLS}),
            },
        ),
        "defer_loading": flag,
        **_CALLERS,
    },
)

_IMAGE_GENERATION = shape(
    {},
    {
        "action": word("generate", "edit", "auto"),
        "background": word("transparent", "opaque", "auto"),
        "complexity": word("low", "medium", "high"),
        "frame_count": whole(1),
        "frame_duration_ms": whole(0),
        "input_fidelity": word("high", "low"),
        "input_image_mask": shape({}, {"image_url": text, "file_id": text}),
        "model": text,
        "moderation": word("auto", "low"),
        "output_compression": whole(0, 100),
        "output_format": word("png", "webp", "jpeg", "gif", "svg"),
        "partial_images": whole(0, 3),
        "quality": word("low", "medium", "high", "xhigh", "max", "auto"),
        "size": text,
        "svg": shape({}, {"model": text, "reasoning": shape({}, {"effort": word(*EFFORTS)})}),
    },
)

TOOLS: Readers = {
    **NAMESPACED,
    "namespace": shape(
        {"name": label, "tools": many(tagged(NAMESPACED, others=True))}, {"description": text}
    ),
    "tool_search": shape({}, {"execution": word("server", "client"), "description": text}),
    "mcp": _MCP,
    "file_search": shape(
        {"vector_store_ids": _TEXTS},
        {"filters": _FILTERS, "max_num_results": whole(1, 50), "ranking_options": _RANKING},
    ),
    "web_search": _WEB_SEARCH,
    "web_search_2025_08_26": _WEB_SEARCH,
    "web_search_preview": _WEB_SEARCH_PREVIEW,
    "web_search_preview_2025_03_11": _WEB_SEARCH_PREVIEW,
    "code_interpreter": shape(
        {
            "container": either(
                "a string or an object", {str: text, dict: tagged({"auto": shape({}, _CONTAINER)})}
            )
        },
        _CALLERS,
    ),
    "image_generation": _IMAGE_GENERATION,
    "computer": _NOTHING,
    "computer_use_preview": shape(
        {
            "display_width": whole(1),
            "display_height": whole(1),
            "environment": word("windows", "mac", "linux", "ubuntu", "browser"),
        }
    ),
    "shell": shape({}, {"environment": _ENVIRONMENT, **_CALLERS}),
    "local_shell": _NOTHING,
    "apply_patch": shape({}, _CALLERS),
    "programmatic_tool_calling": _NOTHING,
}
"""Every tool type of the API."""

tools = many(tagged(TOOLS, others=True))

# --- the choice -----------------------------------------------------------------------------------

_CHOSEN: Readers = {
    "function": shape({"name": label}, {"namespace": text}),
    "custom": shape({"name": label}, {"namespace": text}),
    "mcp": shape({"server_label": text}, {"name": text}),
}
_HOSTED = """
    file_search web_search web_search_2025_08_26 web_search_preview web_search_preview_2025_03_11
    computer computer_use computer_use_preview image_generation code_interpreter
    shell apply_patch programmatic_tool_calling
""".split()
_CHOICES: Readers = {
    **_CHOSEN,
    "allowed_tools": shape(
        {"mode": word("auto", "required", "none"), "tools": many(tagged(_CHOSEN, others=True))}
    ),
    **dict.fromkeys(_HOSTED, _NOTHING),
}

tool_choice: Reader[Any] = either(
    "a string or an object",
    {str: word("none", "auto", "required"), dict: tagged(_CHOICES)},
)
