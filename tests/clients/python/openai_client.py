"""The `openai` package: every way of asking that it has, and the errors it raises."""

from __future__ import annotations

import json
from typing import Any

from openai import APIStatusError, AsyncOpenAI, OpenAI, pydantic_function_tool
from openai.types.responses import Response
from program import MODEL, City, forecast, http_client, play
from pydantic import BaseModel

client = OpenAI(http_client=http_client(blocking=True))
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city.",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
SEALED = {"store": False, "include": ["reasoning.encrypted_content"]}


class Weather(BaseModel):
    city: str


def summarize(response: Response) -> dict[str, Any]:
    """What is worth printing of a response."""
    return {
        "text": response.output_text,
        "status": response.status,
        "types": [item.type for item in response.output],
        "usage": response.usage.to_dict() if response.usage else None,
    }


def outputs(response: Response) -> list[dict[str, Any]]:
    """The results of all calls in a response."""
    calls = [item for item in response.output if item.type == "function_call"]
    return [
        {
            "type": "function_call_output",
            "call_id": call.call_id,
            "output": forecast(json.loads(call.arguments)["city"]),
        }
        for call in calls
    ]


def create() -> Any:
    return summarize(
        client.responses.create(model=MODEL, instructions="Be kind.", input="Good morning")
    )


def create_stream() -> Any:
    events = list(client.responses.create(model=MODEL, input="Good morning", stream=True))
    deltas = [each.delta for each in events if each.type == "response.output_text.delta"]
    return {
        "events": [each.type for each in events],
        "numbers": [each.sequence_number for each in events],
        "deltas": "".join(deltas),
        **summarize(events[-1].response),
    }


def helper() -> Any:
    with client.responses.stream(model=MODEL, input="Good morning") as stream:
        events = list(stream)
        final = stream.get_final_response()
    snapshots = [each.snapshot for each in events if each.type == "response.output_text.delta"]
    return {"snapshot": snapshots[-1], **summarize(final)}


def parse() -> Any:
    response = client.responses.parse(model=MODEL, input="Which city?", text_format=City)
    return response.output_parsed.model_dump()


def parse_stream() -> Any:
    with client.responses.stream(model=MODEL, input="Which city?", text_format=City) as stream:
        return stream.get_final_response().output_parsed.model_dump()


def tools() -> Any:
    """Without memory on the other side: everything is sent again, thoughts as a seal."""
    items: list[Any] = [{"role": "user", "content": "Ulm and Bonn?"}]
    first = client.responses.create(model=MODEL, input=items, tools=[WEATHER], **SEALED)
    items += [*first.output, *outputs(first)]
    second = client.responses.create(model=MODEL, input=items, tools=[WEATHER], **SEALED)
    return [summarize(first), summarize(second)]


def tools_stream() -> Any:
    """With memory, and with the helper, which reads the arguments itself."""
    tool = pydantic_function_tool(Weather, name="get_weather")["function"]
    tool = {"type": "function", **tool}
    with client.responses.stream(model=MODEL, input="Ulm and Bonn?", tools=[tool]) as stream:
        events = list(stream)
        first = stream.get_final_response()
    done = [each for each in events if each.type == "response.function_call_arguments.done"]
    with client.responses.stream(
        model=MODEL, input=outputs(first), tools=[tool], previous_response_id=first.id
    ) as stream:
        second = stream.get_final_response()
    cities = [json.loads(each.arguments)["city"] for each in done]
    return {"cities": cities, "turns": [summarize(first), summarize(second)]}


def chain() -> Any:
    """Three turns, each of which knows the one before by its id."""
    previous: str | None = None
    seen = []
    for question in ("One?", "Two?", "Three?"):
        asked = {} if previous is None else {"previous_response_id": previous}
        response = client.responses.create(model=MODEL, input=question, **asked)
        previous = response.id
        seen.append(summarize(response))
    return seen


def reasoning() -> Any:
    items: list[Any] = [{"role": "user", "content": "Think."}]
    with client.responses.stream(
        model=MODEL, input=items, reasoning={"summary": "auto"}, **SEALED
    ) as stream:
        events = [each.type for each in stream]
        first = stream.get_final_response()
    items += [*first.output, {"role": "user", "content": "Again."}]
    second = client.responses.create(model=MODEL, input=items, **SEALED)
    thoughts = [item for item in first.output if item.type == "reasoning"]
    return {
        "events": events,
        "thoughts": [
            "".join(part.text for part in (*item.summary, *(item.content or [])))
            for item in thoughts
        ],
        "sealed": [bool(item.encrypted_content) for item in thoughts],
        "turns": [summarize(first), summarize(second)],
    }


async def asynchronous() -> Any:
    """The asynchronous client: a whole answer, a stream, and the helper with tools."""
    async with AsyncOpenAI(http_client=http_client(blocking=False)) as other:
        whole = await other.responses.create(model=MODEL, input="Good morning")
        stream = await other.responses.create(model=MODEL, input="Good morning", stream=True)
        events = [event async for event in stream]
        async with other.responses.stream(model=MODEL, input="Ulm?", tools=[WEATHER]) as helped:
            calls = await helped.get_final_response()
        more = {"previous_response_id": calls.id, "tools": [WEATHER]}
        last = await other.responses.create(model=MODEL, input=outputs(calls), **more)
    return {
        "events": [event.type for event in events],
        "turns": [summarize(each) for each in (whole, events[-1].response, calls, last)],
    }


def retry() -> Any:
    """Left to itself, the client waits as long as it is told, and asks again."""
    return summarize(client.responses.create(model=MODEL, input="Good morning"))


def cut() -> Any:
    events = list(client.responses.create(model=MODEL, input="Good morning", stream=True))
    error = events[-1].response.error
    return {"last": events[-1].type, "code": error.code, "message": error.message}


def _error(stranger: OpenAI, **request: Any) -> dict[str, Any]:
    try:
        stranger.responses.create(**{"model": MODEL, "input": "Hi", **request})
    except APIStatusError as error:
        return {
            "class": type(error).__name__,
            "status": error.status_code,
            "code": error.code,
            "type": error.type,
            "param": error.param,
            "retry_after": error.response.headers.get("retry-after"),
            "request_id": bool(error.request_id),
        }
    raise AssertionError("nothing was raised")


def errors() -> Any:
    once = client.with_options(max_retries=0)
    return {
        "limit": _error(once),
        "stream": _error(once, stream=True),
        "model": _error(once, model="nobody/nothing"),
        "param": _error(once, temperature=9),
        "chain": _error(once, previous_response_id="resp_nowhere"),
    }


play(
    create,
    create_stream,
    helper,
    parse,
    parse_stream,
    tools,
    tools_stream,
    chain,
    reasoning,
    asynchronous,
    retry,
    cut,
    errors,
)
