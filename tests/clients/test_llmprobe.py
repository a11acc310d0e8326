"""llmprobe, a suite for inference engines: whatever it says MUST be, is, for the Responses API.

It asks in its own words, so the model behind the gateway is one that knows its questions.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from antiphon.providers.sample import sample
from tests.support.clients.gateway import KEY, MODEL, client_gateway
from tests.support.clients.installed import node_command
from tests.support.clients.provider_requests import Document, ProviderRequest
from tests.support.clients.scenario import Client
from tests.support.clients.scripted_model import Call, Dialect, ErrorReply, Reply, Step

LLMPROBE = Client("llmprobe", "npm:llmprobe")
UNSUPPORTED = {
    "responses-mcp-tools",  # llmprobe never asks
    "responses-rate-limit-headers",  # the provider has none to pass on
    "responses-reasoning-roundtrip",  # llmprobe asks only where there is Chat Completions
}
"""What is not there to be checked, so that nothing MUST be; all else has to pass."""


@LLMPROBE.does("all MUST assertions")
async def test_every_required_probe_passes(tmp_path: Path, dialect: Dialect) -> None:
    async with client_gateway(tmp_path, dialect, model_of(dialect)) as setup:
        argv = [node_command("llmprobe"), setup.base_url, "-k", KEY, "-m", MODEL]
        saved = tmp_path / "report.json"  # standard output is cut at the size of a pipe
        argv += ["--full", "--no-bench", "--no-save", "--save", str(saved)]
        await setup.run(argv, limit_s=180.0)
        report = json.loads(saved.read_bytes())["conformance"]
    found = [each for each in report["results"] if each["surface"] == "responses"]
    failures = [each for result in found for each in result["failures"]]
    assert [each for each in failures if each["severity"] == "MUST"] == []
    assert len(found) > 30
    assert {each["id"] for each in found if each["outcome"] != "pass"} == UNSUPPORTED


def model_of(dialect: Dialect) -> Callable[[ProviderRequest], Step]:
    """A model that answers the prompts of the suite."""

    def model(request: ProviderRequest) -> Step:
        question = request.text_of_role("user")
        if "long essay" in question:
            return whole(dialect, "The sea is", is_cut=True)
        if "at length" in question:
            return whole(dialect, "", "Light is scattered.", is_cut=True)
        if len(request.text_of_role("system")) > 1000:  # it may be sent again
            return whole(dialect, "Hi.", cached=1000)
        if request.schema:
            return Reply(json.dumps(sample(request.schema, "Ada")))
        if may_call(request):
            return Reply(calls=calls(request))
        if "JSON object" in question:
            return Reply('{"name": "Ada", "age": 36}')
        return Reply("Ada says hello.", thought="Hm." if may_think(request) else "")

    return model


def may_think(request: ProviderRequest) -> bool:
    """Only where requested: llmprobe does not know the events `response.reasoning_text.*`."""
    silent = (
        '"reasoning_effort": "none"',
        '"thinking": {"type": "disabled"}',
        '"thinkingLevel": "minimal"',
    )
    allowed = not any(each in request.text for each in silent)
    return allowed and "Think it through" in request.text_of_role("user")


def may_call(request: ProviderRequest) -> bool:
    return bool(request.tools) and not request.results and '"none"' not in request.text.lower()


def calls(request: ProviderRequest) -> list[Call]:
    """All tools at once, if that is allowed."""
    alone = ('"parallel_tool_calls": false', '"disable_parallel_tool_use": true')
    names = list(request.tools)[: 1 if any(each in request.text for each in alone) else None]
    return [Call(name, sample(request.tools[name], "Ada")) for name in names]


def whole(
    dialect: Dialect, text: str, thought: str = "", *, is_cut: bool = False, cached: int = 0
) -> ErrorReply:
    """A whole answer that was truncated, or has cached input tokens."""
    asked = 9 + cached
    body: Document
    if dialect == "chat":
        message = {"role": "assistant", "content": text, "reasoning_content": thought}
        finish = "length" if is_cut else "stop"
        choice = {"index": 0, "message": message, "finish_reason": finish}
        usage = {"prompt_tokens": asked, "completion_tokens": 1, "total_tokens": asked + 1}
        details = {"prompt_tokens_details": {"cached_tokens": cached}}
        body = {"id": "c", "model": "m", "choices": [choice], "usage": {**usage, **details}}
    elif dialect == "anthropic":
        thinking = {"type": "thinking", "thinking": thought, "signature": "signed"}
        content = [thinking] if thought else [{"type": "text", "text": text}]
        stop = "max_tokens" if is_cut else "end_turn"
        usage = {"input_tokens": 9, "cache_read_input_tokens": cached, "output_tokens": 1}
        body = {"type": "message", "id": "m", "role": "assistant", "model": "m", "usage": usage}
        body |= {"content": content, "stop_reason": stop, "stop_sequence": None}
    else:
        part = {"text": thought, "thought": True} if thought else {"text": text}
        finish = "MAX_TOKENS" if is_cut else "STOP"
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": finish}
        usage = {"promptTokenCount": asked, "candidatesTokenCount": 1}
        usage |= {"totalTokenCount": asked + 1, "cachedContentTokenCount": cached}
        body = {"candidates": [candidate], "modelVersion": "m", "usageMetadata": usage}
    return ErrorReply(200, body)
