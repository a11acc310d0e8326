"""Every recorded error of every protocol is classified as expected; no good answer is an error."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from antiphon.core.faults.classify import classify_document
from antiphon.core.faults.fault import ProviderFault
from antiphon.core.faults.messages import TEXTS, describe
from antiphon.dialects.dialect import resolve
from tests.support.corpus import ABSENT, Case, cases
from tests.support.tables import table

INVALID = ("invalid_request", "invalid_request", False, "request")
TOO_LONG = ("context_length", "context_length_exceeded", False, "request")
NO_MODEL = ("model_error", "model_not_found", False, "model")
BAD_KEY = ("auth", "invalid_api_key", False, "key")
NO_ROUTE = ("api_error", "not_found", False, "provider")
NO_QUOTA = ("billing", "insufficient_quota", False, "key")
BLOCKED = ("content_blocked", "content_filter", False, "content")
RATE_LIMIT = ("rate_limit", "rate_limit_exceeded", True, "key")
OVERLOADED = ("provider_overloaded", "overloaded", True, "provider")
SERVER_ERROR = ("api_error", "server_error", True, "provider")
BAD_GATEWAY = ("provider_overloaded", "bad_gateway", True, "provider")
BAD_CALL = ("api_error", "tool_use_failed", True, "model")

EXPECTED = {
    "anthropic/anthropic/error-400-claude-haiku-4-5-20251001-8ac38": INVALID,
    "anthropic/anthropic/error-400-stream-claude-haiku-4-5-20251001-88c5a": INVALID,
    "anthropic/anthropic/error-404-stream-claude-3-sonnet-20240229-c5c63": NO_MODEL,
    "anthropic/anthropic/error-404-stream-claude-4-5-haiku-290b9": NO_MODEL,
    "azure/chat/error-404-gpt-5-nano-8492f": NO_MODEL,
    "azure/chat/error-422-mai-ds-r1-b7d38": INVALID,
    "bedrock/bedrock/error-400-stream-does-not-exist-2a9ac": NO_MODEL,
    "bedrock/bedrock/error-400-us.anthropic.claude-sonnet-4-818db": INVALID,
    "bedrock/bedrock/error-404-anthropic.claude-3-5-sonnet-5d291": NO_MODEL,
    "bedrock/bedrock/error-503-us.anthropic.claude-opus-4-2-85442": OVERLOADED,
    "chatgpt/responses/error-401-stream-gpt-5.5-42f86": BAD_KEY,
    "cohere/cohere/error-400-command-a-03-2025-6f3c1": TOO_LONG,
    "cohere/cohere/error-404-command-r-plus-142be": NO_MODEL,
    "deepseek/chat/error-401-deepseek-chat-fea6d": BAD_KEY,
    "deepseek/responses/error-400-deepseek-v4-flash-a507f": INVALID,
    "gemini/gemini/error-400-gemini-2.5-flash-image-1cecd": INVALID,
    "gemini/gemini/error-403-gemini-2.0-flash-7b7ca": BAD_KEY,
    "gemini/gemini/error-404-stream-invalid-model-that-does-not-d7f8a": NO_MODEL,
    "groq/chat/error-400-llama-4-scout-17b-16e-instru-1bac1": BAD_CALL,
    "groq/chat/error-404-non-existent-8a753": NO_MODEL,
    "groq/chat/stream-in-stream-error-reasoning-gpt-oss-120b-4e732": BAD_CALL,
    "huggingface/chat/error-422-stream-gemma-2b-9b59f": INVALID,
    "hyperbolic/chat/error-400-unknown-6cdab": NO_MODEL,
    "hyperbolic/chat/error-422-meta-llama-3.1-405b-instruct-d8024": INVALID,
    "llamacpp/chat/error-500-qwen3-vl-2b-instruct-q8-0-7ce2f": SERVER_ERROR,
    "mistral/chat/error-400-mistral-does-not-exist-ad2a0": NO_MODEL,
    "mistral/chat/error-401-stream-unknown-da2c0": BAD_KEY,
    "mistral/chat/error-404-stream-unknown-3a7e4": NO_ROUTE,
    "ollama/chat/error-400-gpt-oss-120b-bd366": TOO_LONG,
    "ollama/ollama/error-404-nonexistent-model-latest-3ec30": NO_MODEL,
    "openai/chat/error-400-stream-unknown-8b69d": INVALID,
    "openai/chat/error-401-gpt-3.5-turbo-e37e7": BAD_KEY,
    "openai/chat/error-404-stream-gpt-3.5-turbo-0613-97e5b": NO_MODEL,
    "openai/responses/error-400-stream-gpt-4o-mini-22625": INVALID,
    "openai/responses/error-400-stream-gpt-5-codex-33fdb": INVALID,
    "openai/responses/error-401-gpt-4.1-51780": BAD_KEY,
    "openai/responses/error-429-unknown-50b30": NO_QUOTA,
    "openai/responses/stream-in-stream-error-gpt-4o-2024-08-06-81d50": RATE_LIMIT,
    "openrouter/chat/error-400-stream-gemma-3n-e4b-it-free-fbf66": INVALID,
    "openrouter/chat/error-403-grok-code-fast-1-bf955": BLOCKED,
    "openrouter/chat/error-404-stream-mistral-7b-instruct-free-e40bd": INVALID,
    "openrouter/chat/json-error-tool-calls-gemini-2.5-flash-lite-fdd42": BAD_GATEWAY,
    "openrouter/chat/stream-in-stream-error-llama-3.3-70b-instruct-free-ca477": BAD_GATEWAY,
    "openrouter/chat/stream-in-stream-error-tool-calls-gemini-2.5-flash-lite-8b506": BAD_GATEWAY,
    "perplexity/chat/error-400-sonar-3e504": TOO_LONG,
    "perplexity/chat/error-401-sonar-0f784": BAD_KEY,
    "venice/chat/error-404-venice-nonexistent-rig-test-202b4": NO_MODEL,
    "vertex/gemini/error-404-gemini-does-not-exist-8e7ac": NO_MODEL,
    "xai/chat/error-400-grok-code-fast-1-d437f": INVALID,
    "xai/responses/error-400-grok-4.3-315c0": BAD_KEY,
}

RECORDINGS = {case.id: case for case in cases()}

pytestmark = pytest.mark.skipif(not RECORDINGS, reason=ABSENT)


def is_error(case: Case) -> bool:
    return case.meta["http_status"] >= 400 or "error" in case.meta["features"]


def documents(case: Case) -> Iterator[dict[str, object]]:
    """The JSON objects of a successful answer."""
    if case.meta["wire"] == "sse":
        lines = [line[5:] for line in case.data.split(b"\n") if line.startswith(b"data:")]
    elif case.meta["wire"] == "ndjson":
        lines = case.data.split(b"\n")
    else:
        lines = [case.data] if case.meta["wire"] in {"json", "json-array"} else []
    for line in lines:
        if line.strip().startswith((b"{", b"[{")):
            document = json.loads(line)
            yield from document if isinstance(document, list) else [document]


def faults(case: Case) -> list[ProviderFault]:
    status = case.meta["http_status"]
    if status >= 400:
        classify = resolve(case.meta["protocol"]).classify
        header_sets: tuple[dict[str, str], ...] = (case.meta.get("response_headers") or {}, {})
        return [classify(status, headers, case.data) for headers in header_sets]
    found = (classify_document(document) for document in documents(case))
    return [fault for fault in found if fault is not None]


def test_every_recorded_error_has_been_judged() -> None:
    assert {case.id for case in RECORDINGS.values() if is_error(case)} == set(EXPECTED)


@table("case_id", sorted(EXPECTED))
def test_a_recorded_error_is_classified_as_judged(case_id: str) -> None:
    judged = {(f.type, f.code, f.retryable, f.scope) for f in faults(RECORDINGS[case_id])}
    assert judged == {EXPECTED[case_id]}


def test_no_healthy_recording_is_taken_for_an_error() -> None:
    healthy = [case for case in RECORDINGS.values() if not is_error(case)]
    assert healthy
    assert [case.id for case in healthy if faults(case)] == []


@table("case_id", sorted(EXPECTED))
def test_no_description_repeats_what_the_provider_wrote(case_id: str) -> None:
    for fault in faults(RECORDINGS[case_id]):
        # Four words in a row are a quotation; fewer may be plain language.
        words = fault.message.split()
        quotations = {" ".join(words[n : n + 4]) for n in range(max(1, len(words) - 3))}
        for locale in TEXTS:
            text = describe(fault, locale)
            assert not [quotation for quotation in quotations if quotation in text]
            assert "://" not in text
            assert "sk-" not in text
