"""The common part of the filters for leaked markup: pieces of text and log probabilities."""

from __future__ import annotations

from antiphon.core.deltas import Delta, Reasoning, Refusal, Text
from antiphon.core.filters.filter import RoundEnd
from antiphon.core.filters.text_scan import Piece, PieceKind, TextScanFilter
from antiphon.core.filters.think_tags import ThinkTagFilter


class Letters(TextScanFilter):
    """Capital letters are reasoning, `-` is markup, and `?` waits for the next character."""

    held = ""

    def _is_plain(self, text: str) -> bool:
        return not self.held and text.isalpha() and text.islower()

    def _scan(self, fragment: str) -> list[Piece]:
        text, self.held = self.held + fragment, ""
        if text.endswith("?"):
            text, self.held = text[:-1], "?"
        return [(_kind(letter), letter) for letter in text]

    def _flush(self) -> list[Piece]:
        held, self.held = self.held, ""
        return [(PieceKind.TEXT, held)]


def _kind(letter: str) -> PieceKind:
    if letter == "-":
        return PieceKind.MARKUP
    return PieceKind.REASONING if letter.isupper() else PieceKind.TEXT


def run_filter(*deltas: Delta) -> list[Delta]:
    subject = ThinkTagFilter()
    passed = [out for delta in deltas for out in subject.feed(delta)]
    return [*passed, *subject.close(final=True).deltas]


def test_neighbouring_pieces_of_a_kind_are_one_delta_and_markup_is_removed() -> None:
    assert Letters().feed(Text("abCD-eF")) == [
        Text("ab"),
        Reasoning("CD"),
        Text("e"),
        Reasoning("F"),
    ]


def test_plain_text_passes_as_the_same_delta() -> None:
    plain = Text("abc", logprobs=({"token": "abc"},))
    assert Letters().feed(plain) == [plain]


def test_held_back_text_is_released_before_another_delta_and_at_the_end() -> None:
    subject = Letters()
    assert subject.feed(Text("a?")) == [Text("a")]
    assert subject.feed(Refusal("no")) == [Text("?"), Refusal("no")]
    assert subject.feed(Text("?")) == []
    assert subject.close(final=True) == RoundEnd([Text("?")])
    assert subject.close(final=True) == RoundEnd([])


def token(text: str) -> dict[str, object]:
    return {"token": text, "logprob": -1.0}


def test_log_probabilities_stay_with_their_text() -> None:
    first = Text("\n<x", logprobs=[token("\n"), token("<"), token("x")])
    second = Text("> a", logprobs=[token(">"), token(" a")])
    assert run_filter(first, second) == [
        Text("\n<x> a", (*first.logprobs, *second.logprobs)),
    ]


def test_log_probabilities_of_reasoning_and_tags_are_dropped() -> None:
    spelled = [token(part) for part in ("<think>", "a", "</think>", "b", "c")]
    assert run_filter(Text("<think>a</think>bc", logprobs=spelled)) == [
        Reasoning("a"),
        Text("bc", (token("b"), token("c"))),
    ]


def test_log_probabilities_that_do_not_spell_the_text_are_kept() -> None:
    odd = (token("something"), token("longer"))
    assert run_filter(Text(" a", logprobs=odd)) == [Text(" a", odd)]
