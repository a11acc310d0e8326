"""Vendors' error codes and wording: what refines a kind, and what must not change it."""

from __future__ import annotations

import json

import pytest

from antiphon.core.faults.classify import classify, classify_document
from antiphon.core.faults.fault import ProviderFault, cooldown_s
from tests.support.tables import table


def answer(status: int | None, document: object = None, **headers: str) -> ProviderFault:
    body = b"" if document is None else json.dumps(document).encode()
    return classify(status, {name.replace("_", "-"): v for name, v in headers.items()}, body)


def saying(status: int | None, message: str) -> ProviderFault:
    return answer(status, {"error": {"message": message}})


def coded(status: int | None, code: object) -> ProviderFault:
    return answer(status, {"error": {"message": "no", "code": code}})


# --- vendors' codes -------------------------------------------------------------------------------


@table(
    ("codes", "kind"),
    [
        ("1000 1001 1002 1003 1004", "auth"),
        ("1113 1308 1309 1310", "billing"),
        ("1210 1213 1214 1215", "invalid_request"),
        ("1211", "model_error"),
        ("1222", "api_error"),
        ("1234", "api_error"),
        ("1261", "context_length"),
        ("1301", "content_blocked"),
        ("1302 1303 1313", "rate_limit"),
        ("1305 1312", "provider_overloaded"),
        ("1311", "permission"),
        ("4321", "unknown"),
    ],
)
def test_four_digit_error_codes_have_their_own_meaning(codes: str, kind: str) -> None:
    assert {coded(None, code).type for code in codes.split()} == {kind}


def test_four_digit_codes_count_only_as_strings_in_the_error_object() -> None:
    assert coded(429, "1113").type == "billing"
    assert coded(429, 1113).type == "rate_limit"
    assert answer(429, {"message": "m", "code": "1113"}).type == "rate_limit"
    assert answer(429, {"error": {"type": "1113"}}).type == "rate_limit"


@table(
    ("number", "kind", "retryable"),
    [
        (1000, "api_error", True),
        (1001, "timeout", True),
        (1002, "rate_limit", True),
        (1004, "auth", False),
        (1008, "billing", False),
        (1013, "api_error", True),
        (1026, "content_blocked", False),
        (1027, "content_blocked", False),
        (1039, "rate_limit", True),
        (2013, "invalid_request", False),
        (2049, "auth", False),
        (2061, "permission", False),
        (7777, "unknown", False),
    ],
)
def test_an_error_in_base_resp_is_a_fault_although_the_status_is_200(
    number: int, kind: str, retryable: bool
) -> None:
    document = {"base_resp": {"status_code": number, "status_msg": "no"}}
    fault = answer(200, document)
    assert (fault.type, fault.retryable, fault.message) == (kind, retryable, "no")
    inside = classify_document(document)
    assert inside is not None
    assert inside.type == kind


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("invalid params, context window exceeds limit (2013)", "context_length"),
        ("invalid params, tools[0] (2013)", "invalid_request"),
    ],
)
def test_wording_refines_a_vague_number(message: str, kind: str) -> None:
    base = {"status_code": 2013, "status_msg": message}
    assert answer(200, {"base_resp": base}).type == kind


