"""The `openai` package in strict mode: what can be done with a response besides creating it."""

from __future__ import annotations

import time
from typing import Any

from openai import APIStatusError, AsyncOpenAI, OpenAI
from openai.types.responses import Response
from program import MODEL, http_client, play

client = OpenAI(
    http_client=http_client(blocking=True), max_retries=0, _strict_response_validation=True
)
POLL_S = 0.02
UNFINISHED = {"queued", "in_progress"}


def messages(*texts: str) -> list[Any]:
    return [{"role": "user", "content": text} for text in texts]


def code_of(call: Any, *args: Any, **options: Any) -> list[Any]:
    """The error that a call raises."""
    try:
        call(*args, **options)
    except APIStatusError as error:
        return [type(error).__name__, error.code]
    raise AssertionError("nothing was raised")


def texts_of(items: Any) -> list[str]:
    return [item.content[0].text for item in items]


def stored() -> Any:
    """Retrieve a response, page through its input in both orders, and delete it."""
    first = client.responses.create(model=MODEL, input="Zero?")
    response = client.responses.create(
        model=MODEL, input=messages("One?", "Two?", "Three?"), previous_response_id=first.id
    )
    inputs = client.responses.input_items
    page = inputs.list(response.id, order="asc", limit=2)
    seen = {
        "same": client.responses.retrieve(response.id).to_dict() == response.to_dict(),
        "asc": texts_of(inputs.list(response.id, order="asc", limit=2)),
        "desc": texts_of(inputs.list(response.id, order="desc", limit=2)),
        "page": [len(page.data), page.has_more],
        "after": texts_of(inputs.list(response.id, order="asc", after=page.data[1].id)),
        "cancelled": code_of(client.responses.cancel, response.id),
    }
    client.responses.delete(response.id)
    gone = {
        "retrieved": code_of(client.responses.retrieve, response.id),
        "deleted": code_of(client.responses.delete, response.id),
        "listed": code_of(inputs.list, response.id),
        "continued": code_of(
            client.responses.create, model=MODEL, input="Hi", previous_response_id=response.id
        ),
    }
    return {**seen, **gone}


def poll(response: Response, until: set[str]) -> Response:
    while response.status not in until:
        time.sleep(POLL_S)
        response = client.responses.retrieve(response.id)
    return response


def background() -> Any:
    begun = client.responses.create(model=MODEL, input="Good morning", background=True)
    ended = poll(begun, {"completed", "failed", "incomplete", "cancelled"})
    again = client.responses.cancel(begun.id)
    return {
        "begun": [begun.status, begun.background, len(begun.output)],
        "ended": [ended.status, ended.background, ended.output_text],
        "is_kept": again.to_dict() == ended.to_dict(),
    }


def cancel() -> Any:
    """A background response is cancelled, and stays so."""
    begun = client.responses.create(model=MODEL, input="Good morning", background=True)
    poll(begun, {"in_progress"})
    found = [
        client.responses.cancel(begun.id),
        client.responses.cancel(begun.id),
        client.responses.retrieve(begun.id),
    ]
    return [[each.status, each.incomplete_details, each.error] for each in found]


def resume() -> Any:
    """A background stream can be read again from every number."""
    request = {"model": MODEL, "input": "Good morning", "background": True, "stream": True}
    events = [event.to_dict() for event in client.responses.create(**request)]
    response_id = events[0]["response"]["id"]
    rests = {}
    for event in events:
        after = event["sequence_number"]
        rest = client.responses.retrieve(response_id, stream=True, starting_after=after)
        rests[after] = [event.to_dict() for event in rest]
    with client.responses.retrieve(response_id, stream=True) as stream:
        rests[-1] = [event.to_dict() for event in stream]
    with client.responses.stream(response_id=response_id, starting_after=3) as stream:
        helped = stream.get_final_response()
    return {
        "numbers": [event["sequence_number"] for event in events],
        "types": [event["type"] for event in events],
        "unequal": [after for after, rest in rests.items() if rest != events[after + 1 :]],
        "resumed": len(rests),
        "text": helped.output_text,
    }


def lost() -> Any:
    """The client leaves after the first word; the response goes on, and it comes back."""
    request = {"model": MODEL, "input": "Good morning", "background": True, "stream": True}
    seen = []
    with client.responses.create(**request) as stream:
        for event in stream:
            seen.append(event)
            if event.type == "response.output_text.delta":
                break
    rest = client.responses.retrieve(
        seen[0].response.id, stream=True, starting_after=seen[-1].sequence_number
    )
    seen += list(rest)
    return {
        "numbers": [event.sequence_number for event in seen],
        "text": "".join(e.delta for e in seen if e.type == "response.output_text.delta"),
        "last": seen[-1].type,
    }


