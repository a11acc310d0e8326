"""One tool as the client offers it, read into what a provider can be given.

Every tool that a client runs itself becomes a function. What nobody here could run is left out, and
says so; a restriction that could not be kept leaves its tool out, too, rather than widen it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct, structs

from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.freeform.grammar import has_unknown_grammar
from antiphon.core.plan.plan import Capabilities
from antiphon.core.tools.identity import ToolType
from antiphon.core.web_search.memory import HOSTED, SEARCH
from antiphon.core.web_search.rules import WORDS, described, disobeyed, read_rules, unheeded, unkept
from antiphon.errors import InvalidRequest

JSONObject: TypeAlias = Mapping[str, Any]
Key: TypeAlias = tuple[str | None, str]
Origin: TypeAlias = Literal["request", "input", "search"]
"""Where it was offered: with the request, by an item of the input, or as what a search found."""


class ToolOffer(Struct, frozen=True, kw_only=True):
    """A tool and its fate: declared as a function, run by the provider itself, or left out."""

    type: str
    name: str
    namespace: str | None = None
    fate: Literal["declared", "native", "left_out"] = "declared"
    description: str | None = None
    parameters: JSONObject | None = None
    strict: bool | None = None
    document: JSONObject = {}
    origin: Origin = "request"

    @property
    def key(self) -> Key:
        return self.namespace, self.name

    @property
    def tool_type(self) -> ToolType:
        return cast("ToolType", self.type)

    def same_as(self, other: ToolOffer) -> bool:
        """Whether a provider would be told the same of both."""
        return (self.type, self.description, self.parameters, self.strict) == (
            (other.type, other.description, other.parameters, other.strict)
        )


def family(kind: str) -> str:
    """Dated and preview types are one tool: `web_search_2025_08_26` is `web_search`."""
    for stem in ("web_search", "computer"):
        if kind.startswith(stem):
            return stem
    return kind


Reading: TypeAlias = tuple[ToolOffer, list[Diagnostic]]


def parse_tool(
    tool: object,
    param: str,
    capabilities: Capabilities,
    *,
    namespace: str | None = None,
    origin: Origin = "request",
) -> Reading:
    """Read one tool; `InvalidRequest` names the field that cannot be understood."""
    if not isinstance(tool, Mapping) or not isinstance(tool.get("type"), str):
        raise InvalidRequest("A tool is an object with a type.", param=f"{param}.type")
    kind: str = tool["type"]
    if family(kind) == "web_search" and namespace is None:
        return _web_search(tool, param, capabilities, origin)
    reason = _reason_to_leave_out(tool, kind, namespace)
    if reason is not None:
        return _left_out(tool, param, reason, namespace)
    offer = structs.replace(_READERS[kind](tool, param), namespace=namespace, origin=origin)
    return _within(offer, param, capabilities)


def _left_out(tool: JSONObject, param: str, reason: str, namespace: str | None = None) -> Reading:
    kind = tool["type"]
    label = tool.get("name", tool.get("server_label"))
    name = label if isinstance(label, str) else kind
    offer = ToolOffer(type=kind, name=name, namespace=namespace, fate="left_out", document=tool)
    return offer, [left_out(kind, param, f"The tool {offer.name!r} was left out: {reason}.")]


def left_out(kind: str, param: str, message: str) -> Diagnostic:
    return Diagnostic(
        code=Code.TOOL_IGNORED,
        decision=Decision.IGNORED,
        param=param,
        message=message,
        subject=kind,
    )


# What becomes weaker on the way

_WEAKER: Mapping[str, str] = {
    "async": "its answers are waited for",
    "defer_loading": "it is declared at once",
    "format": "the grammar cannot be read here, and is only described to the model",
    "output_schema": "the model is not told what its answers look like",
    "parameters": "the provider does not take `additionalProperties: false`",
    "search_content_types": "only text is searched for",
    "search_context_size": "the search decides how much it brings",
    "strict": "the provider does not enforce its schema",
    "user_location": "the search engine does not take it",
}


def _within(offer: ToolOffer, param: str, capabilities: Capabilities) -> Reading:
    """What the provider takes of this tool, and a diagnostic for each part that it does not."""
    tool = offer.document
    weaker = {
        "async": bool(tool.get("async")),
        "defer_loading": bool(tool.get("defer_loading")) and offer.origin != "search",
        "format": has_unknown_grammar(tool),
        "output_schema": bool(tool.get("output_schema")),
        "parameters": not capabilities.closed_objects and _is_closed(tool.get("parameters")),
        "strict": bool(offer.strict) and not capabilities.strict_tools,
    }
    diagnostics = [_degraded(offer, param, field) for field, is_so in weaker.items() if is_so]
    if not capabilities.strict_tools:
        offer = structs.replace(offer, strict=None)
    if not capabilities.closed_objects:
        offer = structs.replace(offer, parameters=open_objects(offer.parameters))
    return offer, diagnostics


def _degraded(offer: ToolOffer, param: str, field: str) -> Diagnostic:
    return Diagnostic(
        code=Code.TOOL_DEGRADED,
        decision=Decision.DEGRADED,
        param=f"{param}.{field}",
        message=f"The tool {offer.name!r} is weaker than declared: {_WEAKER[field]}.",
        subject=field,
    )


def _is_closed(schema: Any) -> bool:
    return bool(schema != open_objects(schema))


def open_objects(schema: Any) -> Any:
    """The same schema, with no word against properties that it does not name."""
    if isinstance(schema, Mapping):
        kept = [item for item in schema.items() if item != ("additionalProperties", False)]
        return {name: open_objects(inner) for name, inner in kept}
    return [open_objects(inner) for inner in schema] if isinstance(schema, list) else schema


# What is left out, and why

_HOSTED: Mapping[str, str] = {
    "code_interpreter": "no code is run here",
    "computer": "no model here is given a screen",
    "file_search": "no vector stores are kept here",
    "image_generation": "no images are made here",
    "mcp": "no MCP servers are connected from here",
    "programmatic_tool_calling": "no programs are run here",
}


def _reason_to_leave_out(tool: JSONObject, kind: str, namespace: str | None) -> str | None:
    if namespace is not None and kind not in {"function", "custom"}:
        return "a namespace holds functions and custom tools only"
    if kind not in _READERS:
        return _HOSTED.get(family(kind), "its type is not known here")
    callers = tool.get("allowed_callers")
    if isinstance(callers, list) and "direct" not in callers:
        return "only programs may call it, and no programs are run here"
    if kind == "tool_search" and tool.get("execution") != "client":
        return "tools are not searched for here; deferred ones are declared at once"
    if kind == "shell" and _environment(tool) != "local":
        # The client expects a sandbox: its own machine would be more than it offered.
        return "no containers are kept here"
    return None


def _environment(tool: JSONObject) -> object:
    environment = tool.get("environment")
    return environment.get("type") if isinstance(environment, Mapping) else "local"


# Search that the provider runs, or the gateway


def _web_search(
    tool: JSONObject, param: str, capabilities: Capabilities, origin: Origin
) -> Reading:
    if capabilities.web_search == "refuse":
        raise InvalidRequest(
            "Web search is not available for this model.",
            param=f"{param}.type",
            code="unsupported_parameter",
        )
    if capabilities.web_search == "ignore":
        return _left_out(tool, param, "this model has no web search")
    if capabilities.web_search == "managed":
        return _managed_search(tool, param, capabilities, origin)
    beyond = disobeyed(tool, capabilities.web_search_limits)
    if beyond is not None:
        return _left_out(tool, param, f"its search cannot be limited by `{beyond}`")
    offer = ToolOffer(type=tool["type"], name="web_search", fate="native", document=tool)
    weaker = unheeded(tool, capabilities.web_search_limits)
    return offer, [_degraded(offer, param, field) for field in weaker]


def _managed_search(
    tool: JSONObject, param: str, capabilities: Capabilities, origin: Origin
) -> Reading:
    """A function whose calls the gateway answers itself; it keeps the restrictions, too."""
    beyond = unkept(tool)
    if beyond is not None:
        return _left_out(tool, param, f"its search cannot be limited by `{beyond}`")
    offer = ToolOffer(
        type=SEARCH,
        name=SEARCH,
        namespace=HOSTED,
        description=described(read_rules(tool)),
        parameters=WORDS,
        document=tool,
        origin=origin,
    )
    weaker = unheeded(tool, capabilities.web_search_limits | {"search_context_size"})
    return offer, [_degraded(offer, param, field) for field in weaker]


# Tools that the client runs

NO_ARGUMENTS: JSONObject = {"type": "object", "properties": {}}


def _text(tool: JSONObject, field: str, param: str, *, required: bool = False) -> str | None:
    value = tool.get(field)
    if isinstance(value, str) and (value or not required):
        return value
    if value is None and not required:
        return None
    raise InvalidRequest(f"`{field}` has to be a text.", param=f"{param}.{field}")


def tool_name(tool: JSONObject, param: str) -> str:
    name = _text(tool, "name", param, required=True)
    return cast("str", name)


def _schema(tool: JSONObject, param: str) -> JSONObject:
    schema = tool.get("parameters")
    if schema is not None and not isinstance(schema, Mapping):
        raise InvalidRequest("`parameters` has to be a JSON Schema.", param=f"{param}.parameters")
    return schema or NO_ARGUMENTS


def _function(tool: JSONObject, param: str) -> ToolOffer:
    strict = tool.get("strict")
    return ToolOffer(
        type="function",
        name=tool_name(tool, param),
        description=_text(tool, "description", param),
        parameters=_schema(tool, param),
        strict=strict if isinstance(strict, bool) else None,
        document=tool,
    )


_FREEFORM = "Call it with the whole text, as it is, in the one argument `input`."


def _custom(tool: JSONObject, param: str) -> ToolOffer:
    about = [_text(tool, "description", param), _FREEFORM, _grammar(tool, param)]
    return ToolOffer(
        type="custom",
        name=tool_name(tool, param),
        description="\n\n".join(filter(None, about)),
        parameters={
            "type": "object",
            "properties": {"input": {"type": "string", "description": "The whole text."}},
            "required": ["input"],
            "additionalProperties": False,
        },
        document=tool,
    )


def _grammar(tool: JSONObject, param: str) -> str | None:
    form = tool.get("format")
    if not isinstance(form, Mapping) or form.get("type") != "grammar":
        return None
    syntax = _text(form, "syntax", f"{param}.format", required=True)
    definition = _text(form, "definition", f"{param}.format", required=True)
    return f"The text has to match this grammar (syntax: {syntax}):\n{definition}"


def _tool_search(tool: JSONObject, param: str) -> ToolOffer:
    return ToolOffer(
        type="tool_search",
        name="tool_search",
        description=_text(tool, "description", param) or "Finds more tools to call.",
        parameters=_schema(tool, param) if tool.get("parameters") else _SEARCH,
        document=tool,
    )


def _built_in(tool: JSONObject, param: str) -> ToolOffer:
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

# The arguments are those that `core.tools` restores the calls from.
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

_READERS: Mapping[str, Callable[[JSONObject, str], ToolOffer]] = {
    "function": _function,
    "custom": _custom,
    "tool_search": _tool_search,
    **dict.fromkeys(_BUILT_IN, _built_in),
}