@table(
    ("status", "code", "kind"),
    [
        (400, "InvalidApiKey", "auth"),
        (400, "invalid-api-key", "auth"),
        (400, "INVALID_API_KEY", "auth"),
        (400, "Arrearage", "billing"),
        (400, "DataInspectionFailed", "content_blocked"),
        (429, "Throttling.AllocationQuota", "rate_limit"),
        (403, "AccessDenied.Unpurchased", "permission"),
        (500, "InternalError.Algo", "api_error"),
        (403, "Model.AccessDenied", "permission"),
        (429, "exceeded_current_quota_error", "billing"),
        (429, "engine_overloaded_error", "provider_overloaded"),
        (503, "model_not_found", "model_error"),
        (400, "invalid_encrypted_content", "invalid_request"),
        (403, "AccountOverdueError", "billing"),
        (403, "AllocationQuota.FreeTierOnly", "billing"),
        (429, "SetLimitExceeded", "billing"),
        (403, "token_quota_reached", "billing"),
        (400, "blocked_api_access", "billing"),
        (429, "AccountQuotaExceeded", "billing"),
        (403, "NOT_ENOUGH_BALANCE", "billing"),
        (403, "customer_verification_required", "billing"),
        (429, "FreeUsageLimitError", "billing"),
        (429, "GoUsageLimitError", "billing"),
        (404, "InvalidEndpointOrModel.NotFound", "model_error"),
        (404, "ModelNotOpen", "permission"),
        (400, "organization_restricted", "permission"),
        (400, "model_terms_required", "permission"),
        (400, "no_available_model_endpoints", "permission"),
        (400, "unavailable_model", "model_error"),
        (400, "unsupported_api_for_model", "model_error"),
        (400, "InputTextSensitiveContentDetected", "content_blocked"),
        (429, "ServerOverloaded", "provider_overloaded"),
        (429, "MODEL_CAPACITY_EXHAUSTED", "provider_overloaded"),
        (429, "queue_exceeded", "provider_overloaded"),
        (429, "token_quota_exceeded", "rate_limit"),
        # A 400 that is really something else; a vague word changes nothing.
        (400, "rate_limit_error", "rate_limit"),
        (400, "authentication_error", "auth"),
        (403, "rate_limit_exceeded", "rate_limit"),
        (400, "api_error", "invalid_request"),
        (404, "invalid_request_error", "api_error"),
        (500, "invalid_request_error", "api_error"),
        (429, "invalid_request_error", "rate_limit"),
        # Some statuses leave nothing to refine.
        (401, "rate_limit_exceeded", "auth"),
        (402, "rate_limit_exceeded", "billing"),
        (413, "rate_limit_exceeded", "context_length"),
        (504, "model_not_found", "timeout"),
    ],
)
def test_a_code_refines_what_the_status_leaves_open(status: int, code: str, kind: str) -> None:
    assert coded(status, code).type == kind


# --- wording --------------------------------------------------------------------------------------


