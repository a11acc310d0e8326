"""Capsules: sealed state is restored for its provider and model, and for no other."""

from __future__ import annotations

import base64
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.history.capsule import Capsule, Sealer, Unopened
from antiphon.core.stream.deltas import ReasoningState

STATES = (ReasoningState("signed.block", {"type": "thinking", "signature": "c2ln"}, "block"),)


def sealer(*keys: str, at: int = 1000, ttl_s: int | None = None) -> Sealer:
    nonces = count(1)
    return Sealer(
        keys or ("a key",),
        new_nonce=lambda size: next(nonces).to_bytes(size, "big"),
        now=lambda: at,
        ttl_s=ttl_s,
    )


def sealed(by: Sealer | None = None) -> str:
    return (by or sealer()).seal("somebody", "a-model", STATES, "Let me think.")


def test_a_sealed_capsule_opens_with_its_full_content() -> None:
    assert sealer().open(sealed()) == Capsule(
        issuer="somebody", model="a-model", sealed_at=1000, text="Let me think.", states=STATES
    )


def test_a_sealed_capsule_reveals_none_of_its_content() -> None:
    text = sealed()
    assert text.startswith("ap1.")
    inside = base64.urlsafe_b64decode(text[4:])
    assert b"think" not in inside
    assert b"somebody" not in inside


def test_sealing_the_same_state_twice_gives_different_capsules() -> None:
    one = sealer()
    assert sealed(one) != sealed(one)


def test_an_old_key_still_opens_what_it_sealed() -> None:
    text = sealed(sealer("old"))
    rotated = sealer("new", "old")
    assert isinstance(rotated.open(text), Capsule)
    assert sealer("new").open(sealed(rotated)) == rotated.open(sealed(rotated))


def test_a_capsule_of_a_removed_key_reports_an_unknown_key() -> None:
    assert sealer("new").open(sealed(sealer("old"))) is Unopened.UNKNOWN_KEY


@pytest.mark.parametrize("text", ["", "gAAAAABo-another-server", "rs_123", "ap2.AAAA"])
def test_encrypted_content_of_another_server_is_foreign(text: str) -> None:
    assert sealer().open(text) is Unopened.FOREIGN


@pytest.mark.parametrize("broken", ["ap1.!!", "ap1.é", "ap1.QUJD=A"])
def test_invalid_base64_is_reported_as_tampered(broken: str) -> None:
    assert sealer().open(broken) is Unopened.TAMPERED


@given(place=st.integers(0, 400), change=st.integers(1, 255))
def test_a_modified_capsule_cannot_be_opened(place: int, change: int) -> None:
    data = bytearray(base64.urlsafe_b64decode(sealed()[4:]))
    data[place % len(data)] ^= change
    assert isinstance(sealer().open("ap1." + base64.urlsafe_b64encode(data).decode()), Unopened)


@given(length=st.integers(0, 180))
def test_a_truncated_capsule_cannot_be_opened(length: int) -> None:
    data = base64.urlsafe_b64decode(sealed()[4:])[:length]
    opened = sealer().open("ap1." + base64.urlsafe_b64encode(data).decode())
    assert opened in (Unopened.TAMPERED, Unopened.UNKNOWN_KEY)


def test_a_capsule_expires_after_its_ttl() -> None:
    text = sealed(sealer(at=1000))
    assert isinstance(sealer(at=1100, ttl_s=100).open(text), Capsule)
    assert sealer(at=1101, ttl_s=100).open(text) is Unopened.EXPIRED


@given(text=st.text(), value=st.dictionaries(st.text(), st.text() | st.integers()))
def test_any_state_survives_sealing_and_opening(text: str, value: dict[str, str | int]) -> None:
    states = (ReasoningState("any", value, "turn"),)
    capsule = sealer().open(sealer().seal("a", "b", states, text))
    assert isinstance(capsule, Capsule)
    assert (capsule.text, capsule.states) == (text, states)
