"""Requests that other gateways reject or degrade silently: themes 6, 12, 13, 14, 18, 20, 21, 29."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import ModelConfig
from tests.support.checked_gateway import (
    CheckedGateway,
    checked_gateway,
    configured,
    event_types,
    final_response,
    text,
)
from tests.support.demand_scripts import (
    Document,
    function,
    function_call,
    function_call_output,
    native_turns,
    scripts_in_turn,
    user,
)
from tests.support.scripted_providers.gemini import ScriptedGemini
from tests.support.scripted_providers.session import SESSION
from tests.support.upstream import DONE, HELLO_WORLD, chunk, send_frames, send_json, usage

PIXEL = "data:image/png;base64,iVBORw0KGgo="
HEADER = "antiphon-diagnostics"


async def diagnostics_header(setup: CheckedGateway, **body: Any) -> str:
    """The diagnostics header of a whole answer."""
    status, headers, document = await setup.post(**body)
    assert status == 200, document
    return headers.get(HEADER, "")


async def test_theme_06_an_image_does_not_fail_a_text_only_model(
    tmp_path: Path,
) -> None:
    seen = {"role": "user", "content": [{"type": "input_image", "image_url": PIXEL}]}
    output = [{"type": "input_image", "image_url": PIXEL}]
    thread = [seen, function_call("c1", "look"), function_call_output("c1", output), user("And?")]
    models = {"*": ModelConfig(inputs=["text"])}
    async with configured(tmp_path, send_frames(HELLO_WORLD), models=models) as setup:
        events = await setup.stream(input=thread, tools=[function("look")])
        sent = json.dumps(setup.last_body)
    assert event_types(events)[-1] == "response.completed"
    assert (sent.count("image omitted"), PIXEL in sent) == (2, False)


async def test_theme_12_developer_messages_keep_their_place(tmp_path: Path) -> None:
    thread = [
        {"role": "developer", "content": "First."},
        user("Hi"),
        {"role": "developer", "content": "Now be brief."},
        user("Go"),
    ]
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        await setup.stream(input=thread)
        sent = [(each["role"], each["content"]) for each in setup.last_body["messages"]]
    assert sent == [
        ("system", "First."),
        ("user", "Hi"),
        ("system", "Now be brief."),
        ("user", "Go"),
    ]


async def test_theme_13_ids_and_fields_are_those_of_the_real_api(tmp_path: Path) -> None:
    piece = {"index": 0, "id": "chatcmpl-tool-1", "function": {"name": "f", "arguments": "{}"}}
    frames = (
        chunk({"reasoning_content": "Hm."}),
        chunk({"content": "Yes."}),
        chunk({"tool_calls": [piece]}),
    )
    script = send_frames((*frames, chunk({}, "tool_calls"), usage(), DONE))
    async with checked_gateway(tmp_path, script) as setup:
        events = await setup.stream(tools=[function("f")])
    response = final_response(events)
    assert [item["id"].split("_")[0] for item in response["output"]] == ["rs", "msg", "fc"]
    assert response["id"].startswith("resp_")
    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    assert response["text"]["format"] == {"type": "text"}


@pytest.mark.parametrize(
    "item",
    [
        {"role": "assistant", "content": None},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ""}]},
        {"type": "reasoning", "summary": [], "content": None, "encrypted_content": None},
    ],
)
async def test_theme_13_items_with_missing_fields_are_read(tmp_path: Path, item: Document) -> None:
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        events = await setup.stream(input=[user("Hi"), item, user("Go on")])
    assert event_types(events)[-1] == "response.completed"


OVERFLOWS: list[tuple[int, Document]] = [
    (400, {"error": {"code": "context_length_exceeded", "message": "too long"}}),
    (400, {"error": {"message": "This model's maximum context length is 131072 tokens."}}),
    (400, {"error": {"code": "1261", "message": "Prompt exceeds max length"}}),
    (413, {"error": {"message": "Request too large: prompt is too long"}}),
]


@pytest.mark.parametrize(("status", "body"), OVERFLOWS)
async def test_theme_14_a_context_overflow_has_the_code_that_makes_clients_compact(
    tmp_path: Path, status: int, body: Document
) -> None:
    async with checked_gateway(tmp_path, send_json(status, body)) as setup:
        response = final_response(await setup.stream())
    assert response["error"]["code"] == "context_length_exceeded"


async def test_theme_18_schemas_are_reduced_to_what_gemini_supports(tmp_path: Path) -> None:
    hard = {
        "type": "object",
        "properties": {
            "kind": {"anyOf": [{"const": "a"}, {"const": 2}]},
            "tree": {"$ref": "#/$defs/node"},
            "maybe": {"type": ["string", "null"], "format": "uri", "pattern": "^h"},
        },
        "$defs": {"node": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "additionalProperties": False,
        "patternProperties": {"^x": {}},
    }
    tool = {"type": "function", "name": "f", "parameters": hard}
    scripted = ScriptedGemini("older", signed=False)
    async with configured(tmp_path, native_turns(scripted, SESSION[2:3]), kind="gemini") as setup:
        events = await setup.stream(model="up/gemini-2.5-pro", tools=[tool])
        assert scripted.problems(setup.upstream.requests[-1].raw) == []
    assert event_types(events)[-1] == "response.completed"


async def test_theme_20_unsupported_parameters_have_a_diagnostic(tmp_path: Path) -> None:
    async with configured(tmp_path, send_json(200, WHOLE), kind="deepseek") as setup:
        header = await diagnostics_header(
            setup, top_logprobs=3, service_tier="priority", text={"verbosity": "low"}
        )
        assert not {"service_tier", "verbosity"} & set(setup.last_body)
    assert "param.ignored:service_tier" in header
    assert "param.ignored:text.verbosity" in header


async def test_theme_20_a_tool_with_an_unsupported_restriction_is_refused(
    tmp_path: Path,
) -> None:
    tool = {"type": "web_search", "external_web_access": False}
    async with configured(tmp_path, send_json(200, WHOLE), web_search="native") as setup:
        status, _, document = await setup.post(tools=[tool])
        assert (status, setup.upstream.requests) == (400, [])
    assert "`external_web_access`" in document["error"]["message"]


@pytest.mark.parametrize(
    ("asked", "sent", "is_told"), [("high", "high", False), ("minimal", "low", True)]
)
async def test_theme_21_an_effort_is_mapped_to_those_of_the_model(
    tmp_path: Path, asked: str, sent: str, is_told: bool
) -> None:
    models = {"*": ModelConfig(efforts={"low": "low", "high": "high"})}
    async with configured(tmp_path, send_json(200, WHOLE), models=models) as setup:
        header = await diagnostics_header(setup, reasoning={"effort": asked})
        assert setup.last_body["reasoning_effort"] == sent
    assert ("effort.degraded" in header) is is_told


WHOLE: Document = {
    "id": "c",
    "choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
FORMAT = {"format": {"type": "json_schema", "name": "count", "strict": True, "schema": SCHEMA}}


def text_script(words: str) -> Any:
    return send_frames((chunk({"content": words}), chunk({}, "stop"), usage(), DONE))


async def test_theme_29_strict_output_is_repaired_or_the_response_fails(
    tmp_path: Path,
) -> None:
    models = {"*": ModelConfig(formats=["text"], tool_choice=["auto"])}
    script = scripts_in_turn(text_script('```json\n{"n": "one"}\n```'), text_script('{"n": 1}'))
    async with configured(tmp_path / "mended", script, models=models) as setup:
        events = await setup.stream(text=FORMAT)
        assert json.loads(text(final_response(events))) == {"n": 1}
    async with configured(tmp_path / "broken", text_script("Never."), models=models) as setup:
        assert final_response(await setup.stream(text=FORMAT))["status"] == "failed"
