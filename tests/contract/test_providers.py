"""One suite for every provider: what its data claims, its requests keep.

A new provider needs an answer in `vendor_answers.py`, and a line in `DEVIATIONS` that says how its
requests differ from the narrowest reading of the format. Nothing else here knows a name.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import Config
from antiphon.core.deltas import Delta, Failure, Finish, Reasoning, Text, ToolCall, Usage
from antiphon.core.parameter import TABLE, Rule
from antiphon.core.planning import RUNGS
from antiphon.providers import echo, table
from antiphon.providers.registry import SPECS, Provider, build_providers
from tests import full_request
from tests.chat_request_validator import problems
from tests.contract.vendor_answers import ERRORS, STREAMED, WHOLE
from tests.providers import CALLED, TOOL, Document, asked, configured, first_model, planned

DEVIATIONS: dict[str, set[str]] = {
    "deepseek": {"unknown key thinking", "unknown key user_id", "bad tool choice None"},
    "zhipu": {"unknown key thinking", "unknown key user_id", "unknown key tool_stream"},
    "minimax": {"unknown key thinking", "unknown key reasoning_split"},
    "xiaomi": {"unknown key thinking", "it is empty"},
    "chat": set(),
    "echo": set(),
}
VALUES: Document = {
    "temperature": 0.5,
    "top_p": 0.7,
    "max_output_tokens": 17,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "top_logprobs": 3,
    "parallel_tool_calls": False,
    "user": "somebody",
    "safety_identifier": "somebody",
}
SCHEMA = {"type": "json_schema", "name": "place", "schema": TOOL["parameters"]}
IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
ROWS = {row.name: row for row in TABLE}

every_provider = pytest.mark.parametrize("name", SPECS)


def different_models(name: str) -> list[str]:
    """A model for each set of capabilities that a provider has."""
    provider = configured(name)
    found: list[str] = []
    for model in [*provider.models(), "some-model"]:
        can = provider.capabilities(model)
        if all(provider.capabilities(other) != can for other in found):
            found.append(model)
    return found


every_model = pytest.mark.parametrize(
    ("name", "model"), [(name, model) for name in SPECS for model in different_models(name)]
)


def extended(parameter: str, value: Any) -> Document:
    """What a request says to give a parameter a value that means something."""
    if parameter == "top_logprobs":
        return {parameter: value, "include": ["message.output_text.logprobs"]}
    return {parameter: value}


# --- the data -------------------------------------------------------------------------------------


@every_provider
def test_claims_are_made_in_known_words(name: str) -> None:
    for model in SPECS[name].models:
        can = SPECS[name].capabilities_of(model.id)
        assert can.parameters <= VALUES.keys() & ROWS.keys()
        assert {"auto"} <= can.tool_choice <= {"auto", "none", "required", "function"}
        assert {"text"} <= can.formats <= {"text", "json_object", "json_schema"}
        assert {"text"} <= can.inputs <= {"text", "image", "file", "audio"}
        assert can.efforts.keys() <= set(RUNGS)
        assert (can.max_output_tokens or 0) <= (can.context_window or 0)


@every_provider
def test_the_address_and_the_key_are_well_known(name: str) -> None:
    spec = SPECS[name]
    assert re.fullmatch(r"[a-z]+", name)
    if not spec.needs_key:
        assert spec.api_key_env == ()
        return
    assert re.fullmatch(r"https://[a-z.]+(/[a-z0-9]+)*", spec.base_url)
    assert all(re.fullmatch(r"[A-Z]+_API_KEY", variable) for variable in spec.api_key_env)
    assert re.fullmatch(r"20\d\d-[01]\d", spec.as_of)
    assert list(build_providers(Config(), {spec.api_key_env[0]: "k"})) == [name, "echo"]


def test_no_two_providers_read_the_same_key() -> None:
    variables = [variable for spec in SPECS.values() for variable in spec.api_key_env]
    assert len(variables) == len(set(variables)) == 4


@every_provider
def test_a_provider_is_a_page_of_data(name: str) -> None:
    module = importlib.import_module(f"antiphon.providers.{name}")
    lines = inspect.getsource(module).splitlines()
    assert len(lines) <= (80 if not SPECS[name].in_process else 400)


def test_the_page_about_providers_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs" / "providers.md"
    written = page.read_text(encoding="utf-8")
    assert written == table.render(), "python -m antiphon.providers.table > docs/providers.md"
    for name, spec in SPECS.items():
        assert f"`{name}`: {spec.title}" in written
        assert all(f"`{model.id}`" in written for model in spec.models)


# --- what is asked --------------------------------------------------------------------------------


@every_model
def test_every_claimed_parameter_reaches_the_provider(name: str, model: str) -> None:
    provider = configured(name)
    for parameter in provider.capabilities(model).parameters:
        changed = False
        for effort in (None, "none"):
            request: Document = {"tools": [TOOL], "reasoning": {"effort": effort}}
            plain = asked(provider, model, **request)
            given = extended(parameter, VALUES[parameter])
            changed = changed or asked(provider, model, **request, **given) != plain
        assert changed, parameter


@every_model
def test_a_parameter_that_is_not_claimed_stays_here_visibly(name: str, model: str) -> None:
    provider = configured(name)
    for parameter in VALUES.keys() - provider.capabilities(model).parameters:
        request = {"tools": [TOOL], **extended(parameter, VALUES[parameter])}
        assert asked(provider, model, **request) == asked(provider, model, tools=[TOOL])
        told = bool(planned(provider, model, **request).diagnostics)
        assert told is (ROWS[parameter].rule is Rule.TAKE), parameter


@every_model
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_every_effort_is_accepted_and_said_in_the_providers_words(
    name: str, model: str, stream: bool
) -> None:
    provider = configured(name)
    efforts = provider.capabilities(model).efforts
    for effort in RUNGS:
        plan = planned(provider, model, reasoning={"effort": effort})
        assert plan.requested_effort == effort
        assert plan.effort in {*efforts.values(), None}
        assert bool(plan.diagnostics) is (effort not in efforts)
        body = asked(provider, model, reasoning={"effort": effort}, stream=stream)
        assert_well_formed(name, body)
        assert body.get("stream", False) is stream


@every_model
def test_each_word_of_the_ladder_asks_for_something_else(name: str, model: str) -> None:
    provider = configured(name)
    efforts = provider.capabilities(model).efforts
    bodies = {
        json.dumps(asked(provider, model, reasoning={"effort": effort})) for effort in efforts
    }
    assert len(bodies) == len(set(efforts.values()))


@every_provider
@pytest.mark.parametrize("form", [{"type": "text"}, {"type": "json_object"}, SCHEMA])
def test_a_format_is_asked_for_or_described(name: str, form: Document) -> None:
    provider = configured(name)
    body = asked(provider, text={"format": form})
    assert_well_formed(name, body)
    claimed = provider.capabilities(first_model(provider)).formats
    kind = form["type"]
    if kind == "text":
        assert "response_format" not in body
    elif kind in claimed:
        assert body["response_format"]["type"] == kind
    else:
        assert "JSON" in body["messages"][0]["content"]
        told = [each.code for each in planned(provider, text={"format": form}).diagnostics]
        assert told == ["format.degraded"]


@every_provider
@pytest.mark.parametrize(
    ("mode", "choice"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("function", {"type": "function", "name": "get_weather"}),
    ],
)
def test_a_choice_of_tools_is_told_or_weakened_visibly(name: str, mode: str, choice: Any) -> None:
    provider = configured(name)
    request: Document = {"tools": [TOOL, {**TOOL, "name": "other"}], "tool_choice": choice}
    body = asked(provider, **request)
    assert_well_formed(name, body)
    sent = body.get("tool_choice", "auto")
    if mode in provider.capabilities(first_model(provider)).tool_choice:
        assert (sent["type"] if isinstance(sent, dict) else sent) == mode
    elif mode == "none":
        assert "tools" not in body
    else:
        assert sent == "auto"
        told = [each.code for each in planned(provider, **request).diagnostics]
        assert told == ["tool_choice.degraded"]


@every_model
def test_an_image_is_shown_or_mentioned(name: str, model: str) -> None:
    provider = configured(name)
    content = [{"type": "input_text", "text": "look"}, IMAGE]
    [message] = asked(provider, model, input=[{"role": "user", "content": content}])["messages"]
    shown = isinstance(message["content"], list)
    assert shown is ("image" in provider.capabilities(model).inputs)
    assert "look" in json.dumps(message)


@every_provider
def test_instructions_of_a_developer_stay_where_they_are(name: str) -> None:
    provider = configured(name)
    said = [("user", "a"), ("developer", "b"), ("user", "c")]
    body = asked(provider, input=[{"role": role, "content": text} for role, text in said])
    takes = provider.capabilities(first_model(provider)).developer_role
    role = "developer" if takes else "system"
    assert [message["role"] for message in body["messages"]] == ["user", role, "user"]


@every_provider
def test_reasoning_goes_back_as_the_data_says(name: str) -> None:
    provider = configured(name)
    rule = provider.capabilities(first_model(provider)).replay_reasoning
    field = provider.spec.quirks.reasoning_field
    said = [*CALLED[:2], {"role": "assistant", "content": "Rain."}]
    called = asked(provider, input=CALLED, tools=[TOOL])["messages"][1]
    plain = asked(provider, input=said)["messages"][1]
    assert (field in called) is (rule != "never")
    assert (field in plain) is (rule == "always")
    forgotten = asked(provider, input=[CALLED[0], *CALLED[2:]], tools=[TOOL])["messages"][1]
    assert (field in forgotten) is provider.spec.quirks.reasoning_required


def assert_well_formed(name: str, body: Document) -> None:
    found = {problem.rpartition(": ")[2] for problem in problems(json.dumps(body).encode())}
    assert found <= DEVIATIONS[name]


@every_model
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_request_that_says_everything_is_asked_in_a_form_that_nobody_refuses(
    name: str, model: str, stream: bool
) -> None:
    provider = configured(name, web_search="ignore")
    request = {
        key: value
        for key, value in full_request.FULL.items()
        if key not in {"model", "stream"} and not (key in ROWS and ROWS[key].rule is Rule.REFUSE)
    }
    assert_well_formed(name, asked(provider, model, stream=stream, **request))


@every_provider
def test_a_longer_history_only_adds_to_the_request(name: str) -> None:
    provider = configured(name)
    bodies = [asked(provider, input=CALLED[:size], tools=[TOOL]) for size in (1, 4)]
    short, long = (json.dumps(body).removesuffix("]}") for body in bodies)
    assert long.startswith(short)


def test_echo_has_an_answer_to_whatever_is_asked_of_it() -> None:
    provider = configured("echo")
    for model, stream, choice in product(
        provider.models(), (False, True), ("auto", "none", "required")
    ):
        request: Document = {"input": full_request.ITEMS, "tools": full_request.TOOLS}
        body = asked(provider, model, stream=stream, tool_choice=choice, **request)
        answered = echo.answer(json.dumps(body).encode())
        assert answered.chunks


# --- what is answered -----------------------------------------------------------------------------


def read(provider: Provider, body: bytes) -> list[Delta]:
    framer, decoder = provider.dialect.framer(), provider.dialect.decoder()
    frames = [*framer.feed(body), *framer.close()]
    return [*(delta for frame in frames for delta in decoder.feed(frame)), *decoder.close()]


def gist(found: list[Delta]) -> Document:
    """What an answer amounts to, however it was cut."""
    calls = [delta for delta in found if isinstance(delta, ToolCall)]
    [usage] = [delta for delta in found if isinstance(delta, Usage)]
    return {
        "reasoning": "".join(delta.text for delta in found if isinstance(delta, Reasoning)),
        "text": "".join(delta.text for delta in found if isinstance(delta, Text)),
        "call": ("".join(call.name or "" for call in calls), arguments(calls)),
        "finish": [delta.reason for delta in found if isinstance(delta, Finish)],
        "usage": (usage.input_tokens, usage.cached_tokens, usage.reasoning_tokens),
        "failures": [delta for delta in found if isinstance(delta, Failure)],
    }


def arguments(calls: list[ToolCall]) -> Any:
    return json.loads("".join(call.arguments for call in calls))


@every_provider
def test_an_answer_means_the_same_streamed_and_whole(name: str) -> None:
    provider = configured(name)
    streamed = gist(read(provider, STREAMED[name]))
    assert streamed == gist(provider.dialect.decode(WHOLE[name]))
    assert streamed["finish"] == ["tool_calls"]
    assert streamed["failures"] == []
    if name != "echo":  # which says what it likes
        assert streamed["reasoning"] == "Let me see."
        assert streamed["text"] == "Rain."
        assert streamed["call"] == ("get_weather", {"city": "Ulm"})
        assert streamed["usage"] == (10, 4, 5)


@every_provider
def test_the_errors_it_is_known_for_are_understood(name: str) -> None:
    provider = configured(name)
    for status, body, kind in ERRORS[name]:
        if status == 200:
            decoded = provider.dialect.decode(body)
            [fault] = [delta.fault for delta in decoded if isinstance(delta, Failure)]
        else:
            fault = provider.dialect.classify(status, {}, body)
        assert kind in fault.type, (status, body)
        assert provider.dialect.describe(fault, "en")
