"""Whatever a provider is not sent has a diagnostic: for every model and every parameter.

A wish is a request and the same request without it. If the provider is sent the same bytes for
both, a diagnostic has to say so. Nothing here knows which provider takes what.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from antiphon.core.history.capsule import Unopened
from antiphon.core.plan.effort import EFFORTS
from antiphon.core.plan.plan import Plan
from antiphon.errors import InvalidRequest
from antiphon.providers.registry import SPECS, Provider
from tests.contract.test_providers import different_models
from tests.support.outbound_requests import CALLED, TOOL, Document, configured
from tests.support.plans import make_plan
from tests.support.request_body import parse_body
from tests.support.tables import table

every_model = table(
    ("name", "model"), [(name, model) for name in SPECS for model in different_models(name)]
)


def planned(provider: Provider, model: str, request: Mapping[str, Any]) -> Plan:
    return make_plan(
        parse_body(json.dumps({"model": "m", "input": "hello", **request}).encode()),
        [],
        provider=provider.name,
        model=model,
        capabilities=provider.capabilities(model),
        issuer="i",
        unseal=lambda _: Unopened.FOREIGN,
    )


def sent(provider: Provider, plan: Plan) -> bytes:
    return provider.dialect.encode(plan, stream=True).body


def diagnostics_of(plan: Plan, prefix: str = "") -> list[tuple[str, str]]:
    found = [(each.code, each.param) for each in plan.diagnostics]
    return [each for each in found if each[0].startswith(prefix)]


# --- parameters and tools -------------------------------------------------------------------------

SEARCH: Document = {"type": "web_search"}
LAX: Document = {**TOOL, "name": "lax", "parameters": {"type": "object", "properties": {}}}


def search(**fields: Any) -> Document:
    return {"tools": [{**SEARCH, **fields}]}


WISHES: dict[str, tuple[Document, Document]] = {
    **{f"temperature {value}": ({}, {"temperature": value}) for value in (0, 0.5, 2)},
    **{f"top_p {value}": ({}, {"top_p": value}) for value in (0.1, 0.5)},
    "top_p beside a temperature": ({"temperature": 0.5}, {"temperature": 0.5, "top_p": 0.5}),
    **{f"{each} tier": ({}, {"service_tier": each}) for each in ("flex", "priority", "scale")},
    "a penalty": ({}, {"presence_penalty": -1, "frequency_penalty": -1}),
    "a limit": ({}, {"max_output_tokens": 700}),
    **{
        f"a limit beside effort {effort}": (
            {"reasoning": {"effort": effort}},
            {"reasoning": {"effort": effort}, "max_output_tokens": 5000},
        )
        for effort in EFFORTS
    },
    "a temperature beside an effort": (
        {"reasoning": {"effort": "high"}},
        {"reasoning": {"effort": "high"}, "temperature": 0.5},
    ),
    "a search": ({}, {"tools": [SEARCH]}),
    "a search beside a tool": ({"tools": [TOOL]}, {"tools": [TOOL, SEARCH]}),
    "a tool beside a search": ({"tools": [SEARCH]}, {"tools": [SEARCH, TOOL]}),
    "a place": (search(), search(user_location={"type": "approximate", "city": "Bern"})),
    "a site": (search(), search(filters={"allowed_domains": ["a.test"]})),
    "a forbidden site": (search(), search(filters={"blocked_domains": ["a.test"]})),
    "no live access": (search(), search(external_web_access=False)),
    "a small context": (search(), search(search_context_size="low")),
    "a large context": (search(), search(search_context_size="high")),
    "strictness": ({"tools": [TOOL]}, {"tools": [{**TOOL, "strict": True}]}),
    "strictness without arguments": ({"tools": [LAX]}, {"tools": [{**LAX, "strict": True}]}),
    "a call": ({"tools": [TOOL]}, {"tools": [TOOL], "tool_choice": "required"}),
    "no call": ({"tools": [TOOL]}, {"tools": [TOOL], "tool_choice": "none"}),
}


@every_model
def test_every_parameter_is_sent_or_has_a_diagnostic(name: str, model: str) -> None:
    provider = configured(name)
    silent: list[str] = []
    for wish, requests in WISHES.items():
        try:
            without, with_it = (planned(provider, model, request) for request in requests)
        except InvalidRequest:  # which says so, too
            continue
        lost = sent(provider, without) == sent(provider, with_it)
        is_said = diagnostics_of(with_it) != diagnostics_of(without) or diagnostics_of(
            without, "tool.ignored"
        )
        if lost and not is_said:
            silent.append(wish)
    assert silent == []


USERS = ("me", "somebody", "x" * 200, "x" * 2000)


@every_model
def test_a_user_identifier_is_sent_in_full_or_has_a_diagnostic(name: str, model: str) -> None:
    provider = configured(name)
    for user in USERS:
        plan = planned(provider, model, {"user": user})
        if "user" in provider.capabilities(model).parameters:
            assert (f'"{user}"' in sent(provider, plan).decode()) is not bool(diagnostics_of(plan))
        else:
            assert diagnostics_of(plan) == []  # a label, which nobody misses


# --- thinking -------------------------------------------------------------------------------------

FORCED: Document = {"tools": [TOOL], "tool_choice": {"type": "function", "name": "get_weather"}}
BUDGET = re.compile(rb'udget\w*":(\d+)')
SITUATIONS: dict[str, Document] = {
    "a plain question": {},
    "a forced call": FORCED,
    "a turn that goes on": {"tools": [TOOL], "input": CALLED},
    "little room": {"max_output_tokens": 1500},
    "hardly any room": {"max_output_tokens": 16},
}


@every_model
def test_disabled_thinking_always_has_a_diagnostic(name: str, model: str) -> None:
    provider = configured(name)
    silent: list[str] = []
    for situation, request in SITUATIONS.items():
        if "tools" in request and not provider.capabilities(model).tools:
            continue
        calm = planned(provider, model, {**request, "reasoning": {"effort": "none"}})
        for effort in EFFORTS[2:] if not diagnostics_of(calm, "effort.") else ():
            plan = planned(provider, model, {**request, "reasoning": {"effort": effort}})
            if sent(provider, plan) == sent(provider, calm) and not diagnostics_of(plan, "effort."):
                silent.append(f"{situation}, {effort}")
    assert silent == []


@every_model
def test_a_reduced_budget_always_has_a_diagnostic(name: str, model: str) -> None:
    provider = configured(name)
    for effort in EFFORTS:
        request: Document = {"reasoning": {"effort": effort}}
        ample = planned(provider, model, request)
        scarce = planned(provider, model, {**request, "max_output_tokens": 4000})
        budgets = {str(BUDGET.findall(sent(provider, plan))) for plan in (ample, scarce)}
        assert len(budgets) == 1 or diagnostics_of(scarce, "effort.")


# --- media ----------------------------------------------------------------------------------------

PNG = "iVBORw0KGgo="
MARKER = re.compile(r"\[[^\[\]\"]* omitted: |\[[^\[\]\"]*: https?://")


def inline(media_type: str, content: bytes | str) -> str:
    payload = content if isinstance(content, str) else base64.b64encode(content).decode()
    return f"data:{media_type};base64,{payload}"


def image(url: str) -> Document:
    return {"type": "input_image", "image_url": url}


def file(**fields: str) -> Document:
    return {"type": "input_file", **fields}


def sound(form: str, data: str = "AAAA") -> Document:
    return {"type": "input_audio", "input_audio": {"data": data, "format": form}}


MEDIA: dict[str, Document] = {
    "a picture": image(inline("image/png", PNG)),
    "a picture in capitals": image(f"data:IMAGE/PNG;BASE64,{PNG}"),
    "a photograph": image(inline("image/jpg", b"\xff\xd8\xff\xe0")),
    "a picture of no type": image(inline("", PNG)),
    "a picture of no known kind": image(inline("", b"??")),
    "a drawing": image(inline("image/svg+xml", b"<svg/>")),
    "a bitmap": image(inline("image/bmp", b"BM")),
    "a paper as a picture": image(inline("application/pdf", b"%PDF-1.7")),
    "a broken picture": image("data:image/png;base64,***"),
    "an empty picture": image("data:image/png;base64,"),
    "a picture in plain": image("data:image/svg+xml,%3Csvg/%3E"),
    "a linked picture": image("https://a.test/a.png"),
    "a linked picture without an ending": image("http://a.test/a"),
    "a picture in a bucket": image("s3://bucket/a.png"),
    "a picture in a bad bucket": image("s3://B/a.png"),
    "a picture nowhere": image("file:///a.png"),
    "a paper": file(filename="a.pdf", file_data=inline("application/pdf", b"%PDF-1.7")),
    "a paper of no type": file(filename="a.pdf", file_data=inline("", b"paper")),
    "a bare paper": file(file_data=base64.b64encode(b"%PDF-1.7").decode()),
    "a program": file(filename="a.py", file_data=inline("text/x-python", b"print()")),
    "a text of no type": file(file_data=inline("application/octet-stream", b"words")),
    "an old text": file(filename="a.txt", file_data=inline("text/plain", b"gr\xfcn")),
    "a text without words": file(filename="a.txt", file_data=inline("text/plain", b" \n")),
    "a letter": file(filename="a.docx", file_data=inline("", b"PK\x03\x04")),
    "an archive": file(filename="a.zip", file_data=inline("application/zip", b"PK\x03\x04")),
    "a broken file": file(filename="a.pdf", file_data="data:application/pdf;base64,?"),
    "a picture as a file": file(filename="a.png", file_data=inline("image/png", PNG)),
    "a film": file(filename="a.mp4", file_data=inline("video/mp4", b"\0\0")),
    "a linked paper": file(file_url="https://a.test/a.pdf"),
    "a linked thing": file(file_url="https://a.test/a"),
    "a kept file": file(file_id="file-123"),
    "a file that Google keeps": file(file_id="files/abc"),
    "a song": sound("mp3"),
    "an odd song": sound("midi"),
    "a broken song": sound("mp3", "*"),
}


def places(part: Document) -> Iterator[list[Document]]:
    """The same part in a message and in a tool output."""
    yield [{"role": "user", "content": [{"type": "input_text", "text": "See:"}, part]}]
    yield [*CALLED[:-1], {"type": "function_call_output", "call_id": "call_1", "output": [part]}]


@every_model
def test_media_are_sent_or_have_a_diagnostic(name: str, model: str) -> None:
    provider = configured(name)
    silent: list[str] = []
    for kind, part in MEDIA.items():
        for items in places(part):
            plan = planned(provider, model, {"input": items, "tools": [TOOL]})
            replaced = [
                code for code, _ in diagnostics_of(plan, "history.") if code.endswith(".replaced")
            ]
            if len(MARKER.findall(sent(provider, plan).decode())) != len(replaced):
                silent.append(kind)
    assert silent == []
