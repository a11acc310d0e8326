"""Validation of `tools` and `tool_choice`.

Every tool type of the API is validated field by field, because a response repeats its tools and
clients validate responses. Unknown types pass unchanged; the plan decides what becomes of them.
"""

from __future__ import annotations

from typing import Any

from antiphon.core.items import Document
from antiphon.dialects.validate import (
    Reader,
    Readers,
    any_object,
    any_value,
    boolean,
    by_type,
    enum,
    integer,
    invalid_value,
    list_of,
    map_of,
    non_empty_string,
    number,
    object_of,
    string,
    tagged_union,
)

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

_STRINGS = list_of(string)
_NO_FIELDS = object_of({})
_ALLOWED_CALLERS: Readers = {"allowed_callers": list_of(enum("direct", "programmatic"))}

# --- tools that the client runs -------------------------------------------------------------------

_DECLARATION: Readers = {
    "description": string,
    "async": boolean,
    "defer_loading": boolean,
    **_ALLOWED_CALLERS,
}
_FORMAT = tagged_union(
    {
        "text": _NO_FIELDS,
        "grammar": object_of({"syntax": enum("lark", "regex"), "definition": string}),
    }
)

_FUNCTION = object_of(
    {"name": non_empty_string},
    {"parameters": any_object, "strict": boolean, "output_schema": any_object, **_DECLARATION},
)


def _read_function(value: Any, param: str) -> Document:
    if "function" in value and "name" not in value:
        problem = "is required beside 'type': only Chat Completions nests it in 'function'."
        raise invalid_value(f"{param}.name", problem, "missing_required_parameter")
    return _FUNCTION(value, param)


NAMESPACE_TOOLS: Readers = {
    "function": _read_function,
    "custom": object_of({"name": non_empty_string}, {"format": _FORMAT, **_DECLARATION}),
}
"""Tool types that a namespace may contain."""

# --- tools that a provider or a server runs -------------------------------------------------------

_NETWORK_POLICY = tagged_union(
    {
        "disabled": _NO_FIELDS,
        "allowlist": object_of(
            {"allowed_domains": _STRINGS},
            {
                "domain_secrets": list_of(
                    object_of({"domain": string, "name": string, "value": string})
                )
            },
        ),
    }
)
_CONTAINER: Readers = {
    "file_ids": _STRINGS,
    "memory_limit": enum("1g", "4g", "16g", "64g"),
    "network_policy": _NETWORK_POLICY,
}
_ARCHIVE = object_of(
    {"type": enum("base64"), "media_type": enum("application/zip"), "data": string}
)
_SKILL = tagged_union(
    {
        "skill_reference": object_of({"skill_id": string}, {"version": string}),
        "inline": object_of({"name": string, "description": string, "source": _ARCHIVE}),
    }
)
_ENVIRONMENT = tagged_union(
    {
        "container_auto": object_of({}, {"skills": list_of(_SKILL), **_CONTAINER}),
        "local": object_of(
            {},
            {"skills": list_of(object_of({"name": string, "description": string, "path": string}))},
        ),
        "container_reference": object_of({"container_id": string}),
    }
)

_SCALAR: dict[type, Reader[Any]] = {
    str: string,
    int: number(-1e300, 1e300),
    float: any_value,
}
_COMPARISON = object_of(
    {
        "key": string,
        "value": by_type(
            "a string, a number, a boolean or an array",
            {
                **_SCALAR,
                bool: any_value,
                list: list_of(by_type("a string or a number", _SCALAR)),
            },
        ),
    }
)
_FILTERS = tagged_union(
    {
        **dict.fromkeys(("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"), _COMPARISON),
        **dict.fromkeys(("and", "or"), object_of({"filters": list_of(any_value)})),
    }
)
_RANKING = object_of(
    {},
    {
        "ranker": enum("auto", "default-2024-11-15"),
        "score_threshold": number(0, 1),
        "hybrid_search": object_of(
            {"embedding_weight": number(-1e300, 1e300), "text_weight": number(-1e300, 1e300)}
        ),
    },
)

_LOCATION: Readers = {"city": string, "country": string, "region": string, "timezone": string}
_APPROXIMATE: Readers = {"type": enum("approximate")}
_CONTEXT_SIZE: Readers = {"search_context_size": enum("low", "medium", "high")}
_WEB_SEARCH = object_of(
    {},
    {
        "filters": object_of({}, {"allowed_domains": _STRINGS}),
        "user_location": object_of({}, {**_LOCATION, **_APPROXIMATE}),
        "external_web_access": boolean,
        **_CONTEXT_SIZE,
    },
)
_WEB_SEARCH_PREVIEW = object_of(
    {},
    {
        "user_location": object_of(_APPROXIMATE, _LOCATION),
        "search_content_types": list_of(enum("text", "image")),
        **_CONTEXT_SIZE,
    },
)