@table(
    ("status", "message", "kind"),
    [
        (400, "This model's maximum context length is 65536 tokens.", "context_length"),
        (400, "Your request exceeded model token limit : 262144", "context_length"),
        (400, "Range of input length should be [1, 30720]", "context_length"),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", "context_length"),
        (400, "The input token count (12) exceeds the maximum number of tokens", "context_length"),
        (400, "Input is too long for requested model.", "context_length"),
        (400, "the request exceeds the available context size", "context_length"),
        (400, "输入内容过长", "context_length"),
        (500, "context_length_exceeded", "context_length"),
        (
            400,
            "length of prompt_tokens (90000) must be less than max_seq_len (65536)",
            "context_length",
        ),
        (400, "Too many input tokens. Max input tokens: 8192.", "context_length"),
        (422, "Input validation error: `inputs` must have less than 4096 tokens", "context_length"),
        (400, "the number of input tokens 9000 cannot exceed the limit 8192", "context_length"),
        (400, "Prompt length (9000) exceeds maximum input length (4096)", "context_length"),
        (
            400,
            "the sum of prompt length (9), query length (0) should not exceed 8",
            "context_length",
        ),
        (400, "the input token count is 9000 but the model supports up to 8192", "context_length"),
        (400, "Total tokens of image and text exceed max message tokens", "context_length"),
        (400, "the max input characters is 20000", "context_length"),
        (
            400,
            "tokens to keep from the prompt is greater than the context length",
            "context_length",
        ),
        (400, "You have reached your specified API usage limits.", "billing"),
        (403, "Your account has an overdue balance.", "billing"),
        (429, "you have used up your daily free allocation of 10,000 neurons", "billing"),
        (429, "Your account has exhausted its free trial quota", "billing"),
        (429, "Capacity temporarily exceeded, please try again.", "provider_overloaded"),
        (429, "Service tier capacity exceeded for this model.", "provider_overloaded"),
        (429, "No capacity available for model acme-x on the server", "provider_overloaded"),
        (429, "Infrastructure is at maximum capacity, try again later", "provider_overloaded"),
        (429, "Model busy, retry later", "provider_overloaded"),
        (
            429,
            "Request didn't generate first token before the given deadline",
            "provider_overloaded",
        ),
        (400, "Function id '12-ab': DEGRADED function cannot be invoked", "api_error"),
        (400, "The model has crashed without additional information.", "api_error"),
        (429, "Extra usage is required for long context requests.", "context_length"),
        (429, "Usage credits are required for long context requests.", "context_length"),
        (400, "Your credit balance is too low to access the API.", "billing"),
        (403, "You've reached your usage limit for this billing cycle", "billing"),
        (429, "Your project has exceeded its monthly spending cap.", "billing"),
        (400, "Gemini API free tier is not available in your country.", "billing"),
        (
            400,
            "User location is not supported for the API use without a billing account linked.",
            "billing",
        ),
        (400, "You're out of extra usage. Add more and keep going.", "billing"),
        (
            400,
            "Third-party apps now draw from your extra usage, not your plan limits.",
            "billing",
        ),
        (400, "You have reached your specified workspace API usage limits.", "billing"),
        (429, "you've reached your hourly usage limit, please wait or upgrade", "billing"),
        (429, "you (acme) have reached your weekly usage limit, upgrade", "billing"),
        (429, "usage limit exceeded, 5-hour usage limit reached (2056)", "billing"),
        (429, "[1308][Usage limit reached for 5 hour. It will reset][x]", "billing"),
        (429, "[1308][已达到 5 小时的使用上限]", "billing"),
        (
            429,
            "You are using a Trial key, which is limited to 1000 API calls / month.",
            "billing",
        ),
        (403, "Key limit exceeded (total limit).", "billing"),
        (403, "your subscription payment is past due. update your payment method", "billing"),
        (429, "week allocated quota exceeded", "billing"),
        (429, "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock", "billing"),
        (500, "insufficient balance (1008)", "billing"),
        (429, "账户余额不足，请充值", "billing"),
        (403, "Your newly created team doesn't have any credits yet.", "billing"),
        (429, "Your prepayment credits are depleted. Please go to AI Studio.", "billing"),
        (404, "Function '12-ab': Not found for account 'x-y'", "model_error"),
        (400, "The operation does not work with the specified model, acme-x.", "model_error"),
        (404, "Model use case details have not been submitted for this account.", "permission"),
        (429, "You exceeded your current quota, please check your plan", "billing"),
        (429, "The engine is currently overloaded, please try again later", "provider_overloaded"),
        (400, "API key not valid. Please pass a valid API key.", "auth"),
        (403, "Your API key was reported as leaked.", "auth"),
        (403, "Authentication failed: Please make sure your API Key is valid.", "auth"),
        (403, "Bearer Token has expired", "auth"),
        (403, "OAuth token has been revoked. Please obtain a new token.", "auth"),
        (403, "API key is currently blocked: Blocked due to API key leak", "auth"),
        (400, "Model Not Exist", "model_error"),
        (400, "acme/x is not a valid model ID", "model_error"),
        (404, "No endpoints found for acme/x.", "model_error"),
        (404, "Access denied. This Model is marked by provider as Legacy", "model_error"),
        (400, "Publisher Model `projects/p/x` is not servable in region r.", "model_error"),
        (400, "No models loaded. Please load a model in the developer page", "model_error"),
        (400, "The model you requested is unavailable in your region.", "model_error"),
        (404, "Not found the model acme-x or Permission denied", "model_error"),
        (404, "No endpoints found that support tool use.", "invalid_request"),
        (404, "No endpoints found matching your data policy", "permission"),
        (400, "User location is not supported for the API use.", "permission"),
        (400, "Access to the models is not allowed from unsupported countries.", "permission"),
        (400, "This organization has been disabled.", "permission"),
        (400, "Operation not allowed", "permission"),
        (400, "This credential is only authorized for use with Acme Code", "permission"),
        (400, "Your organization must be verified to stream this model.", "permission"),
        (404, "All providers have been ignored. To change your settings", "permission"),
        (404, "No allowed providers are available for the selected model.", "permission"),
        (500, "your current token plan not support model, acme-x (2061)", "permission"),
        (400, "Content Exists Risk", "content_blocked"),
        (400, "Output blocked by content filtering policy", "content_blocked"),
        (403, "acme/x requires moderation. Your input was flagged", "content_blocked"),
        (422, "input new_sensitive (1026)", "content_blocked"),
        (None, "The prompt was blocked due to SAFETY", "content_blocked"),
        (400, "Function call is missing a thought_signature", "invalid_request"),
        (None, "Rate limit reached for requests", "rate_limit"),
        (None, "The request timed out", "timeout"),
        (None, "Bad Gateway", "provider_overloaded"),
        (None, "Internal server error", "api_error"),
        (None, "Service unavailable", "provider_overloaded"),
        (None, "something odd", "unknown"),
    ],
)
def test_wording_refines_a_vague_kind(status: int | None, message: str, kind: str) -> None:
    assert saying(status, message).type == kind


