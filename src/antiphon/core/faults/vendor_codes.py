"""Vendors' error codes, error numbers and error phrases, and the fault kinds they stand for.

All of it is dated vendor knowledge (2026), kept as data. Three kinds of evidence, best first:
`CAUSES` are codes that say why a request failed; `STATUS_NAMES` are codes that only repeat an HTTP
status and stand in for a missing one; `PHRASES` are read last, and only to refine a vague kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from antiphon.core.faults.kinds import FaultKind

# Where a code was found. A number means nothing outside the field its vendor puts it in.
NAMED_CODE = "name"
ERROR_NUMBER = "error.code"  # four digits in a string, as in {"error": {"code": "1302"}}: Zhipu
BASE_NUMBER = "base_resp"  # {"base_resp": {"status_code": 1008}}: MiniMax

_CAUSE_CODES: Mapping[FaultKind, str] = {
    FaultKind.RATE_LIMIT: """
        throttling throttled throttling_error throttling_exception request_limit_exceeded
        limit_requests limit_burst_rate service_quota_exceeded_exception rate_limit_reached_error
        """,
    FaultKind.BILLING: """
        insufficient_quota insufficient_user_quota insufficient_balance insufficient_balance_error
        insufficient_credits insufficient_funds billing_hard_limit_reached billing_disabled
        billing_not_active credit_balance_exhausted credit_balance_too_low arrearage
        exceeded_current_quota_error usage_limit_reached usage_not_included
        prepaid_bill_overdue postpaid_bill_overdue commodity_not_purchased account_overdue_error
        token_quota_reached blocked_api_access account_quota_exceeded not_enough_balance
        go_usage_limit_error credits_error customer_verification_required
        """,
    FaultKind.MODEL_QUOTA: """
        set_limit_exceeded allocation_quota.free_tier_only free_usage_limit_error
        """,
    FaultKind.AUTH: """
        invalid_api_key api_key_invalid incorrect_api_key incorrect_api_key_error missing_api_key
        api_key_expired invalid_authentication invalid_authentication_error authorized_error
        invalid_token token_expired expired_token expired_token_exception account_deactivated
        unrecognized_client_exception invalid_signature_exception incomplete_signature_exception
        missing_authentication_token_exception
        """,
    FaultKind.PERMISSION: """
        unsupported_country_region_territory service_disabled consumer_suspended model_access_denied
        access_denied_unpurchased api_key_service_blocked model_not_open
        organization_restricted model_terms_required no_available_model_endpoints
        """,
    FaultKind.MODEL: """
        model_not_found model_not_exist model_not_supported model_not_available model_deprecated
        model_decommissioned invalid_model invalid_model_error unknown_model unsupported_model
        deployment_not_found endpoint_not_found invalid_endpoint_or_model unavailable_model
        unsupported_api_for_model
        """,
    FaultKind.INVALID_IMAGE: """
        invalid_image invalid_image_format invalid_base64_image invalid_image_url image_too_large
        image_too_small image_parse_error invalid_image_mode image_file_too_large
        unsupported_image_media_type empty_image_file failed_to_download_image image_file_not_found
        """,
    FaultKind.REASONING_REJECTED: "invalid_encrypted_content missing_thought_signature",
    FaultKind.CONTEXT_LENGTH: """
        context_length_exceeded context_window_exceeded context_limit_exceeded
        model_context_window_exceeded exceed_context_size_error too_many_tokens
        too_many_prompt_tokens tokens_too_long prompt_too_long request_too_large
        """,
    FaultKind.CONTENT_BLOCKED: """
        content_filter content_filtered content_blocked content_policy_violation
        responsible_ai_policy_violation data_inspection_failed moderation_blocked
        image_content_policy_violation cyber_policy bio_policy misalignment_policy_violation
        sensitive_check_error input_text_sensitive_content_detected
        output_text_sensitive_content_detected input_image_sensitive_content_detected
        """,
    FaultKind.OVERLOADED: """
        engine_overloaded engine_overloaded_error server_is_overloaded server_overloaded slow_down
        capacity_exceeded service_tier_capacity_exceeded insufficient_system_resource
        model_not_ready_exception model_capacity_exhausted queue_exceeded
        """,
    FaultKind.TOOL_USE_FAILED: """
        tool_use_failed malformed_function_call malformed_response unexpected_tool_call
        too_many_tool_calls
        """,
}

_STATUS_NAME_CODES: Mapping[FaultKind, str] = {
    FaultKind.INVALID_REQUEST: """
        invalid_request invalid_request_error bad_request bad_request_error invalid_argument
        failed_precondition out_of_range validation_error validation_exception invalid_parameter
        invalid_parameter_error invalid_prompt invalid_value missing_required_parameter
        unknown_parameter unsupported_parameter unsupported_value unprocessable_entity
        unprocessable_entity_error data_residency_mismatch
        """,
    FaultKind.AUTH: "authentication_error unauthenticated unauthorized unauthorized_error",
    FaultKind.BILLING: "billing_error payment_required payment_required_error",
    FaultKind.PERMISSION: """
        permission_error permission_denied permission_denied_error forbidden access_denied
        access_denied_exception
        """,
    FaultKind.NOT_FOUND: """
        not_found not_found_error resource_not_found resource_not_found_error
        resource_not_found_exception
        """,
    FaultKind.RATE_LIMIT: """
        rate_limit rate_limit_error rate_limit_exceeded rate_limited too_many_requests
        too_many_requests_error too_many_requests_exception resource_exhausted
        """,
    FaultKind.UPSTREAM_TIMEOUT: """
        timeout timeout_error request_timeout gateway_timeout deadline_exceeded
        model_timeout_exception vector_store_timeout
        """,
    FaultKind.OVERLOADED: """
        overloaded overloaded_error unavailable service_unavailable service_unavailable_error
        service_unavailable_exception
        """,
    FaultKind.SERVER_ERROR: """
        api_error server_error internal internal_error internal_failure internal_server_error
        internal_server_exception model_error_exception model_stream_error_exception upstream_error
        """,
}

_NUMBERS: Mapping[str, Mapping[FaultKind, str]] = {
    ERROR_NUMBER: {
        FaultKind.AUTH: "1000 1001 1002 1003 1004 1110 1111 1112 1121",
        FaultKind.BILLING: "1113 1308 1309 1310",
        FaultKind.PERMISSION: "1220 1311",
        FaultKind.MODEL: "1211",
        FaultKind.CONTEXT_LENGTH: "1261",
        FaultKind.CONTENT_BLOCKED: "1300 1301",
        FaultKind.RATE_LIMIT: "1302 1303 1304 1313",
        FaultKind.OVERLOADED: "1305 1312",
        FaultKind.INVALID_REQUEST: "1210 1212 1213 1214 1215 1231",
        FaultKind.NOT_FOUND: "1221 1222",
        FaultKind.SERVER_ERROR: "1100 1120 1200 1230 1234",
    },
    BASE_NUMBER: {
        FaultKind.AUTH: "1004 2049",
        FaultKind.BILLING: "1008 2056",
        FaultKind.RATE_LIMIT: "1002 1039 1041 2045",
        FaultKind.PERMISSION: "2061",
        FaultKind.CONTENT_BLOCKED: "1026 1027",
        FaultKind.UPSTREAM_TIMEOUT: "1001",
        FaultKind.INVALID_REQUEST: "1042 2013",
        FaultKind.SERVER_ERROR: "1000 1013 1024 1033",
    },
}

# Kinds without a cause ("bad request", "server error"): a status or a phrase may be more exact.
VAGUE = frozenset({FaultKind.INVALID_REQUEST, FaultKind.NOT_FOUND, FaultKind.SERVER_ERROR})


def fold(code: str) -> str:
    """Fold the spellings of a code into one.

    `InvalidApiKey`, `invalid_api_key`, `invalid-api-key` and `INVALID_API_KEY` are the same.
    AWS adds a namespace before `#` and an address after `:`.
    """
    bare = code.partition(":")[0].rpartition("#")[2]
    return "".join(char for char in bare.lower() if char.isascii() and char.isalnum())


def _index_by_code(kinds: Mapping[FaultKind, str]) -> dict[str, FaultKind]:
    return {fold(code): kind for kind, codes in kinds.items() for code in codes.split()}


CAUSES: Mapping[str, Mapping[str, FaultKind]] = {
    NAMED_CODE: _index_by_code(_CAUSE_CODES),
    **{
        location: _index_by_code(
            {kind: codes for kind, codes in kinds.items() if kind not in VAGUE}
        )
        for location, kinds in _NUMBERS.items()
    },
}
STATUS_NAMES: Mapping[str, Mapping[str, FaultKind]] = {
    NAMED_CODE: _index_by_code(_STATUS_NAME_CODES),
    **{
        location: _index_by_code({kind: codes for kind, codes in kinds.items() if kind in VAGUE})
        for location, kinds in _NUMBERS.items()
    },
}


def find_kinds(
    table: Mapping[str, Mapping[str, FaultKind]], codes: list[tuple[str, str]]
) -> Iterator[FaultKind]:
    """The kinds that these codes, each with its location, stand for in a table."""
    for location, code in codes:
        # `Throttling.RateQuota` is a kind of `Throttling`.
        for name in (code, code.partition(".")[0]):
            kind = table[location].get(fold(name))
            if kind is not None:
                yield kind
                break


class Phrase(Struct, frozen=True):
    """Wording in an error text that refines one of the `refines` kinds to `kind`.

    An `ambiguous` phrase is ignored when the provider also names a retry delay.
    """

    kind: FaultKind
    refines: frozenset[FaultKind]
    pattern: re.Pattern[str]
    ambiguous: bool = False

    def matches(self, kind: FaultKind, text: str, *, has_delay: bool) -> bool:
        if kind not in self.refines or (self.ambiguous and has_delay):
            return False
        return self.pattern.search(text) is not None


_BAD = frozenset({FaultKind.INVALID_REQUEST, FaultKind.API_ERROR, FaultKind.UNKNOWN})
_BAD_OR_FORBIDDEN = _BAD | {FaultKind.PERMISSION}
_ONLY_UNKNOWN = frozenset({FaultKind.UNKNOWN})


def _make_phrase(
    kind: FaultKind, refines: frozenset[FaultKind], *alternatives: str, ambiguous: bool = False
) -> Phrase:
    return Phrase(kind, refines, re.compile("|".join(alternatives), re.I | re.M), ambiguous)


# Each row was written for an error body that some vendor sends. No row looks for a number.
PHRASES = (
    _make_phrase(
        FaultKind.CONTENT_BLOCKED,
        _BAD_OR_FORBIDDEN,
        r"content (?:management|filtering|usage)? ?polic(?:y|ies)",
        r"usage (?:guidelines|polic(?:y|ies))",
        r"(?:input|prompt|request|content)\b[^\n]{0,20} flagged\b",
        r"(?:inappropriate|prohibited) content",
        r"blocked\b[^\n]{0,40}\b(?:safety|prohibited)",
        r"content exists risk",
        r"considered high risk",
        r"for safety reasons",
        r"data inspection|\bnew_sensitive\b",
        r"敏感内容|内容安全|违规内容",
    ),
    _make_phrase(
        FaultKind.REASONING_REJECTED,
        frozenset({FaultKind.INVALID_REQUEST, FaultKind.UNKNOWN}),
        r"encrypted_content|redacted_thinking|thought[_ ]?signature|reasoningContent",
        r"signature\W+in\W+thinking",
    ),
    _make_phrase(
        # Reasoning items that the server did not store, or without the item that must follow.
        FaultKind.REASONING_REJECTED,
        frozenset({FaultKind.INVALID_REQUEST, FaultKind.NOT_FOUND, FaultKind.UNKNOWN}),
        r"items are not persisted when",
        r"without its required (?:following item|\W?reasoning\W? item)",
    ),
    _make_phrase(
        FaultKind.INVALID_IMAGE,
        _BAD,
        r"could not process image|unable to process input image|image data is not valid",
        r"image exceeds [^\n]{0,12}\bmaximum|image dimensions exceed",
    ),
    _make_phrase(
        FaultKind.CONTEXT_LENGTH,
        _BAD | {FaultKind.SERVER_ERROR},
        r"max(?:imum)? (?:context|prompt|sequence|model) length",
        r"context[ _]length[ _]exceeded",
        r"(?:exceed\w*|longer than|larger than|too large for)\b[^\n]{0,80}"
        r"\bcontext (?:window|length|size|limit)",
        r"context (?:window|length|size|limit)\b[^\n]{0,20}\b(?:exceed\w*|full|reached)",
        r"exceed\w* (?:the )?(?:model|max\w*) (?:token limit|length)",
        r"\b(?:prompt|input|all messages|token length) (?:is )?too long",
        r"token count\b[^\n]{0,80}\bexceeds",
        r"inputs\W+tokens\W+\+|inputs\W+must have less than",
        r"input token count is\b|number of input tokens\b[^\n]{0,20}\bexceed",
        r"\b(?:prompt|input) length\b[^\n]{0,60}\b(?:exceeds|should not exceed)",
        r"must be less than (?:or equal to )?max_seq_len",
        r"total tokens of image and text exceed|max input (?:characters|tokens) is",
        r"greater than the context length|context length of only",
        r"range of input length",
        r"reduce the length of",
        r"too many (?:input )?tokens|prompt tokens too long",
        r"上下文.{0,12}(?:超|过长)|(?:超出|超过).{0,12}上下文|输入.{0,6}(?:超长|过长)",
    ),
    _make_phrase(
        # A limit of what one request may hold: a pause does not help, and shorter ones succeed.
        FaultKind.CONTEXT_LENGTH,
        frozenset({FaultKind.RATE_LIMIT}),
        r"required for long context requests",  # Anthropic, of a plan without paid usage
    ),
    _make_phrase(
        FaultKind.BILLING,
        _BAD_OR_FORBIDDEN | {FaultKind.RATE_LIMIT},
        r"insufficient (?:account )?(?:balance|credits?|funds|quota)",
        r"balance is (?:insufficient|too low|not enough)",
        r"(?:requires more|out of|no|all available|not enough) credits",
        r"n.t have any credits|credits are depleted",
        r"can only afford|billing hard limit|spending (?:limit|cap)|\bkey limit exceeded",
        r"\busage limit (?:for this|reached|exceeded)",
        r"reached your (?:[a-z]{1,10} )?usage limit",  # hourly, weekly, session: Ollama
        r"specified (?:workspace )?API usage limits|overdue balance|payment is past due",
        r"out of extra usage|draw from your extra usage",  # plans of Anthropic
        r"daily free allocation|API calls / month|(?:hour|week|month) allocated quota exceeded",
        r"free tier is not available|without a billing account",
        r"no resource package|please (?:recharge|top up)|in arrears",
        r"余额不足|欠费|请充值|资源包|使用上限",
    ),
    _make_phrase(
        FaultKind.BILLING, frozenset({FaultKind.SERVER_ERROR}), r"^insufficient balance\b"
    ),
    _make_phrase(
        FaultKind.MODEL_QUOTA,
        _BAD_OR_FORBIDDEN | {FaultKind.RATE_LIMIT},
        r"free (?:tier|trial)\b[^\n]{0,30}\bexhausted|exhausted its free|free-models-per-day",
        r"due to INVALID_PAYMENT_INSTRUMENT",  # Bedrock, whose own models need none
    ),
    _make_phrase(
        # Bedrock and Cerebras, each of one model. Groq says when tokens will be left.
        FaultKind.MODEL_QUOTA,
        frozenset({FaultKind.RATE_LIMIT}),
        r"too many tokens per day|tokens per day limit exceeded",
        ambiguous=True,
    ),
    _make_phrase(
        # Gemini uses the same words for its limits per minute, but then it names a delay.
        FaultKind.BILLING,
        _BAD_OR_FORBIDDEN | {FaultKind.RATE_LIMIT},
        r"exceeded your current quota",
        r"check your (?:plan and billing|billing) details",
        ambiguous=True,
    ),
    _make_phrase(
        FaultKind.AUTH,
        _BAD_OR_FORBIDDEN,
        # A quoted name is a field of the request, not the caller's API key.
        r"\b(?:invalid|incorrect|expired|missing|wrong|no|valid)\b[^\n\"'`]{0,24}\bapi[ _-]?key",
        r"\bapi[ _-]?key\b[^\n\"'`]{0,24}\b(?:invalid|incorrect|expired|missing|required|revoked"
        r"|leaked|disabled|not (?:valid|found))",
        r"unregistered callers|make sure your api key is valid|api key is currently blocked",
        r"bearer token has expired|oauth token has been revoked",
        r"(?:api ?key|令牌|密钥).{0,8}(?:无效|错误|过期)|身份验证失败",
    ),
    _make_phrase(
        FaultKind.PERMISSION,
        _BAD | {FaultKind.NOT_FOUND},
        r"(?:location|country|region)\b[^\n]{0,30}\bnot supported",
        r"not allowed from unsupported (?:countries|regions)",
        r"organization (?:has been disabled|must be verified to stream)",
        r"only authorized for use with|^operation not allowed\.?$",  # the latter: Bedrock
        r"data policy|all providers have been ignored|no allowed providers",
        r"use case details have not been submitted",  # Bedrock, for models of Anthropic
    ),
    _make_phrase(
        FaultKind.PERMISSION, frozenset({FaultKind.SERVER_ERROR}), r"token plan not support model"
    ),
    _make_phrase(
        FaultKind.MODEL,
        _BAD_OR_FORBIDDEN | {FaultKind.NOT_FOUND},
        # "model 'x' does not exist", "models/x is not found", "model version has reached its end".
        r"\bmodels?\b(?:[\s:/]{1,3}\S{1,200})?\s{1,9}(?:(?:is|was|has|been|does|could|can|be)\s+)*"
        r"(?:not\s+(?:be\s+)?(?:found|exist|available|supported)|doesn.t exist|no longer"
        r"|removed|deprecated|retired|decommissioned|reached (?:the|its) end)",
        r"\bmodel (?:identifier|id|name)\b[^\n]{0,80}(?:\b(?:in|not )valid|n.t supported)",
        r"\b(?:unsupported|invalid|unknown|unrecognized|no such) model\b",
        r"not a valid model",
        r"not found the model",
        r"no endpoints found for",
        r"allowed now, your model",
        r"does not work with the specified model",  # Azure
        r"^function '[^'\n]*': not found for account",  # NVIDIA, whose functions are its models
        r"^model: \S+$|^no models loaded",
        r"model is marked by provider as legacy|is not servable in region",
        r"model you requested is unavailable",  # Snowflake
        r"模型不存在",
    ),
    _make_phrase(
        # A router found the model, but no endpoint that supports these parameters.
        FaultKind.INVALID_REQUEST,
        frozenset({FaultKind.NOT_FOUND}),
        r"no endpoints found that (?:support|can handle)",
    ),
    _make_phrase(
        FaultKind.OVERLOADED,
        frozenset({FaultKind.RATE_LIMIT, FaultKind.SERVER_ERROR, FaultKind.UNKNOWN}),
        r"\boverloaded\b",
        r"\bat (?:maximum )?capacity\b|\bcapacity (?:temporarily )?exceeded|no capacity available",
        r"\bmodel busy\b|didn.t generate first token",
        r"(?:service|temporarily|currently) unavailable",
    ),
    _make_phrase(
        FaultKind.RATE_LIMIT,
        _ONLY_UNKNOWN,
        r"\brate[ _-]?limit",
        r"too many requests",
        r"\bthrottl",
    ),
    _make_phrase(
        FaultKind.UPSTREAM_TIMEOUT, _ONLY_UNKNOWN, r"\btime[d -]?\s?out\b", r"deadline exceeded"
    ),
    _make_phrase(FaultKind.BAD_GATEWAY, _ONLY_UNKNOWN, r"\bbad gateway\b"),
    _make_phrase(FaultKind.SERVER_ERROR, _ONLY_UNKNOWN, r"\binternal (?:server )?error\b"),
    _make_phrase(
        # Three servers that answer 400 when they fail themselves: NVIDIA, LM Studio, OpenRouter.
        FaultKind.SERVER_ERROR,
        _BAD,
        r"degraded function cannot be invoked|the model has crashed without additional information",
        r"^failed to load model\b|^no models provided\b",
    ),
    _make_phrase(
        # A router was found, but the server behind it failed.
        FaultKind.SERVER_ERROR,
        frozenset({FaultKind.NOT_FOUND}),
        r"^provider returned error$",
    ),
    _make_phrase(
        # Qwen calls a limit per minute `insufficient_quota`. No other row refines a cause.
        FaultKind.RATE_LIMIT,
        frozenset({FaultKind.BILLING}),
        r"error-code#token-limit|concurrency allocated quota exceeded",
    ),
)
