"""Incremental JSON reading, rule by rule."""

from __future__ import annotations

from antiphon.core.stream.json_field import FieldState, JSONProgress, JSONStringField, is_json
from tests.support.tables import table


def read(*fragments: str, name: str = "input") -> tuple[str, FieldState]:
    field = JSONStringField(name)
    return "".join([field.feed(fragment) for fragment in fragments]), field.state


def value(inside: str) -> str:
    """What `inside` decodes to, the same whole and letter by letter."""
    whole = f'{{"input":"{inside}"}}'
    text, state = read(whole)
    assert state is FieldState.CLOSED
    assert read(*whole) == (text, state)
    return text


# --- the string field --------------------------------------------------------------------------


def test_text_is_decoded_as_it_arrives() -> None:
    field = JSONStringField("input")
    fragments = ['{"in', 'put": ', '"', "*** Beg", 'in\\nsay \\"hi\\"', '"}', "x"]
    assert [field.feed(f) for f in fragments] == ["", "", "", "*** Beg", 'in\nsay "hi"', "", ""]


def test_the_state_follows_the_text() -> None:
    field = JSONStringField("input")
    states = []
    for fragment in ("", " {", '"input"', " : ", '"', "a", '\\"', '"', "}"):
        field.feed(fragment)
        states.append(field.state.value)
    assert states == ["pending"] * 4 + ["open"] * 3 + ["closed"] * 2


def test_white_space_is_allowed_wherever_json_allows_it() -> None:
    whole = ' \t\r\n{ \t\r\n"input" \t\r\n: \t\r\n"a b" \t\r\n}'
    assert read(whole) == read(*whole) == ("a b", FieldState.CLOSED)


def test_what_follows_the_string_is_ignored() -> None:
    assert read('{"input":"a","input":"b"') == ("a", FieldState.CLOSED)
    assert read('{"input":"a"', ',"more":"b"}', "}}]") == ("a", FieldState.CLOSED)


def test_an_empty_string_opens_and_closes() -> None:
    assert read('{"input":""}') == ("", FieldState.CLOSED)


def test_the_field_may_have_any_name() -> None:
    assert read('{"patch":"a"}', name="patch") == ("a", FieldState.CLOSED)
    assert read('{"":"a"}', name="") == ("a", FieldState.CLOSED)
    assert read('{"say \\"hi\\"":"a"}', name='say "hi"') == ("a", FieldState.CLOSED)


def test_a_key_may_contain_escapes() -> None:
    whole = '{"\\u0069n\\u0070ut":"a"}'
    assert read(whole) == read(*whole) == ("a", FieldState.CLOSED)


@table(
    "whole",
    [
        "input",
        '"input"',
        '["input"]',
        "{}",
        "{input",
        '{"inpux',
        '{"in"',
        '{"inputs"',
        '{"":',
        '{"other":"a"}',
        '{"input","a"}',
        '{"input":7}',
        '{"input":null}',
        '{"input":["a"]}',
        '{"input":{"input":"a"}}',
        "\ufeff{",
        "\xa0{",
    ],
)
def test_text_that_does_not_open_with_the_key_is_a_mismatch_for_good(whole: str) -> None:
    for fragments in ([whole], list(whole)):
        assert read(*fragments, '{"input":"a"}') == ("", FieldState.MISMATCH)


def test_a_wrong_key_is_detected_before_it_ends() -> None:
    assert read('{"inx') == ("", FieldState.MISMATCH)
    assert read('{"in') == ("", FieldState.PENDING)


@table(
    ("inside", "text"),
    [
        (r"\"\\\/\b\f\n\r\t", '"\\/\b\f\n\r\t'),
        (r"\u00e9\u00E9\u4f60\u0000", "éé你\0"),
        (r"\ud83d\ude00 \uD83D\uDE00", "😀 😀"),
        (r"\udbff\udfff\ud800\udc00", "\U0010ffff\U00010000"),
        (r"\uDBFF\uDFFF\uDABC\uDDEF", "\U0010ffff\U000bf1ef"),
        (r"\\u0041 \\n \\", "\\u0041 \\n \\"),
    ],
)
def test_every_escape_is_decoded(inside: str, text: str) -> None:
    assert value(inside) == text