def cancelled_stream() -> Any:
    """A stream whose response is cancelled ends with `response.incomplete`."""
    request = {"model": MODEL, "input": "Good morning", "background": True, "stream": True}
    events, cancelled = [], None
    for event in client.responses.create(**request):
        events.append(event)
        if event.type == "response.output_text.delta" and cancelled is None:
            cancelled = client.responses.cancel(events[0].response.id)
    last = events[-1]
    again = client.responses.retrieve(last.response.id, stream=True, starting_after=1)
    return {
        "last": last.type,
        "status": last.response.status,
        "details": last.response.incomplete_details,
        "text": last.response.output_text,
        "is_kept": cancelled.to_dict() == last.response.to_dict(),
        "is_repeated": [e.to_dict() for e in again] == [e.to_dict() for e in events[2:]],
    }


def conversation() -> Any:
    talk = client.conversations.create(metadata={"topic": "tea"}, items=messages("I am Ada."))
    talk = client.conversations.update(talk.id, metadata={"topic": "names"})
    items = client.conversations.items
    items.create(talk.id, items=messages("I like tea."))
    first = client.responses.create(model=MODEL, input="Who am I?", conversation=talk.id)
    listed = list(items.list(talk.id, order="asc", limit=2))
    found = items.retrieve(listed[0].id, conversation_id=talk.id)
    items.delete(listed[1].id, conversation_id=talk.id)
    with client.responses.stream(model=MODEL, input="Sure?", conversation=talk.id) as stream:
        second = stream.get_final_response()
    newest = list(items.list(talk.id, order="desc", limit=2))
    deleted = client.conversations.delete(talk.id)
    return {
        "metadata": talk.metadata,
        "conversation": [each.conversation.id == talk.id for each in (first, second)],
        "asc": texts_of(listed),
        "desc": texts_of(newest),
        "found": found.to_dict() == listed[0].to_dict(),
        "deleted": deleted.deleted,
        "gone": code_of(client.conversations.retrieve, talk.id)[0],
        "continued": code_of(
            client.responses.create, model=MODEL, input="Hi", conversation=talk.id
        )[0],
    }


def compact() -> Any:
    """A thread is compacted, and continued from what is left of it.

    The messages of users are among it, which the strict types of the API itself do not allow.
    """
    answered: Any = [{"role": "assistant", "content": "The word is heron."}]
    strict = client.responses.compact(model=MODEL, input=answered)
    tolerant = OpenAI(http_client=http_client(blocking=True), max_retries=0)
    compacted = tolerant.responses.compact(model=MODEL, input=messages("It is heron.", "Keep it."))
    kept = [item.to_dict(warnings=False) for item in compacted.output]
    after = [*kept, *messages("Which word?")]
    response = tolerant.responses.create(model=MODEL, input=after, store=False)
    return {
        "objects": [strict.object, compacted.object],
        "types": [[item.type for item in each.output] for each in (strict, compacted)],
        "tokens": compacted.usage.total_tokens,
        "text": response.output_text,
    }


def about() -> Any:
    counted = client.responses.input_tokens.count(model=MODEL, input="Good morning")
    return {"tokens": counted.input_tokens, "model": client.models.retrieve(MODEL).id}


def websocket() -> Any:
    """Two turns over one connection; the second continues what is stored nowhere."""
    with client.responses.connect() as connection:
        connection.response.create(model=MODEL, input="One?", store=False)
        first = _final(connection)
        connection.response.create(
            model=MODEL, input="Two?", store=False, previous_response_id=first.response.id
        )
        second = _final(connection)
        connection.response.create(model=MODEL, input="x", previous_response_id="resp_nowhere")
        failed = _final(connection)
    return {
        "texts": [each.response.output[-1].content[0].text for each in (first, second)],
        "error": [failed.status, failed.error.code],
    }


def _final(connection: Any) -> Any:
    for event in connection:
        if event.type in {"response.completed", "error"}:
            return event
    raise AssertionError("the connection was closed")


async def asynchronous() -> Any:
    """The asynchronous client: a background stream is left, and resumed."""
    async with AsyncOpenAI(
        http_client=http_client(blocking=False), max_retries=0, _strict_response_validation=True
    ) as other:
        stream = await other.responses.create(
            model=MODEL, input="Good morning", background=True, stream=True
        )
        begun = await anext(aiter(stream))
        await stream.close()
        rest = await other.responses.retrieve(
            begun.response.id, stream=True, starting_after=begun.sequence_number
        )
        events = [event async for event in rest]
        found = await other.responses.retrieve(begun.response.id)
    return {
        "numbers": [event.sequence_number for event in events],
        "same": found.to_dict() == events[-1].response.to_dict(),
        "text": found.output_text,
    }


play(
    stored,
    background,
    cancel,
    resume,
    lost,
    cancelled_stream,
    conversation,
    compact,
    about,
    websocket,
    asynchronous,
)