@table(
    ("status", "message", "kind"),
    [
        # No number in a message is a status, and no part of a word is a word.
        (None, "Used 14000 tokens of 429 at 503", "unknown"),
        (None, "limit 400/min for generateContent", "unknown"),
        (404, "method generateContent of 429 in version 401", "api_error"),
        (500, "upstream said 400", "api_error"),
        # Words that look like another kind.
        (400, "content must be a string", "invalid_request"),
        (403, "Sorry, you have been blocked", "permission"),
        (400, "Model x does not support parameter y.", "invalid_request"),
        (400, "'max_tokens' is not supported with this model", "invalid_request"),
        (400, "JSON mode is not enabled for models/x", "invalid_request"),
        (400, "you must provide a model parameter", "invalid_request"),
        (400, "max_tokens must be less than 8192", "invalid_request"),
        (400, "the length of `input` must not exceed 2048 items", "invalid_request"),
        (400, "Invalid schema for 'api_key': expected string", "invalid_request"),
        (400, "tools: the organization has disabled web search", "invalid_request"),
        (400, "tools[0]: operation not allowed in this mode", "invalid_request"),
        # A parameter that can be left out.
        (400, "Your organization must be verified to generate summaries.", "invalid_request"),
        (404, "function lookup is not found", "api_error"),
        (400, "The `reasoning_content` must be passed back to the API", "invalid_request"),
        # A firm kind is never changed by wording.
        (401, "insufficient balance", "auth"),
        (429, "maximum context length", "rate_limit"),
        (429, "Too many tokens, please wait before trying again.", "rate_limit"),
        (429, "Your key is limited to 20 API calls / minute.", "rate_limit"),
        (
            429,
            "Request too large for o on tokens per min (TPM): Limit 1, Requested 30.",
            "rate_limit",
        ),
        (429, "Rate limit exceeded: free-models-per-min.", "rate_limit"),
        (429, "Tokens per minute limit exceeded - too many tokens processed.", "rate_limit"),
        (429, "Tokens per day limit exceeded. Please try again in 9m38s.", "rate_limit"),
        (500, "the balance of the load is insufficient", "api_error"),
        (503, "invalid api key", "provider_overloaded"),
        (404, "prompt is too long", "api_error"),
    ],
)
def test_wording_does_not_change_a_definite_kind(
    status: int | None, message: str, kind: str
) -> None:
    assert saying(status, message).type == kind


@table(
    "message",
    [
        "Could not process image",
        "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 9 bytes > 5 bytes",
        "At least one of the image dimensions exceed max allowed size: 8000 pixels",
        "Unable to process input image. Please retry or report",
        "Provided image data is not valid",
    ],
)
def test_an_image_that_cannot_be_read_is_told_from_other_invalid_requests(message: str) -> None:
    assert saying(400, message).code == "invalid_image"
    assert saying(400, "`image_url` must be an object").code == "invalid_request"


