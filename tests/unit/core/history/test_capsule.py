"""Capsules: sealed state is restored for its provider and model, and for no other."""

from __future__ import annotations

import base64
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.deltas import ReasoningState
from antiphon.core.history.capsule import Capsule, Sealer, Unopened
from tests.support.tables import table

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
    return (by or sealer()).seal("alice", "somebody", "a-model", STATES, "Let me think.")


def test_a_sealed_capsule_opens_with_its_full_content() -> None:
    assert sealer().open("alice", sealed()) == Capsule(
        issuer="somebody", model="a-model", sealed_at=1000, text="Let me think.", states=STATES
    )


def test_a_sealed_capsule_reveals_none_of_its_content() -> None:
    text = sealed()
    assert text.startswith("ap2.")
    inside = base64.urlsafe_b64decode(text[4:])
    assert b"think" not in inside
    assert b"somebody" not in inside


def test_a_capsule_opens_only_for_its_owner() -> None:
    text = sealed()
    assert isinstance(sealer().open("alice", text), Capsule)
    for other in ("bob", "", "Alice", "alice ", "alic"):
        assert sealer().open(other, text) is Unopened.TAMPERED


def test_a_capsule_with_an_owner_cannot_pass_as_one_without() -> None:
    text = sealed().replace("ap2.", "ap1.", 1)
    assert sealer().open("alice", text) is Unopened.TAMPERED
    assert sealer().open("", text) is Unopened.TAMPERED


SEALED_BY_AN_EARLIER_VERSION = (
    "ap1.MAIiKAAAAAAAAAAAAAAAAQTF8N3Cy8plwjlUQVwOpb3g7qEgj7X-8CjBD-0nl4hBQbGFdlOh633oNaqf"
    "OvKpDw24Jg8z5Dx2wq8xTPJ0T_gulHjrfkHzJHhfOO5ivQ6R6E5SelcSmI4PSvCgHfcS2GBZk6Q0N4Q5mI4R"
    "fDG4Xkzrdq60xvO5wQVj_qEJKHSdwT5PizbAL6pGiaZ8f6zi3c1VYESbuT6tVCht5KeRiZrcTwPeZcbSCg=="
)


def test_a_capsule_of_an_earlier_version_opens_for_every_owner() -> None:
    for owner in ("alice", "bob"):
        assert sealer().open(owner, SEALED_BY_AN_EARLIER_VERSION) == Capsule(
            issuer="somebody", model="a-model", sealed_at=1000, text="Let me think.", states=STATES
        )


def test_sealing_the_same_state_twice_gives_different_capsules() -> None:
    one = sealer()
    assert sealed(one) != sealed(one)


def test_an_old_key_still_opens_what_it_sealed() -> None:
    text = sealed(sealer("old"))
    rotated = sealer("new", "old")
    assert isinstance(rotated.open("alice", text), Capsule)
    assert sealer("new").open("alice", sealed(rotated)) == rotated.open("alice", sealed(rotated))


def test_a_capsule_of_a_removed_key_reports_an_unknown_key() -> None:
    assert sealer("new").open("alice", sealed(sealer("old"))) is Unopened.UNKNOWN_KEY


@table("text", ["", "gAAAAABo-another-server", "rs_123", "ap3.AAAA"])
def test_encrypted_content_of_another_server_is_foreign(text: str) -> None:
    assert sealer().open("alice", text) is Unopened.FOREIGN


@table("broken", ["ap2.!!", "ap2.é", "ap2.QUJD=A"])
def test_invalid_base64_is_reported_as_tampered(broken: str) -> None:
    assert sealer().open("alice", broken) is Unopened.TAMPERED


@given(place=st.integers(0, 400), change=st.integers(1, 255))
def test_a_modified_capsule_cannot_be_opened(place: int, change: int) -> None:
    data = bytearray(base64.urlsafe_b64decode(sealed()[4:]))
    data[place % len(data)] ^= change
    assert isinstance(
        sealer().open("alice", "ap2." + base64.urlsafe_b64encode(data).decode()), Unopened
    )


@given(length=st.integers(0, 180))
def test_a_truncated_capsule_cannot_be_opened(length: int) -> None:
    data = base64.urlsafe_b64decode(sealed()[4:])[:length]
    opened = sealer().open("alice", "ap2." + base64.urlsafe_b64encode(data).decode())
    assert opened in (Unopened.TAMPERED, Unopened.UNKNOWN_KEY)


def test_a_capsule_expires_after_its_ttl() -> None:
    text = sealed(sealer(at=1000))
    assert isinstance(sealer(at=1100, ttl_s=100).open("alice", text), Capsule)
    assert sealer(at=1101, ttl_s=100).open("alice", text) is Unopened.EXPIRED


@given(text=st.text(), value=st.dictionaries(st.text(), st.text() | st.integers()))
def test_any_state_survives_sealing_and_opening(text: str, value: dict[str, str | int]) -> None:
    states = (ReasoningState("any", value, "turn"),)
    capsule = sealer().open("alice", sealer().seal("alice", "a", "b", states, text))
    assert isinstance(capsule, Capsule)
    assert (capsule.text, capsule.states) == (text, states)


def test_a_compacted_history_does_not_expire() -> None:
    states = (ReasoningState("compaction", {"summary": {}}),)
    text = sealer().seal("alice", "somebody", "a-model", states, "")
    assert isinstance(sealer(at=9999, ttl_s=100).open("alice", text), Capsule)
