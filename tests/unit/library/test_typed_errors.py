"""Unit tests of typed errors."""

from __future__ import annotations

import pytest

from antiphon import errors
from antiphon.core.faults.fault import fault_of_kind
from antiphon.core.faults.kinds import FaultKind
from antiphon.library.typed_errors import typed_errors
from tests.support.tables import table

CASES = [
    (FaultKind.RATE_LIMIT, errors.RateLimited),
    (FaultKind.BILLING, errors.QuotaExceeded),
    (FaultKind.AUTH, errors.AuthenticationFailed),
    (FaultKind.PERMISSION, errors.AuthenticationFailed),
    (FaultKind.INVALID_REQUEST, errors.RequestRejected),
    (FaultKind.MODEL, errors.ModelNotFound),
    (FaultKind.CONTEXT_LENGTH, errors.ContextTooLong),
    (FaultKind.CONTENT_BLOCKED, errors.ContentBlocked),
    (FaultKind.IDLE_TIMEOUT, errors.ProviderTimeout),
    (FaultKind.OVERLOADED, errors.ProviderUnavailable),
    (FaultKind.CONNECTION_FAILED, errors.ProviderUnavailable),
]


@table(("kind", "expected"), CASES)
def test_each_kind_of_fault_has_a_class(kind: FaultKind, expected: type[Exception]) -> None:
    with pytest.raises(expected) as caught, typed_errors():
        raise errors.UpstreamError(fault_of_kind(kind, "private text"), "public text", "acme")
    assert isinstance(caught.value, errors.UpstreamError)
    assert caught.value.message == str(caught.value) == "public text"
    assert caught.value.provider == "acme"
    assert caught.value.code == kind


def test_other_errors_pass() -> None:
    with pytest.raises(errors.InvalidRequest), typed_errors():
        raise errors.InvalidRequest("no")
