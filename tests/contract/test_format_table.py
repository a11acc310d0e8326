"""Every recording in every client format: three judges see the same response.

docs/formats.md has the number of recordings by dialect and format, which is counted here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

import antiphon
from antiphon.core.events import Event
from antiphon.core.stream.source import Source
from antiphon.core.translation.translation import Translation
from antiphon.dialects.dialect import resolve
from antiphon.library.formats import Format
from tests.support import corpus
from tests.support.corpus import Case
from tests.support.format_judges import FORMATS, Seen
from tests.support.machines import machine
from tests.support.recordings import answers, every, streams

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
RECORDED = answers(corpus.cases())
NAMES: Mapping[str, Format] = {"responses": "responses", "messages": "messages", "chat": "chat"}


def events_of(case: Case) -> list[Event]:
    translation = Translation(
        machine(tools=(), empty_arguments="{}"), Source(resolve(case.meta["protocol"]))
    )
    if case not in streams([case]):
        return translation.feed_whole(case.data)
    return translation.feed(case.data) + translation.close()


def seen_in(format: Format, events: list[Event]) -> Seen:
    seen = FORMATS[format].see(200, antiphon.render(events, format))
    return seen._replace(reasoning=seen.reasoning.replace("\n\n", ""))


@pytest.mark.skipif(not RECORDED, reason=corpus.ABSENT)
@every(RECORDED)
def test_clients_of_all_formats_see_the_same_response(case: Case) -> None:
    events = events_of(case)
    seen = {name: seen_in(format, events) for name, format in NAMES.items()}
    assert seen["messages"] == seen["chat"] == seen["responses"]


@pytest.mark.skipif(not RECORDED, reason=corpus.ABSENT)
def test_the_page_has_the_number_of_recordings_by_dialect_and_format() -> None:
    rows = re.findall(
        r"^\| `?(\w+)`? \| (\d+) \| (\d+) \| (\d+) \|$", PAGE.read_text("utf-8"), re.M
    )
    counted = Counter(case.meta["protocol"] for case in RECORDED)
    counted["all"] = len(RECORDED)
    assert {name: {*map(int, numbers)} for name, *numbers in rows} == {
        name: {number} for name, number in counted.items()
    }