@table("code", ["insufficient_quota", "CreditsError"])
def test_a_code_for_a_used_up_account_counts_although_the_status_rejects_the_key(code: str) -> None:
    fault = answer(401, {"error": {"message": "no", "type": code}})
    assert (fault.code, cooldown_s(fault)) == ("insufficient_quota", 3600.0)


@table(
    "fault",
    [
        saying(429, "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock"),
        coded(429, "FreeUsageLimitError"),
        saying(429, "Too many tokens per day, please wait before trying again."),
        saying(429, "Tokens per day limit exceeded - too many tokens processed."),
        saying(403, "Model access is denied due to INVALID_PAYMENT_INSTRUMENT:A valid payment"),
    ],
    ids=["OpenRouter", "OpenCode", "a day at Bedrock", "a day at Cerebras", "no card at Bedrock"],
)
def test_a_key_that_is_barred_from_some_models_may_serve_others(fault: ProviderFault) -> None:
    assert fault.code == "model_quota_exhausted"


@table(
    "message",
    [
        "DEGRADED function cannot be invoked",
        "The model has crashed without additional information",
        'Failed to load model "acme-x". Error: Operation canceled.',
        "No models provided",
    ],
)
def test_a_server_that_failed_although_it_blames_the_request_is_tried_again(message: str) -> None:
    fault = saying(400, message)
    assert (fault.code, fault.retryable, fault.scope) == ("server_error", True, "provider")


@table(
    ("raw", "code"),
    [("", "server_error"), ("404 page", "server_error"), ("model not found", "model_not_found")],
)
def test_a_404_from_behind_a_router_is_no_wrong_address_of_the_router(raw: str, code: str) -> None:
    metadata = {"raw": raw, "provider_name": "Acme"}
    error = {"message": "Provider returned error", "code": 404, "metadata": metadata}
    assert answer(404, {"error": error}).code == code


@table(
    ("message", "kind"),
    [
        ("You exceeded your current quota. See https://x/error-code#token-limit", "rate_limit"),
        ("concurrency allocated quota exceeded", "rate_limit"),
        ("hour allocated quota exceeded", "billing"),
        ("You exceeded your current quota, please check your plan", "billing"),
        ("Too many requests", "billing"),
    ],
)
def test_a_limit_per_minute_counts_although_its_code_says_that_the_account_is_used_up(
    message: str, kind: str
) -> None:
    error = {"message": message, "type": "insufficient_quota", "code": "insufficient_quota"}
    assert answer(429, {"error": error}).type == kind


def test_an_exceeded_quota_with_a_retry_delay_is_a_rate_limit() -> None:
    error: dict[str, object] = {"code": 429, "status": "RESOURCE_EXHAUSTED"}
    error["message"] = (
        "You exceeded your current quota, please check your plan and billing details."
    )
    assert answer(429, {"error": error}).type == "billing"
    fault = answer(429, {"error": error | {"details": [{"retryDelay": "37s"}]}})
    assert (fault.type, fault.retry_after_s) == ("rate_limit", 37.0)
    assert answer(429, {"error": {"message": "insufficient balance"}}, retry_after="9").type == (
        "billing"
    )


def test_echoed_request_text_is_not_read_as_an_error() -> None:
    document = {
        "error": {"message": "no", "failed_generation": "prompt is too long", "type": "x"},
        "metadata": {"reason": "invalid_api_key"},
        "input": "insufficient balance",
    }
    assert answer(400, document).type == "invalid_request"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Item 'rs_1' of type 'reasoning' was provided without its required following item."),
        (400, "Item 'fc_1' was provided without its required 'reasoning' item: 'rs_1'."),
        (404, "Item with id 'rs_1' not found. Items are not persisted when `store` is false."),
        (400, "Could not decrypt the provided encrypted_content."),
    ],
)
def test_rejected_reasoning_is_retryable(status: int, message: str) -> None:
    fault = answer(status, {"error": {"message": message, "type": "invalid_request_error"}})
    assert (fault.code, fault.retryable) == ("reasoning_rejected", True)