@table(
    ("inside", "text"),
    [
        (r"\ud83d", "\ufffd"),
        (r"\ude00", "\ufffd"),
        (r"\ud83d!", "\ufffd!"),
        (r"\ud83d\n", "\ufffd\n"),
        (r"\ud83d\q", "\ufffd\\q"),
        (r"\ud83d\u0041", "\ufffdA"),
        (r"\ud83d\ud83d\ude00", "\ufffd😀"),
        (r"\ude00\ud83d", "\ufffd\ufffd"),
        (r"\ud83d\ude0", "\ufffd\\ude0"),
        (r"\ud83d\udx", "\ufffd\\udx"),
    ],
)
def test_a_lone_surrogate_becomes_a_replacement_character(inside: str, text: str) -> None:
    assert value(inside) == text


@table("inside", [r"\q", r"\u", r"\u12", r"\u12g4", r"\U0041", r"\x41", "\\\n", r"\é"])
def test_an_invalid_escape_is_kept_as_it_is(inside: str) -> None:
    assert value(inside) == inside
    assert value(inside + "!") == inside + "!"


def test_raw_control_characters_are_kept() -> None:
    assert value("a\nb\tc\r\0\x7f\u2028") == "a\nb\tc\r\0\x7f\u2028"


def test_an_unfinished_escape_is_held_back_until_it_is_certain() -> None:
    field = JSONStringField("input")
    field.feed('{"input":"')
    fragments = ["a\\", "n", "\\u", "00", "e9", "\\ud83", "d", "\\ude", "00", "\\ud83d\\", "t"]
    answers = ["a", "\n", "", "", "é", "", "", "", "😀", "", "\ufffd\t"]
    assert [field.feed(fragment) for fragment in fragments] == answers


# --- progress ----------------------------------------------------------------------------------


def follow(*fragments: str) -> JSONProgress:
    progress = JSONProgress()
    for fragment in fragments:
        progress.feed(fragment)
    return progress


@table(
    "whole", ["{}", "[]", '{"a":[{"b":"]}"}]}', '["\\"]", "\\\\"]', '[["{"], {}]', ' {"a":\n1} \n']
)
def test_a_value_is_complete_when_its_outermost_bracket_closes(whole: str) -> None:
    for fragments in ([whole], list(whole)):
        assert follow(*fragments).complete
    assert not follow(whole.rstrip()[:-1]).complete


def test_white_space_alone_is_empty() -> None:
    assert follow().empty
    assert follow("", " \t", "\r\n").empty
    assert not follow(" ", "{").empty
    assert not follow("x").empty


def test_a_value_is_open_between_its_outermost_brackets() -> None:
    assert not follow(" ").open
    assert follow(" {").open
    assert follow('{"a":[]').open
    assert not follow("{}").open
    assert not follow('"{').open


def test_brackets_inside_strings_do_not_count() -> None:
    progress = follow('{"a":"}')
    assert not progress.complete
    progress.feed('\\"}')
    assert not progress.complete
    progress.feed('"}')
    assert progress.complete


def test_an_escape_may_be_cut_after_its_backslash() -> None:
    assert follow('["\\', "", '"]').open
    assert follow('["\\', "\\", '"]').complete
    assert follow('["\\', "\n", '"]').complete
    assert follow('["\\\n"', "]").complete


@table("fragments", [("{}x",), ("{}", "x"), ("{} ", " {}"), ("[]]",), ("{}", '"')])
def test_text_after_the_end_makes_a_value_incomplete_for_good(fragments: tuple[str, ...]) -> None:
    progress = follow(*fragments)
    assert not progress.complete
    progress.feed("{}")
    progress.feed(" ")
    assert not progress.complete
    assert not progress.open


def test_white_space_after_the_end_leaves_a_value_complete() -> None:
    progress = follow("{} ", "", "\n")
    assert progress.complete


@table("whole", ["7", '"a"', "null", "x{}", "}", '"{}" {}'])
def test_text_that_does_not_open_with_a_bracket_is_never_complete(whole: str) -> None:
    for fragments in ([whole], list(whole)):
        progress = follow(*fragments)
        assert not progress.complete
        assert not progress.open
        assert not progress.empty


@table("text", ["{}", " [1, 2] ", "null", r'"\ud83d"', "1e999"])
def test_a_json_value_is_recognised(text: str) -> None:
    assert is_json(text)


@table("text", ["", "{", "{} {}", "NaN", "[Infinity]", "'a'", r'"\ud83d', "[" * 9999])
def test_what_is_no_json_value_is_recognised(text: str) -> None:
    assert not is_json(text)
