"""Fault kinds: every row is complete, and every type and scope has a row."""

from __future__ import annotations

from antiphon.core.faults.kinds import ERROR_CODES, FAULT_KINDS, FaultKind, FaultType, Scope


def test_every_row_has_a_known_public_code_and_an_http_error() -> None:
    assert {row.public_code for row in FAULT_KINDS.values()} <= ERROR_CODES
    assert all(400 <= row.http_status <= 599 for row in FAULT_KINDS.values())


def test_every_type_and_every_scope_is_used() -> None:
    assert {row.type for row in FAULT_KINDS.values()} == set(FaultType)
    assert {row.scope for row in FAULT_KINDS.values()} == set(Scope)


def test_every_kind_has_a_row() -> None:
    assert FAULT_KINDS.keys() == set(FaultKind)
