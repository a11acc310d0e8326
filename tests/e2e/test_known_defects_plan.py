"""Known defects of plans and output: formats, reasoning, models and event shapes."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.config import ModelConfig
from tests.support import openai_sdk_check
from tests.support.checked_gateway import (
    Document,
    checked_gateway,
    configured,
    event_types,
    final_response,
    items_of_type,
    text,
)
from tests.support.known_defects import row
from tests.support.upstream import DONE, HELLO, HELLO_WORLD, Script, chunk, send_frames, usage

SCHEMA: Document = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
STRICT: Document = {
    "format": {"type": "json_schema", "name": "number", "schema": SCHEMA, "strict": True}
}
TOOL: Document = {"type": "function", "name": "f", "parameters": {"type": "object"}}
CALL: Document = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{}"}}
CALLING = (chunk({"tool_calls": [CALL]}), chunk({}, "tool_calls"), usage(), DONE)


def text_script(words: str, finish: str = "stop") -> Script:
    return send_frames((chunk({"content": words}), chunk({}, finish), usage(), DONE))


# Formats


@row(13)
async def test_a_strict_format_does_not_spoil_a_turn_that_calls_a_tool(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, send_frames(CALLING)) as setup:
        events = await setup.stream(text=STRICT, tools=[TOOL])
        for response in (final_response(events), await setup.whole(text=STRICT, tools=[TOOL])):
            assert response["status"] == "completed"
            assert [item["type"] for item in response["output"]] == ["function_call"]


@row(13)
async def test_a_truncated_answer_is_incomplete_and_not_a_format_error(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, text_script('{"n"', "length")) as setup:
        for response in (
            final_response(await setup.stream(text=STRICT)),
            await setup.whole(text=STRICT),
        ):
            assert response["incomplete_details"] == {"reason": "max_output_tokens"}
            assert text(response) == '{"n"'


@row(14)
async def test_invalid_output_of_the_model_is_not_a_client_error(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, text_script("not JSON")) as setup:
        for response in (
            final_response(await setup.stream(text=STRICT)),
            await setup.whole(text=STRICT),
        ):
            assert (response["status"], response["error"]["code"]) == ("failed", "server_error")
            assert response["usage"]["total_tokens"] == 20, "it was asked for once more"
            assert text(response) == "not JSON"
            kept = await setup.gateway.engine.services.store.load(response["id"], client="local")
            assert kept is not None
            assert kept.status == "failed"
        logged = [e.facts for e in setup.gateway.log if e.event == "response.finished"]
        assert [facts["output_tokens"] for facts in logged] == [6, 6]


@row(15)
async def test_an_answer_is_compared_with_its_schema(tmp_path: Path) -> None:
    """Text that has been streamed cannot be repaired, so the response fails with the violation."""
    async with checked_gateway(tmp_path, text_script('{"n": "one"}')) as setup:
        response = final_response(await setup.stream(text=STRICT))
        assert response["status"] == "failed"
        assert "at n" in response["error"]["message"]
    async with checked_gateway(tmp_path, text_script('{"n": 1}')) as setup:
        assert final_response(await setup.stream(text=STRICT))["status"] == "completed"


# What was said before


@row(27)
async def test_instructions_of_earlier_turns_are_not_repeated(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        first = await setup.whole(instructions="Speak French.")
        await setup.whole(instructions="Speak Latin.", previous_response_id=first["id"])
        assert [(m["role"], m["content"]) for m in setup.last_body["messages"]] == [
            ("system", "Speak Latin."),
            ("user", "Hello?"),
            ("assistant", "Hello, world"),
            ("user", "Hello?"),
        ]
        await setup.whole(previous_response_id=first["id"])
        assert "French" not in str(setup.last_body)


@row(28)
async def test_reasoning_stays_with_its_turn(tmp_path: Path) -> None:
    thought = {
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Secretly I think so."}],
    }
    history = [
        {"role": "user", "content": "One?"},
        thought,
        {"role": "user", "content": "Two?"},
        {"role": "assistant", "content": "Two."},
        {"role": "user", "content": "Three?"},
    ]
    models = {"*": ModelConfig(replay_reasoning="always")}
    async with configured(tmp_path, send_frames(HELLO_WORLD), models=models) as setup:
        _, headers, _ = await setup.post(input=history)
        assert setup.last_body["messages"][2] == {"role": "assistant", "content": "Two."}
        assert "history.reasoning.orphaned" in headers["antiphon-diagnostics"]
        await setup.whole(input=[history[0], thought, *history[3:]])
        assert setup.last_body["messages"][1]["reasoning_content"] == "Secretly I think so."


# Providers and models


@row(35)
@pytest.mark.parametrize("effort", ["minimal", "low", "medium", "high", "xhigh", "max"])
async def test_minimal_effort_does_not_disable_thinking(tmp_path: Path, effort: str) -> None:
    async with configured(tmp_path, send_frames(HELLO_WORLD), kind="deepseek") as setup:
        answer = await setup.whole(model="up/deepseek-v4-pro", reasoning={"effort": effort})
        assert setup.last_body["thinking"] == {"type": "enabled"}
        assert setup.last_body["reasoning_effort"] in ("low", "high", "max")
        assert answer["reasoning"]["effort"] == setup.last_body["reasoning_effort"]
        answer = await setup.whole(model="up/deepseek-v4-pro", reasoning={"effort": "none"})
        assert setup.last_body["thinking"] == {"type": "disabled"}
        assert answer["reasoning"]["effort"] == "none"


@row(36)
async def test_capabilities_are_configured_for_each_model_of_a_chat_server(
    tmp_path: Path,
) -> None:
    models = {
        "blind": ModelConfig(inputs=["text"], efforts={}),
        "sighted": ModelConfig(inputs=["text", "image"]),
    }
    image = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
    items = [{"role": "user", "content": [image]}]
    async with configured(tmp_path, send_frames(HELLO_WORLD), models=models) as setup:
        await setup.whole(model="up/sighted", input=items, reasoning={"effort": "low"})
        assert setup.last_body["messages"][0]["content"][0]["type"] == "image_url"
        assert setup.last_body["reasoning_effort"] == "low"
        _, headers, _ = await setup.post(model="up/blind", input=items, reasoning={"effort": "low"})
        assert isinstance(setup.last_body["messages"][0]["content"], str)
        assert "reasoning_effort" not in setup.last_body
        assert headers["antiphon-diagnostics"].startswith("2; codes=history.image.replaced")


@row(40)
async def test_results_of_a_native_search_are_cited(tmp_path: Path) -> None:
    """In the form that most providers stream: citations beside the text, before or after it."""
    cited = {"url": "https://example.com/a", "title": "A", "start_index": 0, "end_index": 5}
    found = chunk({"annotations": [{"type": "url_citation", "url_citation": cited}]})
    for frames in ((found, *HELLO), (*HELLO, found)):
        async with checked_gateway(
            tmp_path, send_frames((*frames, chunk({}, "stop"), DONE))
        ) as setup:
            events = await setup.stream()
            assert "response.output_text.annotation.added" in event_types(events)
            (message,) = items_of_type(events, "message")
            assert message["content"][0]["annotations"] == [{"type": "url_citation", **cited}]


@row(40)
async def test_search_results_beside_the_choices_are_cited_once(tmp_path: Path) -> None:
    """As Zhipu and Perplexity send them: a list beside the choices, again with every chunk."""
    results = [{"title": "A", "link": "https://example.com/a"}, {"title": "no address"}]
    frames = (chunk({"content": "Hi"}, web_search=results), chunk({}, "stop", web_search=results))
    async with checked_gateway(tmp_path, send_frames((*frames, DONE))) as setup:
        (message,) = items_of_type(await setup.stream(), "message")
        (cited,) = message["content"][0]["annotations"]
        assert (cited["url"], cited["title"]) == ("https://example.com/a", "A")


# Shapes

EVERYTHING = (
    chunk({"role": "assistant", "reasoning_content": "Hm."}),
    chunk({"content": "Words."}),
    chunk({"tool_calls": [CALL]}),
    chunk({}, "tool_calls"),
    usage(),
    DONE,
)


@row(41)
async def test_every_event_passes_the_strict_validation_of_the_official_client(
    tmp_path: Path,
) -> None:
    async with checked_gateway(tmp_path, send_frames(EVERYTHING)) as setup:
        events = await setup.stream()  # judged by the package's own classes, strictly
        assert len(events) > 15
        assert {"tools", "tool_choice", "parallel_tool_calls"} <= final_response(events).keys()
        spoiled = [dict(event) for event in events]
        for event in spoiled:
            event.pop("logprobs", None)
        with pytest.raises(AssertionError, match="logprobs"):
            openai_sdk_check.check_with_sdk(spoiled)
