"""Control characters made visible."""

from __future__ import annotations

from antiphon.stages.printable import printable, printable_fields
from antiphon.store.trace.rows import TraceError, TraceStream
from tests.support.tables import table


@table(
    ("text", "shown"),
    [
        ("deepseek-v4 é 😀", "deepseek-v4 é 😀"),
        ("\x1b[2J\x1b]0;owned\x07", "\\x1b[2J\\x1b]0;owned\\x07"),
        ("one\r\ntwo\ttabs", "one\\r\\ntwo\\ttabs"),
        ("\x9b31m \x7f", "\\x9b31m \\x7f"),
        ("a\u202eb\u2028c\ud800", "a\\u202eb\\u2028c\\ud800"),
    ],
)
def test_control_characters_are_shown_as_in_python_source(text: str, shown: str) -> None:
    assert printable(text) == shown
    printable(text).encode()


def test_characters_to_keep_stay() -> None:
    assert printable("one\ntwo\x1b", keep="\n") == "one\ntwo\\x1b"


def test_every_string_of_a_struct_is_made_printable_and_bytes_stay() -> None:
    error = TraceError(request_id="r", code="c\n", message="\x1b[31m")
    assert printable_fields(error) == TraceError(request_id="r", code="c\\n", message="\\x1b[31m")
    stream = TraceStream(request_id="r\x1b", kind="raw", blob=b"\x1b\n")
    assert printable_fields(stream).blob == b"\x1b\n"
    assert printable_fields(stream).request_id == "r\\x1b"
