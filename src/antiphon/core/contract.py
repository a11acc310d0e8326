"""What shape of output was promised, how it is asked for, and how it is checked.

A contract is checked once, on the finished response. Only a completed answer with text can break
it: a turn that only calls tools has promised nothing yet, a truncated one says so itself, and a
refusal is an answer of its own kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import jsonschema_rs
import msgspec
from msgspec import Struct

from antiphon.errors import InvalidOutputFormat
from antiphon.wire.items import Item, Message, OutputText, Reasoning
from antiphon.wire.response import Response

FormatKind: TypeAlias = Literal["text", "json_object", "json_schema"]


class OutputContract(Struct, frozen=True, kw_only=True):
    """The format the client asked for, and the one we ask the provider for."""

    requested: FormatKind = "text"
    asked: FormatKind = "text"
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
        if self.schema is None:
            return "Answer with one valid JSON value and nothing else: no prose, no code fences."
        about = f" ({self.description})" if self.description else ""
        schema = msgspec.json.encode(self.schema, order="deterministic").decode()
        return (
            f"Answer with one JSON value named {self.name!r}{about} and nothing else: no prose, no"
            f" code fences. It must be valid against this JSON Schema:\n{schema}"
        )

    def check(self, response: Response, *, provider: str) -> None:
        """Raise `InvalidOutputFormat` if a completed answer is not what was promised."""
        if self.requested == "text" or response.status != "completed":
            return
        text = _answer(response)
        if text is None:
            return
        problem = self._problem(text)
        if problem is not None:
            raise InvalidOutputFormat(
                problem, provider=provider, model=response.model, response_id=response.id
            )

    def _problem(self, text: str) -> str | None:
        try:
            value = msgspec.json.decode(text)
        except msgspec.DecodeError:
            return "The output is not valid JSON."
        if self.schema is None or self.strict is False:
            return None
        error = next(_validator(msgspec.json.encode(self.schema)).iter_errors(value), None)
        if error is None:
            return None
        # The path is ours to show; the validator's own words would quote the answer.
        path = "/".join(str(step) for step in error.instance_path) or "the top level"
        return f"The output does not match the schema at {path} ({_keyword(error)})."


def check_schema(schema: Mapping[str, Any]) -> str | None:
    """Why a schema cannot be used, or None."""
    try:
        _validator(msgspec.json.encode(schema))
    except (jsonschema_rs.ValidationError, ValueError) as error:
        return str(getattr(error, "message", error)).splitlines()[0]
    return None


@lru_cache(maxsize=256)
def _validator(schema: bytes) -> Any:
    return jsonschema_rs.validator_for(msgspec.json.decode(schema), retriever=_refuse_to_fetch)


def _refuse_to_fetch(uri: str) -> Any:
    """A schema comes from a client: it must not make us call anybody."""
    raise ValueError(f"remote reference {uri!r} is not allowed")


def _keyword(error: Any) -> str:
    steps = [str(step) for step in error.schema_path]
    return steps[-1] if steps else "schema"


_FOR_THE_CLIENT = frozenset(
    """
    shell_call local_shell_call apply_patch_call computer_call tool_search_call mcp_approval_request
    """.split()
)


def _is_aside(item: Item) -> bool:
    """Something that the provider did on the way to its answer, and nobody has to answer."""
    return isinstance(item, Mapping) and item.get("type") not in _FOR_THE_CLIENT


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
