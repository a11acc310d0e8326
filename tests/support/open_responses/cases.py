"""Cases of the Open Responses compliance suite that use HTTP, and those proposed for it.

Written anew from a description of the suite. A case raises if the gateway does not comply.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.support.gateways import Running, events_of
from tests.support.open_responses.schema import (
    Document,
    FunctionCallItem,
    ResponseResource,
    check_event,
    check_response,
)
from tests.support.open_responses.upstreams import RESULT
from tests.support.pdf_files import make_pdf

WEATHER: Document = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the current weather of a location.",
    "parameters": {
        "type": "object",
        "properties": {"location": {"type": "string"}},
        "required": ["location"],
    },
}
QUESTION = "What is the weather in San Francisco?"
_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8"
    "z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)


@dataclass(frozen=True)
class Suite:
    """What a case needs: a gateway, and the model to request."""

    gateway: Running
    model: str

    async def post(self, path: str = "/responses", **fields: Any) -> tuple[int, Any]:
        url = f"{self.gateway.base_url}{path}"
        async with self.gateway.client.post(url, json=fields) as response:
            return response.status, await response.json()

    async def respond(self, *items: Document, **fields: Any) -> ResponseResource:
        """A whole answer that complies: status 200, the schema, completed, with output."""
        status, document = await self.post(model=self.model, input=list(items), **fields)
        assert status == 200, document
        response = check_response(document)
        assert response.status == "completed"
        assert response.output
        return response

    async def stream(self, *items: Document, **fields: Any) -> list[Document]:
        """A streamed answer that complies: valid frames and events, a terminal event, `[DONE]`."""
        body = {"model": self.model, "input": list(items), "stream": True, **fields}
        url = f"{self.gateway.base_url}/responses"
        async with self.gateway.client.post(url, json=body) as response:
            assert response.status == 200, await response.text()
            assert response.content_type == "text/event-stream"
            data = await response.read()
        assert data.endswith(b"\n\ndata: [DONE]\n\n")
        assert b"\r" not in data
        events = events_of(data)
        for event in events:
            check_event(event)
        assert events[-1]["type"] == "response.completed"
        assert check_response(events[-1]["response"]).status == "completed"
        return events


Case: TypeAlias = Callable[[Suite], Awaitable[None]]


def message(role: str, content: Any, **fields: Any) -> Document:
    return {"type": "message", "role": role, "content": content, **fields}


def text_part(text: str) -> Document:
    return {"type": "input_text", "text": text}


async def basic_response(suite: Suite) -> None:
    await suite.respond(message("user", "Say hello in exactly 3 words."))


async def assistant_phase(suite: Suite) -> None:
    await suite.respond(
        message("user", "Plan a walk."),
        message("assistant", "I am looking at the map.", phase="commentary"),
        message("assistant", "Walk along the river.", phase="final_answer"),
        message("user", "Thank you."),
    )


async def response_output_phase_schema(suite: Suite) -> None:
    response = await suite.respond(message("user", "Hello"))
    item = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
        "phase": "final_answer",
    }
    _, document = await suite.post(model=suite.model, input="Hello")
    assert check_response(document | {"output": [item]}).object == response.object


async def streaming_response(suite: Suite) -> None:
    await suite.stream(message("user", "Count from 1 to 5."))


async def system_prompt(suite: Suite) -> None:
    await suite.respond(
        message("system", "You are a pirate. Always respond in pirate speak."),
        message("user", "Say hello."),
    )


async def tool_calling(suite: Suite) -> None:
    response = await suite.respond(message("user", QUESTION), tools=[WEATHER])
    assert any(isinstance(item, FunctionCallItem) for item in response.output)


async def image_input(suite: Suite) -> None:
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{_PIXEL}"}
    await suite.respond(message("user", [text_part("What do you see in this image?"), image]))


async def multi_turn(suite: Suite) -> None:
    await suite.respond(
        message("user", "My name is Alice."),
        message("assistant", "Hello Alice! Nice to meet you."),
        message("user", "What is my name?"),
    )


# --- proposed -------------------------------------------------------------------------------------


async def tool_calling_streaming(suite: Suite) -> None:
    events = await suite.stream(message("user", QUESTION), tools=[WEATHER])
    call = next(
        event["item"]
        for event in events
        if event["type"] == "response.output_item.done" and event["item"]["type"] == "function_call"
    )
    kinds = [event["type"] for event in events if event.get("item_id") == call["id"]]
    assert kinds[0] == "response.function_call_arguments.delta"
    assert kinds[-1] == "response.function_call_arguments.done"
    added = [event["item"]["id"] for event in events if event["type"].endswith("item.added")]
    assert call["id"] in added


async def function_call_roundtrip(suite: Suite) -> None:
    forced = {"type": "function", "name": "get_weather"}
    first = await suite.respond(message("user", QUESTION), tools=[WEATHER], tool_choice=forced)
    [call] = [item for item in first.output if isinstance(item, FunctionCallItem)]
    output = {"type": "function_call_output", "call_id": call.call_id, "output": RESULT}
    second = await suite.respond(output, tools=[WEATHER], previous_response_id=first.id)
    assert second.previous_response_id == first.id
    assert not any(isinstance(item, FunctionCallItem) for item in second.output)


async def file_input(suite: Suite) -> None:
    data = base64.b64encode(make_pdf("The answer is 42.")).decode()
    file = {
        "type": "input_file",
        "filename": "answer.pdf",
        "file_data": f"data:application/pdf;base64,{data}",
    }
    await suite.respond(message("user", [text_part("What does the file say?"), file]))


async def previous_response_id(suite: Suite) -> None:
    first = await suite.respond(message("user", "Remember the number 7."))
    second = await suite.respond(message("user", "Which number?"), previous_response_id=first.id)
    assert second.previous_response_id == first.id
    status, document = await suite.post(
        model=suite.model, input="Hello", previous_response_id="resp_unknown"
    )
    assert (status, document["error"]["code"]) == (400, "previous_response_not_found")


CASES: Mapping[str, Case] = {
    "basic-response": basic_response,
    "assistant-phase": assistant_phase,
    "response-output-phase-schema": response_output_phase_schema,
    "streaming-response": streaming_response,
    "system-prompt": system_prompt,
    "tool-calling": tool_calling,
    "image-input": image_input,
    "multi-turn": multi_turn,
}
PROPOSED: Mapping[str, Case] = {
    "tool-calling-streaming": tool_calling_streaming,
    "function-call-roundtrip": function_call_roundtrip,
    "file-input": file_input,
    "previous-response-id": previous_response_id,
}
