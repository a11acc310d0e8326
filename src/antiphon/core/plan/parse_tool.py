"""Parsing of one tool: from the client's declaration to what can be declared to a provider.

Every tool that the client runs itself becomes a function. A tool that neither the provider nor the
gateway can run is left out (`hosted_tools` decides whether that is an error); so is one with a
restriction that could not be enforced, because a restriction is never widened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct, structs

from antiphon.core.capabilities import Capabilities
from antiphon.core.diagnostic import Code, Diagnostic, degraded, ignored
from antiphon.core.freeform.grammar import has_unknown_grammar
from antiphon.core.history.client_format import FormatSupport, read_extra
from antiphon.core.plan.hosted_tools import (
    family,
    reason_unavailable,
    refuse_search,
    runs_in_container,
)
from antiphon.core.plan.plan import Notes
from antiphon.core.tools.identity import ToolType
from antiphon.core.web_search.memory import HOSTED, SEARCH
from antiphon.core.web_search.rules import (
    SEARCH_PARAMETERS,
    JSONObject,
    describe_search,
    find_unenforceable,
    find_unsupported,
    read_rules,
    unsupported_hints,
)
from antiphon.errors import InvalidRequest

Key: TypeAlias = tuple[str | None, str]
Origin: TypeAlias = Literal["request", "input", "search"]
"""Where it was declared: in the request, in an item of the input, or as a result of a search."""


class ToolOffer(Struct, frozen=True, kw_only=True):
    """A tool, and whether it is declared as a function, run by the provider, or left out."""

    type: str
    name: str
    namespace: str | None = None
    handling: Literal["declared", "native", "ignored", "unlisted"] = "declared"
    """`unlisted`: an MCP server whose tools are not known yet."""
    description: str | None = None
    parameters: JSONObject | None = None
    strict: bool | None = None
    document: JSONObject = {}
    origin: Origin = "request"
    found: int | None = None
    """Of a deferred tool that the client itself searches: its number in the order in which results
    have referred to tools; 0: none has referred to it. None: the tool is not deferred."""
    unavailable: str = ""
    """Why no server can run this hosted tool; "" for any other tool."""
    needs_approval: bool = False
    """Of a tool of an MCP server: the client has to approve its calls."""

    @property
    def key(self) -> Key:
        return self.namespace, self.name

    @property
    def tool_type(self) -> ToolType:
        return cast("ToolType", self.type)

    def same_as(self, other: ToolOffer) -> bool:
        """Whether both would be declared to the provider alike."""
        return (self.type, self.description, self.parameters, self.strict) == (
            (other.type, other.description, other.parameters, other.strict)
        )


def parse_tool(
    tool: object,
    param: str,
    capabilities: Capabilities,
    notes: Notes,
    *,
    namespace: str | None = None,
    origin: Origin = "request",
) -> ToolOffer:
    """Parse one tool; `InvalidRequest` names the field that is invalid."""
    if not isinstance(tool, Mapping) or not isinstance(tool.get("type"), str):
        raise InvalidRequest(
            "A tool must be an object with a string `type`.", param=f"{param}.type"
        )
    kind: str = tool["type"]
    if family(kind) == "web_search" and namespace is None:
        return _parse_web_search(tool, param, capabilities, origin, notes)
    if _is_run_by_provider(tool, capabilities) and namespace is None:
        return ToolOffer(type=kind, name=_label(tool), handling="native", document=tool)
    if kind not in _PARSERS and namespace is None:
        return _unavailable(tool, param, reason_unavailable(kind), notes)
    if kind == "shell" and runs_in_container(tool):
        # The client expects a sandbox: its commands must not run on the user's machine instead.
        return _unavailable(tool, param, "the gateway has no containers", notes)
    reason = _reason_to_ignore(tool, kind, namespace)
    if reason is not None:
        return _ignore(tool, param, reason, notes, namespace)
    offer = structs.replace(_PARSERS[kind](tool, param), namespace=namespace, origin=origin)
    if isinstance(found := tool.get("found"), int):
        offer = _defer(offer, found, capabilities)
    return _weaken(offer, param, capabilities, notes)


def _is_run_by_provider(tool: JSONObject, capabilities: Capabilities) -> bool:
    """Whether the provider runs a tool. A type that is not known here may be one of the format that
    client and provider have in common: the provider decides about it."""
    if family(tool["type"]) in capabilities.hosted_tools:
        return True
    support = FormatSupport(client_blocks=capabilities.client_blocks)
    return tool["type"] not in _PARSERS and read_extra(tool, support) is not None


def _defer(offer: ToolOffer, found: int, capabilities: Capabilities) -> ToolOffer:
    """Hide a deferred tool until a result refers to it, where the provider does not do that."""
    if capabilities.deferred_tools:
        return structs.replace(offer, found=found)
    hidden: Literal["declared", "ignored"] = "declared" if found else "ignored"
    return structs.replace(offer, found=found, handling=hidden, origin="search")


def _ignore(
    tool: JSONObject, param: str, reason: str, notes: Notes, namespace: str | None = None
) -> ToolOffer:
    kind = tool["type"]
    name = _label(tool)
    notes.append(tool_ignored(kind, param, f"Tool {name!r} is ignored: {reason}."))
    return ToolOffer(type=kind, name=name, namespace=namespace, handling="ignored", document=tool)


def _unavailable(tool: JSONObject, param: str, reason: str, notes: Notes) -> ToolOffer:
    """Leave out a hosted tool that no server can run; the registry may refuse it."""
    return structs.replace(_ignore(tool, param, reason, notes), unavailable=reason)


def _label(tool: JSONObject) -> str:
    label = tool.get("name", tool.get("server_label"))
    return label if isinstance(label, str) else str(tool["type"])


def tool_ignored(kind: str, param: str, message: str) -> Diagnostic:
    return ignored(Code.TOOL_IGNORED, param, message, kind)


# Fields of a tool that are not supported

_CONSEQUENCES: Mapping[str, str] = {
    "async": "its results are awaited",
    "defer_loading": "it is declared immediately",
    "format": "the grammar cannot be compiled and is only part of the description",
    "output_schema": "the model does not see it",
    "parameters": "`additionalProperties: false` is removed from the schema",
    "search_content_types": "only text is searched",
    "search_context_size": "the search decides how much it returns",
    "strict": "the schema is not enforced",
    "user_location": "the search ignores it",
}


def _weaken(offer: ToolOffer, param: str, capabilities: Capabilities, notes: Notes) -> ToolOffer:
    """Remove what the provider does not support of this tool, and report each such field."""
    tool = offer.document
    unsupported = {
        "async": bool(tool.get("async")),
        "defer_loading": bool(tool.get("defer_loading"))
        and offer.origin != "search"
        and offer.found is None,
        "format": has_unknown_grammar(tool),
        "output_schema": bool(tool.get("output_schema")),
        "parameters": not capabilities.closed_objects and _is_closed(tool.get("parameters")),
        "strict": bool(offer.strict) and not capabilities.strict_tools,
    }
    fields = [field for field, applies in unsupported.items() if applies]
    _report_fields(offer, param, fields, capabilities, notes)
    if not capabilities.strict_tools:
        offer = structs.replace(offer, strict=None)
    if not capabilities.closed_objects:
        offer = structs.replace(offer, parameters=open_objects(offer.parameters))
    return offer


def _report_fields(
    offer: ToolOffer, param: str, fields: Iterable[str], capabilities: Capabilities, notes: Notes
) -> None:
    about = f"of tool {offer.name!r} is not supported for {capabilities.model_name}"
    for field in fields:
        message = f"`{field}` {about}: {_CONSEQUENCES[field]}."
        notes.append(degraded(Code.TOOL_DEGRADED, f"{param}.{field}", message, field))


def note_deferred(server: JSONObject, param: str, capabilities: Capabilities) -> Diagnostic:
    """Report that the tools of an MCP server cannot be deferred."""
    message = (
        f"`defer_loading` of MCP server {server['server_label']!r} is not supported for"
        f" {capabilities.model_name}: its tools are declared immediately."
    )
    return degraded(Code.TOOL_DEGRADED, f"{param}.defer_loading", message, "defer_loading")


def _is_closed(schema: Any) -> bool:
    return bool(schema != open_objects(schema))


def open_objects(schema: Any) -> Any:
    """Remove `additionalProperties: false` from a schema, at any depth."""
    if isinstance(schema, Mapping):
        kept = [item for item in schema.items() if item != ("additionalProperties", False)]
        return {name: open_objects(inner) for name, inner in kept}
    return [open_objects(inner) for inner in schema] if isinstance(schema, list) else schema


# Tools that are ignored


def _reason_to_ignore(tool: JSONObject, kind: str, namespace: str | None) -> str | None:
    if namespace is not None and kind not in {"function", "custom"}:
        return "a namespace may contain only function and custom tools"
    callers = tool.get("allowed_callers")
    if isinstance(callers, list) and "direct" not in callers:
        return "only programs may call it, and the gateway does not run programs"
    if kind == "tool_search" and tool.get("execution") != "client":
        return "the gateway does not search tools; deferred tools are declared immediately"
    return None


# Web search, run by the provider or by the gateway


def _parse_web_search(
    tool: JSONObject, param: str, capabilities: Capabilities, origin: Origin, notes: Notes
) -> ToolOffer:
    missing = f"web search is not supported by {capabilities.model_name}"
    if capabilities.web_search == "refuse":
        raise refuse_search(tool["type"], f"{param}.type", missing, capabilities)
    if capabilities.web_search == "ignore":
        return _ignore(tool, param, missing, notes)
    if capabilities.web_search == "none":
        return _unavailable(tool, param, missing, notes)
    if capabilities.web_search == "managed":
        return _parse_managed_search(tool, param, capabilities, origin, notes)
    restriction = find_unsupported(tool, capabilities.web_search_limits)
    if restriction is not None:
        reason = f"web search of {capabilities.model_name} cannot be restricted by `{restriction}`"
        return _unavailable(tool, param, reason, notes)
    offer = ToolOffer(type=tool["type"], name="web_search", handling="native", document=tool)
    fields = unsupported_hints(tool, capabilities.web_search_limits)
    _report_fields(offer, param, fields, capabilities, notes)
    return offer


def _parse_managed_search(
    tool: JSONObject, param: str, capabilities: Capabilities, origin: Origin, notes: Notes
) -> ToolOffer:
    """A function whose calls the gateway answers; it enforces the restrictions itself."""
    restriction = find_unenforceable(tool)
    if restriction is not None:
        reason = f"the gateway's web search cannot be restricted by `{restriction}`"
        return _unavailable(tool, param, reason, notes)
    offer = ToolOffer(
        type=SEARCH,
        name=SEARCH,
        namespace=HOSTED,
        description=describe_search(read_rules(tool)),
        parameters=SEARCH_PARAMETERS,
        document=tool,
        origin=origin,
    )
    fields = unsupported_hints(tool, capabilities.web_search_limits | {"search_context_size"})
    _report_fields(offer, param, fields, capabilities, notes)
    return offer


# Tools that the client runs

NO_ARGUMENTS: JSONObject = {"type": "object", "properties": {}}


def _read_string(tool: JSONObject, field: str, param: str, *, required: bool = False) -> str | None:
    value = tool.get(field)
    if isinstance(value, str) and (value or not required):
        return value
    if value is None and not required:
        return None
    kind = "non-empty string" if required else "string"
    raise InvalidRequest(f"`{field}` must be a {kind}.", param=f"{param}.{field}")


def read_tool_name(tool: JSONObject, param: str) -> str:
    name = _read_string(tool, "name", param, required=True)
    return cast("str", name)


def _read_schema(tool: JSONObject, param: str) -> JSONObject:
    schema = tool.get("parameters")
    if schema is not None and not isinstance(schema, Mapping):
        raise InvalidRequest(
            "`parameters` must be a JSON Schema object.", param=f"{param}.parameters"
        )
    return schema or NO_ARGUMENTS


def _parse_function(tool: JSONObject, param: str) -> ToolOffer:
    strict = tool.get("strict")
    return ToolOffer(
        type="function",
        name=read_tool_name(tool, param),
        description=_read_string(tool, "description", param),
        parameters=_read_schema(tool, param),
        strict=strict if isinstance(strict, bool) else None,
        document=tool,
    )


_FREEFORM = "Call it with the whole text, as it is, in the one argument `input`."


def _parse_custom(tool: JSONObject, param: str) -> ToolOffer:
    about = [_read_string(tool, "description", param), _FREEFORM, _describe_grammar(tool, param)]
    return ToolOffer(
        type="custom",
        name=read_tool_name(tool, param),
        description="\n\n".join(filter(None, about)),
        parameters={
            "type": "object",
            "properties": {"input": {"type": "string", "description": "The whole text."}},
            "required": ["input"],
            "additionalProperties": False,
        },
        document=tool,
    )


def _describe_grammar(tool: JSONObject, param: str) -> str | None:
    form = tool.get("format")
    if not isinstance(form, Mapping) or form.get("type") != "grammar":
        return None
    syntax = _read_string(form, "syntax", f"{param}.format", required=True)
    definition = _read_string(form, "definition", f"{param}.format", required=True)
    return f"The text has to match this grammar (syntax: {syntax}):\n{definition}"


def _parse_tool_search(tool: JSONObject, param: str) -> ToolOffer:
    return ToolOffer(
        type="tool_search",
        name="tool_search",
        description=_read_string(tool, "description", param) or "Finds more tools to call.",
        parameters=_read_schema(tool, param) if tool.get("parameters") else _SEARCH,
        document=tool,
    )


def _parse_built_in(tool: JSONObject, param: str) -> ToolOffer:
    kind = tool["type"]
    description, parameters = _BUILT_IN[kind]
    return ToolOffer(
        type=kind, name=kind, description=description, parameters=parameters, document=tool
    )


def _object(required: tuple[str, ...], **properties: JSONObject) -> JSONObject:
    return {"type": "object", "properties": properties, "required": list(required)}


_TEXTS: JSONObject = {"type": "array", "items": {"type": "string"}}
_TIMEOUT: JSONObject = {"type": "integer", "description": "How long it may take, in milliseconds."}
_SEARCH = _object(
    ("query",),
    query={"type": "string", "description": "What the tools should be able to do."},
    limit={"type": "integer", "description": "How many tools to find at most."},
)

# `core.tools.restore` turns calls with these arguments back into the built-in tool's call items.
_BUILT_IN: Mapping[str, tuple[str, JSONObject]] = {
    "shell": (
        "Runs shell commands on the user's machine and returns what they print.",
        _object(
            ("commands",),
            commands={**_TEXTS, "description": "The commands, each a line for the shell."},
            timeout_ms=_TIMEOUT,
            max_output_length={
                "type": "integer",
                "description": "How many characters of output to return at most.",
            },
        ),
    ),
    "local_shell": (
        "Runs one program on the user's machine and returns what it prints.",
        _object(
            ("command",),
            command={**_TEXTS, "description": "The program and its arguments, one text each."},
            working_directory={"type": "string", "description": "Where to run it."},
            timeout_ms=_TIMEOUT,
            env={
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "Environment variables to set.",
            },
            user={"type": "string", "description": "The user to run it as."},
        ),
    ),
    "apply_patch": (
        "Creates, changes or deletes one file. `diff` is a V4A diff: context lines begin with a"
        " space, removed lines with -, added lines with +; in a new file every line is added.",
        _object(
            ("operation",),
            operation=_object(
                ("type", "path"),
                type={"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
                path={"type": "string", "description": "The file, relative to the workspace."},
                diff={
                    "type": "string",
                    "description": "What changes. Needed unless the file is deleted.",
                },
            ),
        ),
    ),
}

_PARSERS: Mapping[str, Callable[[JSONObject, str], ToolOffer]] = {
    "function": _parse_function,
    "custom": _parse_custom,
    "tool_search": _parse_tool_search,
    **dict.fromkeys(_BUILT_IN, _parse_built_in),
}
DECLARED_TYPES = frozenset(_PARSERS)
"""Types of tools that the client runs: they are declared to the provider."""
