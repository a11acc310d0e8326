"""Check of events by the official `openai` client: it accepts each, and folds them to our response.

Two things are asked of the `openai` package. Each event must pass strict validation against its
class for that type; the package itself only fills its classes unchecked. And the state it keeps
while streaming must arrive, item by item, at the output of the terminal event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast, get_args

from openai import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter, ValidationError

Event = Mapping[str, Any]

# The package does not know these, but the API they come from sends them, and clients act on them.
WIRE_ERROR_CODES = frozenset(
    {"context_length_exceeded", "insufficient_quota", "usage_not_included", "cyber_policy"}
)
# Sent in silence. It is no part of the API, and every client was seen to ignore it.
UNKNOWN_TO_THE_PACKAGE = frozenset({"keepalive"})


@cache
def _adapters() -> dict[str, TypeAdapter[Any]]:
    """The class of every event type."""
    union, *_ = get_args(ResponseStreamEvent)
    return {
        name: TypeAdapter(model)
        for model in get_args(union)
        for name in get_args(model.model_fields["type"].annotation)
    }


def parse(event: Event) -> Any:
    """The event as the package's own class, or an AssertionError that says what is wrong."""
    adapter = _adapters().get(event["type"])
    assert adapter is not None, f"the package knows no event {event['type']}"
    try:
        return adapter.validate_python(_exempt(event), strict=True)
    except ValidationError as error:
        raise AssertionError(f"event {event['sequence_number']}: {error}") from error


def _exempt(event: Event) -> Event:
    response = event.get("response")
    if response is None or (response["error"] or {}).get("code") not in WIRE_ERROR_CODES:
        return event
    error = response["error"] | {"code": "server_error"}
    return {**event, "response": response | {"error": error}}


class _Fold(ResponseStreamState[Any]):
    """The state of the package's stream helper, with access to its accumulated items."""

    def __init__(self) -> None:
        super().__init__(input_tools=omit, text_format=omit)

    @property
    def growing(self) -> dict[int, Any]:
        """Items by output index, as accumulated from deltas."""
        return dict(self._output_items)

    @property
    def done(self) -> dict[int, Any]:
        """Items by output index, from their done events."""
        return dict(self._completed_output)

    @property
    def completed(self) -> Any:
        return self._completed_response


def check_with_sdk(events: Sequence[Event]) -> None:
    """Raise AssertionError unless the package accepts these events and folds them as we do."""
    fold = _Fold()
    for event in events:
        if event["type"] not in UNKNOWN_TO_THE_PACKAGE:
            fold.handle_event(parse(event))
    final = events[-1]["response"]
    for index, item in enumerate(final["output"]):
        growing = fold.growing[index]
        assert _set_fields(growing) == _set_fields(item), f"item {index}: deltas and output differ"
        if index in fold.done:
            assert fold.done[index].to_dict() == item, f"item {index}: done and output differ"
        else:
            assert final["status"] == "failed", f"item {index} was never done"
    assert len(fold.growing) == len(final["output"]), "the output has items that nobody streamed"
    if final["status"] == "completed":
        assert [_document(item) for item in fold.completed.output] == final["output"]


def _document(item: Any) -> Any:
    """As a document, without what the package's helper adds to an item once it has parsed it."""
    document = item.to_dict()
    document.pop("parsed_arguments", None)
    for part in document.get("content") or ():
        part.pop("parsed", None)
    return document


def _set_fields(item: Any) -> object:
    """What the package puts together from deltas: the text of messages and function arguments."""
    document = cast("dict[str, Any]", item if isinstance(item, dict) else item.to_dict())
    if document["type"] == "message":
        texts = (part for part in document["content"] if part["type"] == "output_text")
        return [part["text"] for part in texts]
    return document["arguments"] if document["type"] == "function_call" else None
