"""Typed errors: a failure of a provider as the exception class of its kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from antiphon.core.faults.kinds import FaultType
from antiphon.errors import (
    AuthenticationFailed,
    ContentBlocked,
    ContextTooLong,
    ModelNotFound,
    ProviderTimeout,
    ProviderUnavailable,
    QuotaExceeded,
    RateLimited,
    RequestRejected,
    UpstreamError,
)

_CLASSES: Mapping[FaultType, type[UpstreamError]] = {
    FaultType.rate_limit: RateLimited,
    FaultType.billing: QuotaExceeded,
    FaultType.auth: AuthenticationFailed,
    FaultType.permission: AuthenticationFailed,
    FaultType.invalid_request: RequestRejected,
    FaultType.model_error: ModelNotFound,
    FaultType.context_length: ContextTooLong,
    FaultType.content_blocked: ContentBlocked,
    FaultType.timeout: ProviderTimeout,
}


@contextmanager
def typed_errors() -> Iterator[None]:
    """Raise the class for the kind of fault instead of a plain `UpstreamError`."""
    try:
        yield
    except UpstreamError as error:
        raise _typed(error) from error.__cause__


def _typed(error: UpstreamError) -> UpstreamError:
    kind = _CLASSES.get(error.fault.type, ProviderUnavailable)
    code = error.fault.code
    message = error.description or code
    return kind(error.fault, error.description, error.provider, code=code, message=message)