_CONNECTORS = """
    dropbox gmail googlecalendar googledrive microsoftteams outlookcalendar outlookemail sharepoint
""".split()
_TOOL_FILTER = object_of({}, {"tool_names": _STRINGS, "read_only": boolean})
_MCP = object_of(
    {"server_label": string},
    {
        "server_url": string,
        "connector_id": enum(*(f"connector_{name}" for name in _CONNECTORS)),
        "tunnel_id": string,
        "server_description": string,
        "authorization": string,
        "headers": map_of(string),
        "allowed_tools": by_type("an array or an object", {list: _STRINGS, dict: _TOOL_FILTER}),
        "require_approval": by_type(
            "a string or an object",
            {
                str: enum("always", "never"),
                dict: object_of({}, {"always": _TOOL_FILTER, "never": _TOOL_FILTER}),
            },
        ),
        "defer_loading": boolean,
        **_ALLOWED_CALLERS,
    },
)

_IMAGE_GENERATION = object_of(
    {},
    {
        "action": enum("generate", "edit", "auto"),
        "background": enum("transparent", "opaque", "auto"),
        "complexity": enum("low", "medium", "high"),
        "frame_count": integer(1),
        "frame_duration_ms": integer(0),
        "input_fidelity": enum("high", "low"),
        "input_image_mask": object_of({}, {"image_url": string, "file_id": string}),
        "model": string,
        "moderation": enum("auto", "low"),
        "output_compression": integer(0, 100),
        "output_format": enum("png", "webp", "jpeg", "gif", "svg"),
        "partial_images": integer(0, 3),
        "quality": enum("low", "medium", "high", "xhigh", "max", "auto"),
        "size": string,
        "svg": object_of(
            {}, {"model": string, "reasoning": object_of({}, {"effort": enum(*EFFORTS)})}
        ),
    },
)

TOOLS: Readers = {
    **NAMESPACE_TOOLS,
    "namespace": object_of(
        {
            "name": non_empty_string,
            "tools": list_of(tagged_union(NAMESPACE_TOOLS, allow_unknown=True)),
        },
        {"description": string},
    ),
    "tool_search": object_of({}, {"execution": enum("server", "client"), "description": string}),
    "mcp": _MCP,
    "file_search": object_of(
        {"vector_store_ids": _STRINGS},
        {"filters": _FILTERS, "max_num_results": integer(1, 50), "ranking_options": _RANKING},
    ),
    "web_search": _WEB_SEARCH,
    "web_search_2025_08_26": _WEB_SEARCH,
    "web_search_preview": _WEB_SEARCH_PREVIEW,
    "web_search_preview_2025_03_11": _WEB_SEARCH_PREVIEW,
    "code_interpreter": object_of(
        {
            "container": by_type(
                "a string or an object",
                {str: string, dict: tagged_union({"auto": object_of({}, _CONTAINER)})},
            )
        },
        _ALLOWED_CALLERS,
    ),
    "image_generation": _IMAGE_GENERATION,
    "computer": _NO_FIELDS,
    "computer_use_preview": object_of(
        {
            "display_width": integer(1),
            "display_height": integer(1),
            "environment": enum("windows", "mac", "linux", "ubuntu", "browser"),
        }
    ),
    "shell": object_of({}, {"environment": _ENVIRONMENT, **_ALLOWED_CALLERS}),
    "local_shell": _NO_FIELDS,
    "apply_patch": object_of({}, _ALLOWED_CALLERS),
    "programmatic_tool_calling": _NO_FIELDS,
}
"""Every tool type of the API."""

tool_list = list_of(tagged_union(TOOLS, allow_unknown=True))

# --- tool_choice ----------------------------------------------------------------------------------

_CHOICE_BY_NAME: Readers = {
    "function": object_of({"name": non_empty_string}, {"namespace": string}),
    "custom": object_of({"name": non_empty_string}, {"namespace": string}),
    "mcp": object_of({"server_label": string}, {"name": string}),
}
_HOSTED_TOOLS = """
    file_search web_search web_search_2025_08_26 web_search_preview web_search_preview_2025_03_11
    computer computer_use computer_use_preview image_generation code_interpreter
    shell apply_patch programmatic_tool_calling
""".split()
_CHOICES: Readers = {
    **_CHOICE_BY_NAME,
    "allowed_tools": object_of(
        {
            "mode": enum("auto", "required", "none"),
            "tools": list_of(tagged_union(_CHOICE_BY_NAME, allow_unknown=True)),
        }
    ),
    **dict.fromkeys(_HOSTED_TOOLS, _NO_FIELDS),
}

tool_choice: Reader[Any] = by_type(
    "a string or an object",
    {str: enum("none", "auto", "required"), dict: tagged_union(_CHOICES)},
)
