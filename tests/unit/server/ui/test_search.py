"""The search box: words, fields and durations."""

from __future__ import annotations

from antiphon.server.ui.search import MAX_WORDS, Search, parse_search
from tests.support.tables import table


@table(
    ("text", "found"),
    [
        ("", Search({}, ())),
        ("req_1A busy", Search({}, ("req_1a", "busy"))),
        ("model:a/b status:failed", Search({"model": "a/b", "status": "failed"}, ())),
        (
            'client:"two words" text:"Hello there"',
            Search({"client": "two words", "text": "Hello there"}, ()),
        ),
        (">2s <1.5m", Search({}, (), 2000, 90_000)),
        (">300ms", Search({}, (), 300)),
        (">2", Search({}, (), 2000)),
        ("http://x y:z", Search({}, ("http://x", "y:z"))),
        ('""', Search({}, ())),
        (">x", Search({}, (">x",))),
    ],
)
def test_a_search_is_read(text: str, found: Search) -> None:
    assert parse_search(text) == found


def test_the_number_of_words_is_bounded() -> None:
    assert len(parse_search("a " * 100).words) == MAX_WORDS
