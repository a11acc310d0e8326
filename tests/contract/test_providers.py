"""One suite for every provider: its requests match the capabilities in its data.

A new provider needs an answer in `vendor_answers.py`, and a line in `DEVIATIONS` if its requests
differ from the strict form of the dialect. Nothing else here depends on a provider's name.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import pytest

from antiphon.config import Config
from antiphon.core.capabilities import Capabilities
from antiphon.core.deltas import Delta, Failure, Finish, Reasoning, Text, ToolCall, Usage
from antiphon.core.filters.markup import GUARDS
from antiphon.core.plan.effort import EFFORTS
from antiphon.core.plan.hosted_tools import HostedToolPolicy
from antiphon.core.plan.parameters import PARAMETERS, Rule
from antiphon.core.stream.finish import map_finish_reason
from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.errors import InvalidRequest
from antiphon.providers import cerebras, echo
from antiphon.providers.registry import SPECS, Provider, build_providers
from antiphon.providers.spec import Spec
from tests.support import full_request
from tests.support.outbound_requests import (
    CALLED,
    TOOL,
    Document,
    configured,
    encode_request,
    first_model,
    make_request_plan,
)
from tests.support.request_validators import anthropic as anthropic_request_validator
from tests.support.request_validators import bedrock as bedrock_request_validator
from tests.support.request_validators import chat as chat_request_validator
from tests.support.request_validators import cohere as cohere_request_validator
from tests.support.request_validators import gemini as gemini_request_validator
from tests.support.request_validators import ollama as ollama_request_validator
from tests.support.request_validators import responses as responses_request_validator
from tests.support.tables import table
from tests.support.vendor_answers import ERRORS, STREAMED, WHOLE

VALIDATORS: dict[str, Callable[[bytes], list[str]]] = {
    "anthropic": anthropic_request_validator.problems,
    "bedrock": bedrock_request_validator.problems,
    "chat": chat_request_validator.problems,
    "cohere": cohere_request_validator.problems,
    "gemini": partial(gemini_request_validator.problems, json_beside_tools=True),
    "ollama": ollama_request_validator.problems,
    "responses": responses_request_validator.problems,
}
IGNORE = HostedToolPolicy("ignore")
TEMPLATE = "unknown key chat_template_kwargs"
DEVIATIONS: dict[str, set[str]] = {
    "deepseek": {"unknown key thinking", "unknown key user_id", "bad tool choice None"},
    "zhipu": {"unknown key thinking", "unknown key user_id", "unknown key tool_stream"},
    "minimax": {"unknown key thinking", "unknown key reasoning_split"},
    "xiaomi": {"unknown key thinking", "it is empty"},
    "moonshot": {"unknown key thinking"},
    "qwen": {f"unknown key {key}" for key in ("enable_thinking", "thinking_budget")}
    | {"unknown key preserve_thinking"},
    "anthropic": {"temperature and top_p together"},  # the older models accept both
    "groq": {"unknown key reasoning_format"},
    "mistral": {"unknown key prefix", "bad tool choice 'any'"},
    "openrouter": {"unknown key reasoning", "unknown key usage"},
    "vllm": {TEMPLATE},
    "sglang": {TEMPLATE},
    "llamacpp": {TEMPLATE},
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
    "prompt_cache_key": "k",
    "metadata": {"a": "b"},
    "service_tier": "default",
    "truncation": "auto",
    "max_tool_calls": 3,
    "verbosity": "low",
    "summary": "detailed",
    "stop": ["END"],
    "top_k": 40,
    "seed": 7,
    "logit_bias": {"50256": -100},
}
OF_OTHER_FORMATS = frozenset(
    "thinking prompt_caching cache_control context_edits betas extra prefill".split()
)
"""Parameters that a Responses request does not have."""
SCHEMA = {"type": "json_schema", "name": "place", "schema": TOOL["parameters"]}
IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
ROWS = {row.name: row for row in PARAMETERS}

every_provider = table("name", SPECS)
every_chat_provider = table(
    "name", [name for name, spec in SPECS.items() if spec.dialect == "chat"]
)


def different_models(name: str) -> list[str]:
    """Return one model for each set of capabilities of a provider."""
    provider = configured(name)
    found: list[str] = []
    for model in [*(known.id for known in provider.spec.models), "some-model"]:
        can = provider.capabilities(model)
        if all(provider.capabilities(other) != can for other in found):
            found.append(model)
    return found


every_model = table(
    ("name", "model"), [(name, model) for name in SPECS for model in different_models(name)]
)


def quirks_of(provider: Provider) -> ChatQuirks:
    assert isinstance(provider.spec.quirks, ChatQuirks | None)
    return provider.spec.quirks or ChatQuirks()


def extended(parameter: str, value: Any, **request: Any) -> Document:
    """Return the request with a parameter set, and with what it depends on."""
    outer, _, inner = ROWS[parameter].path.partition(".")
    if inner:
        return {**request, outer: {**request.get(outer, {}), inner: value}}
    if parameter == "top_logprobs":
        request["include"] = ["message.output_text.logprobs"]
    return {**request, parameter: value}


# --- the data -------------------------------------------------------------------------------------


@every_model
def test_capabilities_use_known_names(name: str, model: str) -> None:
    can = SPECS[name].capabilities_of(model)
    assert can.parameters - OF_OTHER_FORMATS <= VALUES.keys() & ROWS.keys()
    assert can.fixed_by_thinking <= can.parameters
    assert can.ranges.keys() <= can.parameters
    assert {*can.conflicting_parameters, *can.conflicting_parameters.values()} <= can.parameters
    assert {"auto"} <= can.tool_choice <= {"auto", "none", "required", "function"}
    assert {"text"} <= can.formats <= {"text", "json_object", "json_schema"}
    assert {"text"} <= can.inputs <= {"text", "image", "file", "file_url", "audio"}
    assert can.efforts.keys() <= set(EFFORTS)
    assert set(can.guards) <= set(GUARDS)
    assert can.context_window is None or (can.max_output_tokens or 0) <= can.context_window
    if can.fixed_by_thinking:
        assert "none" in can.efforts, "what thinking fixes can never be set"


@every_provider
def test_base_url_and_key_variable_are_well_formed(name: str) -> None:
    spec = SPECS[name]
    assert re.fullmatch(r"[a-z]+", name)
    if not spec.needs_key:
        assert spec.api_key_env == ()
        assert spec.base_url.startswith(("http://localhost:", "echo://")) or not spec.base_url
        return
    assert re.fullmatch(r"(https://[a-z0-9.-]+(/[a-z0-9-]+)*)?", spec.base_url)
    assert all(re.fullmatch(r"[A-Z]+(_[A-Z]+)+", variable) for variable in spec.api_key_env)
    assert re.fullmatch(r"20\d\d-[01]\d", spec.as_of)
    found = list(build_providers(Config(), dict.fromkeys(spec.api_key_env, "k")))
    is_found = bool(spec.base_url) and not spec.ambient_key
    assert found == ([name, "echo"] if is_found else ["echo"])


def test_no_two_providers_share_a_key_variable() -> None:
    variables = [variable for spec in SPECS.values() for variable in spec.api_key_env]
    assert len(variables) == len(set(variables))
    assert len(variables) >= 24


@every_provider
def test_a_provider_has_at_most_ninety_lines(name: str) -> None:
    module = importlib.import_module(f"antiphon.providers.{name}")
    lines = inspect.getsource(module).splitlines()
    assert len(lines) <= (90 if not SPECS[name].in_process else 400)


def test_a_new_chat_provider_has_at_most_fifty_lines() -> None:
    assert SPECS["cerebras"].dialect == "chat"
    assert len(inspect.getsource(cerebras).splitlines()) <= 50


# --- requests -------------------------------------------------------------------------------------


def hosted_tool(provider: Provider, model: str) -> Document:
    """A tool that the provider runs."""
    searches = provider.capabilities(model).web_search == "native"
    return {"type": "web_search" if searches else "image_generation"}


@every_model
def test_every_supported_parameter_is_sent(name: str, model: str) -> None:
    provider = configured(name)
    for parameter in provider.capabilities(model).parameters - OF_OTHER_FORMATS:
        changed = False
        for effort in (None, "none"):
            tool = hosted_tool(provider, model) if parameter == "max_tool_calls" else TOOL
            request: Document = {"tools": [tool], "reasoning": {"effort": effort}}
            plain = encode_request(provider, model, **request)
            given = extended(parameter, VALUES[parameter], **request)
            changed = changed or encode_request(provider, model, **given) != plain
        assert changed, parameter


@every_model
def test_an_unsupported_parameter_is_ignored_with_a_diagnostic(name: str, model: str) -> None:
    provider = configured(name)
    tools: Document = {"tools": [TOOL]} if provider.capabilities(model).tools else {}
    applied = {"max_tool_calls"}  # without tools of the provider there is nothing to limit
    if provider.capabilities(model).context_window is not None:
        applied.add("truncation")
    known = [each.code for each in make_request_plan(provider, model, **tools).diagnostics]
    for parameter in VALUES.keys() - provider.capabilities(model).parameters:
        request = extended(parameter, VALUES[parameter], **tools)
        assert encode_request(provider, model, **request) == encode_request(
            provider, model, **tools
        )
        reported = [
            each.code for each in make_request_plan(provider, model, **request).diagnostics
        ] != known
        row = ROWS[parameter]
        is_lost = row.rule is Rule.FORWARD and VALUES[parameter] not in row.defaults
        is_lost = is_lost and parameter not in applied
        assert reported is is_lost, parameter


@every_model
def test_parameters_fixed_by_thinking_are_ignored_with_a_diagnostic(name: str, model: str) -> None:
    provider = configured(name)
    can = provider.capabilities(model)
    fixed = {name: VALUES[name] for name in can.fixed_by_thinking if name != "top_logprobs"}
    plan = make_request_plan(provider, model, reasoning={"effort": "high"}, **fixed)
    assert plan.parameters.keys().isdisjoint(fixed)
    reported = {each.param for each in plan.diagnostics if each.code == "param.ignored"}
    assert reported == set(fixed)


@table(
    ("name", "model"),
    [
        (name, model)
        for name in SPECS
        for model in different_models(name)
        if (can := SPECS[name].capabilities_of(model)).forced_choice_stops_thinking
        and "none" in can.efforts
    ],
)
def test_a_forced_call_that_disables_thinking_is_reported(name: str, model: str) -> None:
    provider = configured(name)
    choice = {"type": "function", "name": "get_weather"}
    plan = make_request_plan(
        provider, model, tools=[TOOL], tool_choice=choice, reasoning={"effort": "high"}
    )
    assert plan.tool_choice.mode == "function"
    assert plan.effort == provider.capabilities(model).efforts["none"]
    assert "effort.degraded" in [each.code for each in plan.diagnostics]


@every_model
@table("stream", [False, True], ids=["whole", "streamed"])
def test_every_effort_is_sent_as_the_providers_value(name: str, model: str, stream: bool) -> None:
    provider = configured(name)
    efforts = provider.capabilities(model).efforts
    for effort in EFFORTS:
        plan = make_request_plan(provider, model, reasoning={"effort": effort})
        assert plan.effort in {*efforts.values(), None}
        assert bool(plan.diagnostics) is (effort not in efforts)
        body = encode_request(provider, model, reasoning={"effort": effort}, stream=stream)
        assert_well_formed(name, body)


@every_chat_provider
def test_streaming_is_requested_if_wanted_or_required(name: str) -> None:
    provider = configured(name)
    assert encode_request(provider, stream=True)["stream"] is True
    assert encode_request(provider).get("stream", False) is quirks_of(provider).only_streams


@every_model
def test_different_effort_values_give_different_requests(name: str, model: str) -> None:
    provider = configured(name)
    efforts = provider.capabilities(model).efforts
    bodies = {
        json.dumps(encode_request(provider, model, reasoning={"effort": effort}))
        for effort in efforts
    }
    assert len(bodies) == len(set(efforts.values()))


@every_model
@table("form", [{"type": "text"}, {"type": "json_object"}, SCHEMA])
def test_a_format_is_sent_or_described_in_the_prompt(name: str, model: str, form: Document) -> None:
    provider = configured(name)
    body = encode_request(provider, model, text={"format": form})
    assert_well_formed(name, body)
    reported = [
        each.code for each in make_request_plan(provider, model, text={"format": form}).diagnostics
    ]
    if form["type"] == "text":
        assert body == encode_request(provider, model)
    elif form["type"] in provider.capabilities(model).formats:
        assert body != encode_request(provider, model)
        assert reported == []
        if provider.spec.dialect == "chat":
            assert body["response_format"]["type"] == form["type"]
    else:
        assert "JSON" in json.dumps(body)
        assert reported == ["format.degraded"]


@every_model
def test_a_format_beside_tools_is_sent_or_described_in_the_prompt(name: str, model: str) -> None:
    provider = configured(name)
    can = provider.capabilities(model)
    request: Document = {"text": {"format": SCHEMA}, "tools": [TOOL] if can.tools else []}
    assert_well_formed(name, encode_request(provider, model, **request))
    plan = make_request_plan(provider, model, **request)
    alone = can.formats_beside_tools or not can.tools
    assert plan.contract.degraded is not ("json_schema" in can.formats and alone)
    reported = "format.degraded" in [each.code for each in plan.diagnostics]
    assert reported is plan.contract.degraded


@every_model
@table(
    ("mode", "choice"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("function", {"type": "function", "name": "get_weather"}),
    ],
)
def test_a_tool_choice_is_sent_or_degraded_with_a_diagnostic(
    name: str, model: str, mode: str, choice: Any
) -> None:
    provider = configured(name)
    can = provider.capabilities(model)
    request: Document = {"tools": [TOOL, {**TOOL, "name": "other"}], "tool_choice": choice}
    if not can.tools and mode in ("required", "function"):
        with pytest.raises(InvalidRequest):
            make_request_plan(provider, model, **request)
        return
    body = encode_request(provider, model, **request)
    assert_well_formed(name, body)
    codes = [each.code for each in make_request_plan(provider, model, **request).diagnostics]
    weakened = "tool_choice.degraded" in codes
    if mode == "auto" or (mode in can.tool_choice and can.tools):
        assert not weakened
        is_same = body == encode_request(provider, model, **{**request, "tool_choice": "auto"})
        assert is_same is (mode == "auto")
    elif mode == "none":
        assert "get_weather" not in json.dumps(body)
    else:
        assert weakened


@every_model
def test_an_image_is_sent_or_replaced_by_text(name: str, model: str) -> None:
    provider = configured(name)
    content = [{"type": "input_text", "text": "look"}, IMAGE]
    request: Document = {"input": [{"role": "user", "content": content}]}
    text = json.dumps(encode_request(provider, model, **request))
    assert "look" in text
    sees = "image" in provider.capabilities(model).inputs
    assert ("AAAA" in text) is sees
    codes = [each.code for each in make_request_plan(provider, model, **request).diagnostics]
    assert codes == ([] if sees else ["history.image.replaced"])


@every_provider
def test_developer_messages_keep_their_position(name: str) -> None:
    provider = configured(name)
    messages = [("user", "first"), ("developer", "second"), ("user", "third")]
    body = encode_request(
        provider, input=[{"role": role, "content": text} for role, text in messages]
    )
    text = json.dumps(body)
    assert text.index("first") < text.index("second") < text.index("third")
    if provider.spec.dialect == "chat" and not quirks_of(provider).plain_dialogue:
        can = provider.capabilities(first_model(provider))
        role = "developer" if can.developer_role else "system"
        role = "user" if can.system_messages == "first" else role
        assert [message["role"] for message in body["messages"]] == ["user", role, "user"]


@every_chat_provider
def test_reasoning_is_replayed_as_configured(name: str) -> None:
    provider = configured(name)
    quirks = quirks_of(provider)
    if quirks.plain_dialogue:
        assert "Let me look." not in json.dumps(encode_request(provider, input=CALLED))
        return
    rule = provider.capabilities(first_model(provider)).replay_reasoning
    field = quirks.reasoning_field
    messages = [*CALLED[:2], {"role": "assistant", "content": "Rain."}]
    called = encode_request(provider, input=CALLED, tools=[TOOL])["messages"][1]
    plain = encode_request(provider, input=messages)["messages"][1]
    assert (field in called) is (rule != "never")
    assert (field in plain) is (rule == "always")
    forgotten = encode_request(provider, input=[CALLED[0], *CALLED[2:]], tools=[TOOL])["messages"][
        1
    ]
    assert (field in forgotten) is quirks.reasoning_required


def assert_well_formed(name: str, body: Document) -> None:
    judge = VALIDATORS[SPECS[name].dialect]
    found = {problem.rpartition(": ")[2] for problem in judge(json.dumps(body).encode())}
    assert found <= DEVIATIONS.get(name, set())


@every_model
@table("stream", [False, True], ids=["whole", "streamed"])
def test_a_request_with_everything_is_valid_for_the_dialect(
    name: str, model: str, stream: bool
) -> None:
    provider = configured(name, web_search="ignore")
    request = {
        key: value
        for key, value in full_request.FULL.items()
        if key not in {"model", "stream"} and not (key in ROWS and ROWS[key].rule is Rule.REJECT)
    }
    if not provider.capabilities(model).tools:
        del request["tool_choice"]  # requires a tool choice
    request |= {"input": full_request.SERVABLE_ITEMS, "hosted_tools": IGNORE}
    assert_well_formed(name, encode_request(provider, model, stream=stream, **request))


@every_provider
def test_a_longer_history_only_appends_to_the_request(name: str) -> None:
    provider = configured(name)
    histories = [*CALLED, {"role": "assistant", "content": "Rain."}, CALLED[0]]
    bodies = [encode_request(provider, input=histories[:size], tools=[TOOL]) for size in (1, 6)]
    short, long = (json.dumps(body).removesuffix("]}") for body in bodies)
    assert long.startswith(short)


def test_echo_answers_every_request() -> None:
    provider = configured("echo")
    for model, stream, choice in product(
        provider.models(), (False, True), ("auto", "none", "required")
    ):
        request: Document = {"input": full_request.SERVABLE_ITEMS, "tools": full_request.TOOLS}
        request["hosted_tools"] = IGNORE
        body = encode_request(provider, model, stream=stream, tool_choice=choice, **request)
        answered = echo.respond(json.dumps(body).encode())
        assert answered.chunks


# --- answers --------------------------------------------------------------------------------------


def read(provider: Provider, body: bytes) -> list[Delta]:
    framer, decoder = provider.dialect.framer(), provider.dialect.decoder()
    frames = [*framer.feed(body), *framer.close()]
    return [*(delta for frame in frames for delta in decoder.feed(frame)), *decoder.close()]


def gist(found: list[Delta]) -> Document:
    """Summarize deltas independently of chunk boundaries."""
    calls = [delta for delta in found if isinstance(delta, ToolCall)]
    usage = [delta for delta in found if isinstance(delta, Usage)][-1]
    return {
        "reasoning": "".join(delta.text for delta in found if isinstance(delta, Reasoning)),
        "text": "".join(delta.text for delta in found if isinstance(delta, Text)),
        "call": ("".join(call.name or "" for call in calls), arguments(calls)),
        "finish": [delta.reason for delta in found if isinstance(delta, Finish)],
        "usage": (usage.input_tokens, usage.cached_tokens, usage.output_tokens),
        "failures": [delta for delta in found if isinstance(delta, Failure)],
    }


def arguments(calls: list[ToolCall]) -> Any:
    return json.loads("".join(call.arguments for call in calls) or "null")


@every_provider
def test_a_streamed_and_a_whole_answer_are_read_alike(name: str) -> None:
    provider = configured(name)
    streamed = gist(read(provider, STREAMED[name]))
    assert streamed == gist(provider.dialect.decode(WHOLE[name]))
    assert len(streamed["finish"]) == 1
    assert map_finish_reason(streamed["finish"][0]).status == "completed"
    assert streamed["failures"] == []
    if name != "echo":  # its text depends on the request
        can = provider.capabilities(first_model(provider))
        thinks = can.tools  # providers without tools send no reasoning either
        assert streamed["reasoning"] == ("Let me see." if thinks else "")
        assert streamed["text"] == "Rain."
        assert streamed["call"] == (("get_weather", {"city": "Ulm"}) if thinks else ("", None))
        assert streamed["usage"] == (10, 0 if name == "ollama" else 4, 8)


@every_provider
def test_known_errors_are_classified(name: str) -> None:
    provider = configured(name)
    for status, body, kind in ERRORS[name]:
        if status == 200:
            decoded = provider.dialect.decode(body)
            [fault] = [delta.fault for delta in decoded if isinstance(delta, Failure)]
        else:
            fault = provider.dialect.classify(status, {}, body)
        assert kind in fault.type, (status, body)
        assert provider.dialect.describe(fault, "en")


SYSTEM_MESSAGES = {
    "after_user": "mistral",
    "first": "fireworks huggingface llamacpp lmstudio nvidia ollama qwen sglang together vllm",
    "anywhere": """
    anthropic azure bedrock cerebras chat cohere deepseek echo gemini github groq minimax moonshot
    openai openrouter perplexity responses vertex xai xiaomi zhipu
    """,  # for Anthropic, Bedrock, Gemini, Vertex and Perplexity the dialect itself places them
}


def test_every_provider_states_where_it_accepts_system_messages() -> None:
    stated = {name: where for where, names in SYSTEM_MESSAGES.items() for name in names.split()}
    found = {
        name: {can.system_messages for can in (spec.capabilities, *_model_capabilities(spec))}
        for name, spec in SPECS.items()
    }
    assert found == {name: {where} for name, where in stated.items()}


def _model_capabilities(spec: Spec) -> list[Capabilities]:
    return [model.capabilities for model in spec.models if model.capabilities is not None]


THREAD = [
    {"role": "developer", "content": "one"},
    {"role": "user", "content": "two"},
    {"role": "developer", "content": "three"},
    {"role": "assistant", "content": "four"},
    {"role": "developer", "content": "five"},
    {"role": "user", "content": "six"},
    {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "seven"},
    {"role": "developer", "content": "eight"},
]


@every_provider
def test_no_message_moves_ahead_of_an_earlier_one(name: str) -> None:
    tools = [{"type": "function", "name": "look", "parameters": {}}]
    text = json.dumps(encode_request(configured(name), input=THREAD, tools=tools))
    words = "one two three four five six seven eight".split()
    assert sorted(words, key=text.rindex) == words


def test_a_server_of_open_models_gets_one_system_message_before_all_others() -> None:
    body = encode_request(configured("vllm"), input=THREAD[:6], instructions="zero")
    assert [(each["role"], each["content"]) for each in body["messages"]] == [
        ("system", "zero\n\none"),
        ("user", "two"),
        ("user", "<system>\nthree\n</system>"),
        ("assistant", "four"),
        ("user", "<system>\nfive\n</system>"),
        ("user", "six"),
    ]
