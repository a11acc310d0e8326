"""What shape of output was promised, how it is asked for, and how it is checked.

A contract is checked once, on the finished response. Only a completed answer with text can break
it: a turn that only calls tools has promised nothing yet, a truncated one says so itself, and a
refusal is an answer of its own kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import jsonschema_rs
import msgspec
from msgspec import Struct

from antiphon.core.structured_output.json_schema import TooMuchWork, json_schemas
from antiphon.errors import InvalidOutputFormat
from antiphon.wire.items import Document, Item, Message, OutputText, Reasoning
from antiphon.wire.response import Response

FormatKind: TypeAlias = Literal["text", "json_object", "json_schema"]

_ANY_OBJECT: Mapping[str, Any] = {"type": "object"}


class Objection(Struct, frozen=True):
    """One reason why an answer is not what was promised."""

    path: tuple[str, ...]
    keyword: str
    message: str
    """In the validator's words: they quote the answer, so only its author may see them."""


class OutputContract(Struct, frozen=True, kw_only=True):
    """The format the client asked for, and the way in which we ask for it."""

    requested: FormatKind = "text"
    asked: FormatKind = "text"
    """What the provider is told to answer with."""
    tool: str | None = None
    """The tool that the model answers by calling, by the provider's name for it."""
    wrapped: bool = False
    """The arguments of that tool hold the answer in one field, because it is no object."""
    name: str = ""
    description: str | None = None
    schema: Mapping[str, Any] | None = None
    strict: bool | None = None

    @property
    def degraded(self) -> bool:
        return self.requested != self.asked

    def instruction(self) -> str | None:
        """What the model is told when its provider cannot be asked natively."""
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

    def fits(self, text: str) -> bool:
        return next(self.objections(text), None) is None

    def objections(self, text: str) -> Iterator[Objection]:
        """What is wrong with an answer, found one by one."""
        try:
            errors = self._errors(msgspec.json.decode(text))
        except (msgspec.DecodeError, RecursionError):
            yield Objection((), "json", "It is not valid JSON.")
        except ValueError:  # the validator does not go that deep
            yield Objection((), "depth", "It is nested too deeply.")
        except TooMuchWork:
            yield Objection((), "size", "It is too large to be checked.")
        else:
            for error in errors:
                path = tuple(str(step) for step in error.instance_path)
                yield Objection(path, _keyword(error), error.message)

    def _errors(self, value: Any) -> Iterator[Any]:
        schema = _ANY_OBJECT if self.requested == "json_object" else self.schema
        if schema is None or self.strict is False:
            return iter(())
        return json_schemas[msgspec.json.encode(schema)].errors(value)

    def check(self, response: Response, *, provider: str) -> None:
        """Raise `InvalidOutputFormat` if a completed answer is not what was promised."""
        if self.requested == "text" or response.status != "completed":
            return
        text = _answer(response)
        objection = None if text is None else next(self.objections(text), None)
        if objection is not None:
            raise InvalidOutputFormat(
                _told(objection), provider=provider, model=response.model, response_id=response.id
            )


def _told(objection: Objection) -> str:
    """The place is ours to show to a client; the validator's own words would quote the answer."""
    if objection.keyword == "json":
        return "The output is not valid JSON."
    path = "/".join(objection.path) or "the top level"
    return f"The output does not match the schema at {path} ({objection.keyword})."


def check_schema(schema: Mapping[str, Any]) -> str | None:
    """Why a schema cannot be used, or None."""
    try:
        json_schemas[msgspec.json.encode(schema)]
    except (jsonschema_rs.ValidationError, ValueError) as error:
        return str(getattr(error, "message", error)).splitlines()[0]
    return None


def _keyword(error: Any) -> str:
    steps = [str(step) for step in error.schema_path]
    return steps[-1] if steps else "schema"


_FOR_THE_CLIENT = frozenset(
    """
    shell_call local_shell_call apply_patch_call computer_call tool_search_call mcp_approval_request
    """.split()
)


def is_for_the_client(document: Document) -> bool:
    """A call that the client has to answer, though its kind is passed on as it came."""
    return document.get("type") in _FOR_THE_CLIENT


def _is_aside(item: Item) -> bool:
    """Something that the provider did on the way to its answer, and nobody has to answer."""
    return isinstance(item, Mapping) and not is_for_the_client(item)


def _answer(response: Response) -> str | None:
    """The text of the answer, or None where there is none to check yet."""
    texts: list[str] = []
    for item in response.output:
        if isinstance(item, Reasoning) or _is_aside(item):
            continue
        if not isinstance(item, Message):
            return None  # a call: the answer comes in a later turn
        for part in item.content:
            if not isinstance(part, OutputText):
                return None
            texts.append(part.text)
    return "".join(texts)
