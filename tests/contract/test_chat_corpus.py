"""Chat Completions recordings: streams that end without a finish reason."""

from __future__ import annotations

import pytest

from tests.support.corpus import ABSENT, Case, cases
from tests.support.recordings import events_of, every, final, streams
from tests.support.reference_readers.chat import read

CASES = cases("chat")

pytestmark = pytest.mark.skipif(not CASES, reason=ABSENT)


@every(case for case in CASES if read(case.data).status == "failed")
def test_a_failure_says_what_went_wrong(case: Case) -> None:
    message = final(events_of(case))["error"]["message"]
    assert message
    if not read(case.data).error:
        assert message == "The provider returned no finish reason. Send the request again."


def test_the_corpus_covers_every_case() -> None:
    """A guard against a corpus that has shrunk until it proves nothing."""
    assert any(read(case.data).finish is None for case in streams(CASES))
    assert any(read(case.data).error for case in streams(CASES))
