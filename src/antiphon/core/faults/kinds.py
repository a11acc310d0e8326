"""Fault kinds: every kind of provider failure, with its type, scope, codes, status and cooldown.

A kind is Antiphon's own name for a failure and, as a rule, the `code` of the fault. `FAULT_KINDS`
has one row for each kind, `KIND_BY_STATUS` the kind that an HTTP status alone stands for. The names
that vendors use for these kinds are in `core.faults.vendor_codes`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct


class FaultType(StrEnum):
    """The family of a fault: descriptions and retry policies are chosen by it."""

    api_error = "api_error"
    rate_limit = "rate_limit"
    content_blocked = "content_blocked"
    timeout = "timeout"
    provider_overloaded = "provider_overloaded"
    auth = "auth"
    billing = "billing"
    permission = "permission"
    invalid_request = "invalid_request"
    model_error = "model_error"
    context_length = "context_length"
    protocol = "protocol"
    connection = "connection"
    cancelled = "cancelled"
    unknown = "unknown"


class Scope(StrEnum):
    """What a fault affects: change it, or let it cool down, before the next attempt."""

    key = "key"
    provider = "provider"
    model = "model"
    request = "request"
    content = "content"
    client = "client"


class FaultKind(StrEnum):
    """One kind of failure; the value is the default `code` of its faults."""

    CONNECTION_FAILED = "connection_failed"
    STREAM_CUT = "stream_cut"
    CONNECT_TIMEOUT = "connect_timeout"
    FIRST_TOKEN_TIMEOUT = "first_token_timeout"
    IDLE_TIMEOUT = "idle_timeout"
    TOTAL_TIMEOUT = "total_timeout"
    UPSTREAM_TIMEOUT = "upstream_timeout"
    RATE_LIMIT = "rate_limit_exceeded"
    BILLING = "insufficient_quota"
    MODEL_QUOTA = "model_quota_exhausted"
    AUTH = "invalid_api_key"
    PERMISSION = "permission_denied"
    MODEL = "model_not_found"
    NOT_FOUND = "not_found"
    INVALID_REQUEST = "invalid_request"
    INVALID_IMAGE = "invalid_image"
    REASONING_REJECTED = "reasoning_rejected"
    CONTEXT_LENGTH = "context_length_exceeded"
    CONTENT_BLOCKED = "content_filter"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    BAD_GATEWAY = "bad_gateway"
    REDIRECTED = "redirected"
    TOOL_USE_FAILED = "tool_use_failed"
    INVALID_CHUNK = "invalid_chunk"
    RESPONSE_TOO_LARGE = "response_too_large"
    CANCELLED = "cancelled"
    INTERNAL = "internal_error"
    SHUTDOWN = "shutting_down"
    OUT_OF_FILES = "out_of_files"
    OUT_OF_THREADS = "out_of_threads"
    MCP_LIST = "mcp_list_failed"
    API_ERROR = "api_error"
    UNKNOWN = "unknown"


class FaultKindRow(Struct, frozen=True):
    """The consequences of one fault kind.

    `retryable`: the same request to the same provider may succeed. `public_code`: the `error.code`
    of a failed response. `cooldown_s`: how long the scope is not used when the provider names no
    delay; infinite means until the configuration changes.
    """

    type: FaultType
    retryable: bool
    scope: Scope
    public_code: str
    http_status: int
    cooldown_s: float | None = None


_T = FaultType
_S = Scope
_K = FaultKind
_Row = FaultKindRow

FAULT_KINDS: Mapping[str, FaultKindRow] = {
    _K.CONNECTION_FAILED: _Row(_T.connection, True, _S.provider, "server_error", 502, 5.0),
    _K.STREAM_CUT: _Row(_T.connection, True, _S.provider, "server_error", 502, 5.0),
    _K.CONNECT_TIMEOUT: _Row(_T.timeout, True, _S.provider, "server_error", 504, 5.0),
    _K.FIRST_TOKEN_TIMEOUT: _Row(_T.timeout, True, _S.provider, "server_error", 504),
    _K.IDLE_TIMEOUT: _Row(_T.timeout, True, _S.provider, "server_error", 504),
    # The whole budget of the request is spent: there is nothing left to retry with.
    _K.TOTAL_TIMEOUT: _Row(_T.timeout, False, _S.provider, "server_error", 504),
    _K.UPSTREAM_TIMEOUT: _Row(_T.timeout, True, _S.provider, "server_error", 504),
    _K.RATE_LIMIT: _Row(_T.rate_limit, True, _S.key, "rate_limit_exceeded", 429, 60.0),
    _K.BILLING: _Row(_T.billing, False, _S.key, "insufficient_quota", 429, 3600.0),
    # The free quota of one model, the limit that the account has set for it, or the payment that it
    # lacks: others work.
    _K.MODEL_QUOTA: _Row(_T.billing, False, _S.key, "insufficient_quota", 429, 3600.0),
    _K.AUTH: _Row(_T.auth, False, _S.key, "server_error", 502, math.inf),
    _K.PERMISSION: _Row(_T.permission, False, _S.key, "server_error", 502, 300.0),
    _K.MODEL: _Row(_T.model_error, False, _S.model, "invalid_prompt", 404, 300.0),
    _K.NOT_FOUND: _Row(_T.api_error, False, _S.provider, "invalid_prompt", 404),
    _K.INVALID_REQUEST: _Row(_T.invalid_request, False, _S.request, "invalid_prompt", 400),
    _K.INVALID_IMAGE: _Row(_T.invalid_request, False, _S.request, "invalid_prompt", 400),
    # Retried once, without the state of earlier turns that the provider does not accept.
    _K.REASONING_REJECTED: _Row(_T.invalid_request, True, _S.request, "server_error", 400),
    _K.CONTEXT_LENGTH: _Row(_T.context_length, False, _S.request, "context_length_exceeded", 400),
    _K.CONTENT_BLOCKED: _Row(_T.content_blocked, False, _S.content, "invalid_prompt", 400),
    # Inside a stream an overload is `server_error`: Codex gives up on `server_is_overloaded`.
    _K.OVERLOADED: _Row(_T.provider_overloaded, True, _S.provider, "server_error", 503, 5.0),
    _K.SERVER_ERROR: _Row(_T.api_error, True, _S.provider, "server_error", 503, 5.0),
    _K.BAD_GATEWAY: _Row(_T.provider_overloaded, True, _S.provider, "server_error", 503, 5.0),
    # Never followed: the request would carry the API key to whatever address the response names.
    _K.REDIRECTED: _Row(_T.api_error, False, _S.provider, "invalid_prompt", 502),
    # The model wrote a call that its server could not parse; the next sample may be valid.
    _K.TOOL_USE_FAILED: _Row(_T.api_error, True, _S.model, "server_error", 502),
    _K.INVALID_CHUNK: _Row(_T.protocol, True, _S.provider, "server_error", 502),
    # Never retried at the same provider: the next response to the same request is as large.
    _K.RESPONSE_TOO_LARGE: _Row(_T.protocol, False, _S.provider, "server_error", 502),
    _K.CANCELLED: _Row(_T.cancelled, False, _S.client, "server_error", 499),
    _K.INTERNAL: _Row(_T.api_error, False, _S.request, "server_error", 500),
    _K.SHUTDOWN: _Row(_T.api_error, True, _S.request, "server_error", 503),
    # The gateway itself is at a limit of its system: no other key, and no other provider, helps.
    _K.OUT_OF_FILES: _Row(_T.api_error, True, _S.request, "server_error", 503),
    _K.OUT_OF_THREADS: _Row(_T.api_error, True, _S.request, "server_error", 503),
    # The status of the API for a server that it cannot list the tools of.
    _K.MCP_LIST: _Row(_T.api_error, False, _S.request, "server_error", 424),
    _K.API_ERROR: _Row(_T.api_error, False, _S.request, "invalid_prompt", 400),
    _K.UNKNOWN: _Row(_T.unknown, False, _S.provider, "server_error", 502),
}

# A status that is not here: 3xx are REDIRECTED, 4xx are API_ERROR, 5xx are SERVER_ERROR.
KIND_BY_STATUS: Mapping[int, FaultKind] = {
    400: FaultKind.INVALID_REQUEST,
    401: FaultKind.AUTH,
    402: FaultKind.BILLING,
    403: FaultKind.PERMISSION,
    404: FaultKind.NOT_FOUND,
    408: FaultKind.UPSTREAM_TIMEOUT,
    410: FaultKind.NOT_FOUND,
    413: FaultKind.CONTEXT_LENGTH,
    422: FaultKind.INVALID_REQUEST,
    424: FaultKind.SERVER_ERROR,  # Bedrock: the model behind the service failed
    429: FaultKind.RATE_LIMIT,
    434: FaultKind.PERMISSION,  # Zhipu: no access to this API
    451: FaultKind.CONTENT_BLOCKED,  # StepFun, and servers that must not answer for legal reasons
    498: FaultKind.CONTENT_BLOCKED,  # Cohere: an unsafe request
    499: FaultKind.SERVER_ERROR,  # Gemini and Cohere: cancelled, although the client still waits
    502: FaultKind.BAD_GATEWAY,
    503: FaultKind.OVERLOADED,
    504: FaultKind.UPSTREAM_TIMEOUT,
    520: FaultKind.BAD_GATEWAY,  # 520 to 524: Cloudflare, about the server behind it
    521: FaultKind.BAD_GATEWAY,
    522: FaultKind.UPSTREAM_TIMEOUT,
    523: FaultKind.BAD_GATEWAY,
    524: FaultKind.UPSTREAM_TIMEOUT,
    529: FaultKind.OVERLOADED,
}

# These statuses have one meaning, but for 401 with a code that says why: the account is used up.
# All others are refined by the codes and texts of the body.
UNAMBIGUOUS_STATUSES = frozenset({401, 402, 408, 413, 504, 522, 524})

# Codes of a failed response that clients know: the API's own, then those that Codex reads as well.
ERROR_CODES = frozenset(
    """
    server_error rate_limit_exceeded invalid_prompt data_residency_mismatch bio_policy
    misalignment_policy_violation vector_store_timeout invalid_image invalid_image_format
    invalid_base64_image invalid_image_url image_too_large image_too_small image_parse_error
    image_content_policy_violation invalid_image_mode image_file_too_large
    unsupported_image_media_type empty_image_file failed_to_download_image image_file_not_found
    context_length_exceeded insufficient_quota usage_not_included cyber_policy
    server_is_overloaded slow_down
    """.split()
)

# A provider's own code that is passed through as `public_code`: no row has a more exact one.
PASSED_THROUGH_CODES = (
    ERROR_CODES
    - {row.public_code for row in FAULT_KINDS.values()}
    - frozenset({"server_is_overloaded", "slow_down", "usage_not_included"})
)
