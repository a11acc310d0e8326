"""Features of the gateway in the formats beside Responses: freeform tools, structured output, and
descriptions of images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_vision import VisionProvider, description_text, vision_gateway
from tests.support.checked_gateway import CheckedGateway, checked_gateway
from tests.support.failing_providers import ScriptQueue
from tests.support.upstream import DONE, chunk, send_frames, send_json, whole_answer

Document = dict[str, Any]
PIXEL = "iVBORw0KGgo="
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


async def post(setup: CheckedGateway, path: str, **body: Any) -> Any:
    url = f"{setup.gateway.base_url}/{path}"
    async with setup.gateway.client.post(url, json={"model": "blind", **body}) as answer:
        assert answer.status == 200, await answer.read()
        if body.get("stream"):
            return await answer.read()
        return await answer.json()


def user(content: Any) -> list[Document]:
    return [{"role": "user", "content": content}]


CALL = {"index": 0, "id": "c", "type": "function", "function": {"name": "write", "arguments": ""}}


def pieces(*arguments: str) -> tuple[bytes, ...]:
    deltas = [{"index": 0, "function": {"arguments": each}} for each in arguments]
    return tuple(chunk({"tool_calls": [delta]}) for delta in deltas)


async def test_a_freeform_tool_of_a_chat_client_is_unwrapped_while_it_arrives(
    tmp_path: Path,
) -> None:
    grammar = {"syntax": "regex", "definition": "[a-z ]+"}
    tool = {
        "type": "custom",
        "custom": {"name": "write", "format": {"type": "grammar", "grammar": grammar}},
    }
    frames = (
        chunk({"tool_calls": [CALL]}),
        *pieces('{"inp', 'ut":"two', ' words"}'),
        chunk({}, "tool_calls"),
        DONE,
    )
    async with checked_gateway(tmp_path, send_frames(frames)) as setup:
        data = await post(setup, "chat/completions", messages=user("hi"), tools=[tool], stream=True)
        [declared] = setup.last_body["tools"]
    lines = [line[6:] for line in data.split(b"\n") if line.startswith(b"data: {")]
    deltas = [json.loads(line)["choices"][0]["delta"] for line in lines]
    calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert (calls[0]["type"], calls[0]["custom"]["name"]) == ("custom", "write")
    assert "".join(call["custom"]["input"] for call in calls) == "two words"
    assert declared["type"] == "function"  # the provider has no freeform tools
    assert declared["function"]["parameters"]["required"] == ["input"]


async def test_prose_in_place_of_json_is_requested_again_in_every_format(
    tmp_path: Path,
) -> None:
    wrong = send_json(200, whole_answer("It is Oslo."))
    right = send_json(200, whole_answer('{"city": "Oslo"}'))
    async with checked_gateway(tmp_path, ScriptQueue(wrong, right, wrong, right)) as setup:
        form = {
            "type": "json_schema",
            "json_schema": {"name": "place", "schema": SCHEMA, "strict": True},
        }
        chat = await post(setup, "chat/completions", messages=user("where?"), response_format=form)
        message = await post(
            setup,
            "messages",
            messages=user("where?"),
            max_tokens=100,
            output_config={"format": {"type": "json_schema", "schema": SCHEMA}},
        )
        assert len(setup.upstream.requests) == 4
    assert chat["choices"][0]["message"]["content"] == '{"city": "Oslo"}'
    assert message["content"][-1]["text"] == '{"city": "Oslo"}'


BODIES: dict[str, tuple[str, Document]] = {
    "responses": ("text.format", {"input": "where?"}),
    "chat/completions": ("response_format", {"messages": user("where?")}),
    "messages": ("output_config.format", {"messages": user("where?"), "max_tokens": 100}),
}
"""Paths of the formats: the member that requests an output format, and the rest of a body."""


def format_member(path: str, schema: Document) -> Document:
    """The member that requests JSON of a schema, in the format of a path."""
    named = {"name": "place", "schema": schema, "strict": True}
    members: dict[str, Document] = {
        "responses": {"text": {"format": {"type": "json_schema", **named}}},
        "chat/completions": {"response_format": {"type": "json_schema", "json_schema": named}},
        "messages": {"output_config": {"format": {"type": "json_schema", "schema": schema}}},
    }
    return members[path]


@pytest.mark.parametrize("content", ["It is Oslo.", '{"city": 7}'])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", BODIES)
async def test_a_broken_output_format_is_named_as_the_client_names_it(
    tmp_path: Path, path: str, stream: bool, content: str
) -> None:
    own, body = BODIES[path]
    frames = (chunk({"content": content}), chunk({}, "stop"), DONE)
    wrong = send_frames(frames) if stream else send_json(200, whole_answer(content))
    async with checked_gateway(tmp_path, ScriptQueue(wrong, wrong)) as setup:
        asked = {"model": "m", "stream": stream, **body, **format_member(path, SCHEMA)}
        url = f"{setup.gateway.base_url}/{path}"
        async with setup.gateway.client.post(url, json=asked) as answer:
            data = (await answer.read()).decode()
    assert "invalid_output_format" in data
    assert f"`{own}`" in data
    others = {name for name, _ in BODIES.values()} - {own}
    assert not [name for name in others if f"`{name}`" in data]


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("responses", "text.format.schema"),
        ("chat/completions", "response_format.json_schema.schema"),
        ("messages", "output_config.format.schema"),
    ],
)
async def test_an_invalid_schema_is_named_as_the_client_names_it(
    tmp_path: Path, path: str, named: str
) -> None:
    _, body = BODIES[path]
    async with checked_gateway(tmp_path, ScriptQueue()) as setup:
        asked = {"model": "m", **body, **format_member(path, {"type": "no type"})}
        url = f"{setup.gateway.base_url}/{path}"
        async with setup.gateway.client.post(url, json=asked) as answer:
            error = (await answer.json())["error"]
            assert answer.status == 400
    assert f"`{named}`" in error["message"]
    assert error.get("param", named) == named


async def test_images_are_described_for_a_model_that_takes_none(tmp_path: Path) -> None:
    provider = VisionProvider()
    url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    async with vision_gateway(tmp_path, provider) as (setup, _):
        await post(setup, "chat/completions", messages=user([url]))
        block = {"type": "image", "source": source}
        await post(setup, "messages", messages=user([block]), max_tokens=100)
    assert len(provider.described_images) == 1  # the same image is described once
    assert [description_text("Look 1.") in prompt for prompt in provider.received_prompts] == [
        True,
        True,
    ]
