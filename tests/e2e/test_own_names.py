"""Errors and diagnostics name the members that the client has sent, in each format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from antiphon.config import ModelConfig
from tests.support.checked_gateway import CheckedGateway, checked_gateway, configured
from tests.support.tables import table
from tests.support.upstream import send_json, whole_answer

Document = dict[str, Any]
USER = [{"role": "user", "content": "hi"}]
FORCED = {"type": "function", "function": {"name": "nope"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_unknown", "content": "x"}


async def post(setup: CheckedGateway, path: str, **body: Any) -> tuple[int, str, Document]:
    url = f"{setup.gateway.base_url}/{path}"
    async with setup.gateway.client.post(url, json={"model": "m", **body}) as answer:
        return answer.status, answer.headers.get("antiphon-diagnostics", ""), await answer.json()


@table(
    ("path", "members", "codes"),
    [
        (
            "responses",
            {"input": "hi", "max_output_tokens": 10**9},
            {"param.degraded:max_output_tokens"},
        ),
        ("chat/completions", {"max_tokens": 10**9}, {"param.degraded:max_tokens"}),
        (
            "chat/completions",
            {"max_completion_tokens": 10**9, "logprobs": True, "verbosity": "low"},
            {
                "param.degraded:max_completion_tokens",
                "include.ignored:logprobs",
                "param.ignored:verbosity",
            },
        ),
        ("chat/completions", {"reasoning_effort": "odd"}, {"effort.ignored:reasoning_effort"}),
        (
            "messages",
            {"max_tokens": 10**9, "output_config": {"effort": "odd"}},
            {"param.degraded:max_tokens", "effort.ignored:output_config.effort"},
        ),
    ],
)
async def test_the_header_of_diagnostics_has_the_names_of_the_format(
    tmp_path: Path, path: str, members: Document, codes: set[str]
) -> None:
    given = members if path == "responses" else {"messages": USER, **members}
    limited = {"*": ModelConfig(max_output_tokens=50)}
    script = send_json(200, whole_answer("Hello"))
    async with configured(tmp_path, script, kind="mistral", models=limited) as setup:
        status, header, document = await post(setup, path, **given)
    assert status == 200, document
    assert codes <= {*header.partition("codes=")[2].split(",")}, header


@table(
    ("members", "param", "message"),
    [
        ({"tool_choice": FORCED}, "tool_choice", "`tool_choice` names a tool"),
        ({"function_call": {"name": "nope"}}, "function_call", "`function_call` names a tool"),
        ({"tool_choice": "required"}, "tool_choice", "Send `tools`."),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "description": "x"}}]}
            | {"tool_choice": {"type": "custom", "custom": {"name": "f"}}},
            "tool_choice",
            "`tool_choice` names a tool",
        ),
        ({"web_search_options": {}}, "web_search_options", "cannot be run"),
    ],
)
async def test_an_error_of_the_plan_names_members_of_chat_completions(
    tmp_path: Path, members: Document, param: str, message: str
) -> None:
    async with checked_gateway(tmp_path, send_json(200, whole_answer("Hello"))) as setup:
        status, _, document = await post(setup, "chat/completions", messages=USER, **members)
    assert status == 400, document
    assert document["error"]["param"] == param
    assert message in document["error"]["message"]


async def test_an_error_of_a_thread_names_the_block_of_messages(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, send_json(200, whole_answer("Hello"))) as setup:
        begun = {"messages": USER, "max_tokens": 9, "thread": {"type": "create"}}
        _, _, first = await post(setup, "messages", **begun)
        thread = {"type": "continue", "previous_message_id": first["id"]}
        sent = [{"role": "user", "content": [{"type": "text", "text": "see"}, RESULT]}]
        status, _, document = await post(
            setup, "messages", messages=sent, max_tokens=9, thread=thread
        )
    assert status == 400
    assert document["error"]["message"] == (
        "`messages.0.content.1` is the output of the call 'toolu_unknown', which is neither in the"
        " previous responses nor in `messages`. Send the `tool_use_id` of a call in them."
    )


@table(
    ("path", "body", "message"),
    [
        (
            "responses",
            {"model": "m", "inptu": "hi"},
            "'input' with at least one item (or 'previous_response_id') is required. 'inptu' is"
            " unknown here. Did you mean 'input'?",
        ),
        (
            "chat/completions",
            {"model": "m", "mesages": USER},
            "'messages' is required. 'mesages' is unknown here. Did you mean 'messages'?",
        ),
        (
            "messages",
            {"Model": "m", "messages": USER, "max_tokens": 9},
            "model: Field required. 'Model' is unknown here. Did you mean 'model'?",
        ),
    ],
)
async def test_a_misspelt_field_gets_a_suggestion(
    tmp_path: Path, path: str, body: Document, message: str
) -> None:
    async with checked_gateway(tmp_path, send_json(200, whole_answer("Hello"))) as setup:
        url = f"{setup.gateway.base_url}/{path}"
        async with setup.gateway.client.post(url, json=body) as answer:
            document = await answer.json()
    assert (answer.status, document["error"]["message"]) == (400, message)
