"""What a provider requires of all strict tools of a request together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import structs

from antiphon.core.capabilities import Capabilities, StrictLimits
from antiphon.core.diagnostic import Code, degraded
from antiphon.core.plan.parse_tool import ToolOffer
from antiphon.core.plan.plan import Notes

_UNIONS = ("anyOf", "oneOf")
_SCHEMAS_BY_NAME = ("properties", "$defs", "definitions")


def report_not_strict(
    offers: Sequence[ToolOffer], capabilities: Capabilities, notes: Notes
) -> None:
    """Report that no schema is enforced, where the provider enforces all of them or none."""
    declared = [offer for offer in offers if offer.handling == "declared"]
    requested = [offer for offer in declared if offer.strict]
    strict = [offer for offer in requested if offer.parameters and offer.parameters.get("required")]
    if not capabilities.strict_together or not requested or len(strict) == len(declared):
        return
    message = (
        f"`strict` has no effect: {capabilities.model_name} enforces the schemas of all tools or"
        " of none, and not every tool is strict and has a required argument."
    )
    notes.append(degraded(Code.TOOL_DEGRADED, "tools", message, "strict"))


def limit_strict_tools(
    offers: Sequence[ToolOffer], capabilities: Capabilities, notes: Notes
) -> Sequence[ToolOffer]:
    """Have no schema enforced where the provider would reject so many strict tools."""
    limits = capabilities.strict_limits
    if limits is None or not exceeds(limits, (each.parameters for each in offers if each.strict)):
        return offers
    message = (
        f"`strict` has no effect: {capabilities.model_name} enforces the schemas of at most"
        f" {limits.tools} tools, which may have {limits.optional} optional arguments and"
        f" {limits.unions} of several types."
    )
    notes.append(degraded(Code.TOOL_DEGRADED, "tools", message, "strict"))
    return [structs.replace(each, strict=None) for each in offers]


def exceeds(limits: StrictLimits, schemas: Iterable[Mapping[str, Any] | None]) -> bool:
    """Whether the schemas of strict tools are more than a provider compiles."""
    tools = optional = unions = 0
    for schema in schemas:
        tools += 1
        for node in _nodes(schema):
            optional += _count_optional(node)
            unions += _is_union(node)
    return tools > limits.tools or optional > limits.optional or unions > limits.unions


def _count_optional(node: Mapping[str, Any]) -> int:
    properties = node.get("properties")
    if not isinstance(properties, Mapping):
        return 0
    listed = node.get("required")
    names = listed if isinstance(listed, list) else ()
    required = {name for name in names if isinstance(name, str)}
    return sum(name not in required for name in properties)


def _is_union(node: Mapping[str, Any]) -> bool:
    kinds = node.get("type")
    return any(name in node for name in _UNIONS) or (isinstance(kinds, list) and len(kinds) > 1)


def _nodes(schema: Any) -> Iterator[Mapping[str, Any]]:
    """A schema and all schemas in it."""
    pending = [schema]
    while pending:
        node = pending.pop()
        if not isinstance(node, Mapping):
            continue
        yield node
        for name in _SCHEMAS_BY_NAME:
            named = node.get(name)
            pending += named.values() if isinstance(named, Mapping) else ()
        for name in ("items", "allOf", *_UNIONS):
            inner = node.get(name)
            pending += inner if isinstance(inner, list) else [inner]
