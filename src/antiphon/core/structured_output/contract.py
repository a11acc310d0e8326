"""The output contract: the requested format, how it is requested, and its validation.

A contract is checked once, on the finished response. Only a completed answer with text can violate
it: a turn that calls tools is not the answer yet, a truncated one is `incomplete`, and a refusal is
not bound to a format.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from antiphon.core.items import Document, Item, Message, OutputText, ReasoningItem
from antiphon.core.response import Response
from antiphon.core.structured_output.json_schema import json_schemas
from antiphon.errors import InvalidOutputFormat, SchemaTooComplex

FormatKind: TypeAlias = Literal["text", "json_object", "json_schema"]

_ANY_OBJECT: Mapping[str, Any] = {"type": "object"}


class SchemaViolation(Struct, frozen=True):
    """One violation of the schema in an answer."""

    path: tuple[str, ...]
    keyword: str
    message: str
    """The validator's message. It quotes the answer, so it is only sent to the model."""


WRAPPER = "value"
"""The only argument of the answer tool, if the answer is not an object."""


class OutputContract(Struct, frozen=True, kw_only=True):
    """The format that the client requested, and how it is requested from the provider."""

    param: str = "text.format"
    """The member that requests the format, by its name in the client's own document."""
    requested: FormatKind = "text"
    asked: FormatKind = "text"
    """The format that is requested by the provider's own parameter."""
    tool: str | None = None
    """The name of the answer tool at the provider."""
    wrapped: bool = False
    """The answer is in one argument of that tool, because it is not an object."""
    name: str = ""
    description: str | None = None
    schema: Mapping[str, Any] | None = None
    strict: bool | None = None

    @property
    def degraded(self) -> bool:
        return self.requested != self.asked

    def instruction(self) -> str | None:
        """The instruction for the model, where the provider has no parameter for the format."""
        if not self.degraded:
            return None
        if self.tool is not None:
            return f"Give your final answer by calling the tool {self.tool!r} once, not as text."
        if self.schema is None:
            return "Answer with one valid JSON object and nothing else: no prose, no code fences."
        about = f" ({self.description})" if self.description else ""
        schema = msgspec.json.encode(self.schema, order="deterministic").decode()
        return (
            f"Answer with one JSON value named {self.name!r}{about} and nothing else: no prose, no"
            f" code fences. It must be valid against this JSON Schema:\n{schema}"
        )

    def is_valid(self, text: str) -> bool:
        return next(self.find_violations(text), None) is None

    def find_violations(self, text: str) -> Iterator[SchemaViolation]:
        """Find the violations in an answer, one by one."""
        try:
            errors = self._errors(msgspec.json.decode(text))
        except (msgspec.DecodeError, RecursionError):
            yield SchemaViolation((), "json", "It is not valid JSON.")
        except ValueError:  # deeper than the validator supports
            yield SchemaViolation((), "depth", "It is nested too deeply.")
        except SchemaTooComplex:
            yield SchemaViolation((), "size", "It is too large to be checked.")
        else:
            for error in errors:
                path = tuple(str(step) for step in error.instance_path)
                yield SchemaViolation(path, _schema_keyword(error), error.message)

    def _errors(self, value: Any) -> Iterator[Any]:
        schema = _ANY_OBJECT if self.requested == "json_object" else self.schema
        if schema is None or self.strict is False:
            return iter(())
        return json_schemas[msgspec.json.encode(schema)].errors(value)

    def check(self, response: Response, *, provider: str) -> None:
        """Raise `InvalidOutputFormat` if a completed answer violates the contract."""
        if self.requested == "text" or response.status != "completed":
            return
        text = _read_answer(response)
        violation = None if text is None else next(self.find_violations(text), None)
        if violation is not None:
            raise InvalidOutputFormat(
                _describe_violation(violation, self.param),
                provider=provider,
                model=response.model,
                response_id=response.id,
            )


def _describe_violation(violation: SchemaViolation, param: str) -> str:
    """The message for the client; the validator's own message would quote the answer."""
    if violation.keyword == "json":
        return f"The output is not valid JSON, which `{param}` requires."
    path = "/".join(violation.path) or "the top level"
    return f"The output does not match the schema of `{param}` at {path} ({violation.keyword})."


def check_schema(schema: Mapping[str, Any]) -> str | None:
    """Why a schema is not supported; None if it is."""
    try:
        json_schemas[msgspec.json.encode(schema)]
    except ValueError as error:  # also of the validator
        return str(getattr(error, "message", error)).splitlines()[0]
    return None


def _schema_keyword(error: Any) -> str:
    steps = [str(step) for step in error.schema_path]
    return steps[-1] if steps else "schema"


_CLIENT_CALLS = frozenset(
    """
    shell_call local_shell_call apply_patch_call computer_call tool_search_call mcp_approval_request
    """.split()
)


def is_client_call(document: Document) -> bool:
    """Whether a raw item is a call that the client has to answer."""
    return document.get("type") in _CLIENT_CALLS


def _is_hosted_call(item: Item) -> bool:
    """Whether a raw item is a call that the provider itself has answered."""
    return isinstance(item, Mapping) and not is_client_call(item)


def _read_answer(response: Response) -> str | None:
    """The text of the answer; None if the response has none to check."""
    texts: list[str] = []
    for item in response.output:
        if isinstance(item, ReasoningItem) or _is_hosted_call(item):
            continue
        if not isinstance(item, Message):
            return None  # a call: the answer comes in a later turn
        for part in item.content:
            if not isinstance(part, OutputText):
                return None
            texts.append(part.text)
    return "".join(texts)
