"""Every message that clients and operators can read stands in messages.txt and is plain."""

from __future__ import annotations

import difflib
import re
from functools import cache
from pathlib import Path

import pytest

from tests.support.message_table import (
    COMMAND,
    HELP,
    LOG,
    MESSAGE_FUNCTIONS,
    OUTPUT,
    REASON,
    SINKS,
    VIOLATION,
    Extraction,
    Message,
    extract,
    render_table,
)
from tests.support.source_texts import Source

TABLE = Path(__file__).parent / "messages.txt"
REWRITE = "pytest tests/test_messages.py --update-golden"

# Arguments whose text is not in the source, with the reason.
DESCRIBED = "a description of a fault: see that section"
NOT_OURS: dict[str, str] = {
    "cli/launcher/gateway.py: _read_announced_url: message or 'the gateway could not be started:"
    " run `antiphon serve` to see why.'": "the error that `antiphon serve` printed",
    "cli/probe.py: _probe: message": DESCRIBED,
    "cli/trace/command.py: add: _list_examples(name)": "lines of the examples of `antiphon trace`",
    "cli/trace/resend.py: _resend: printable(error.description)": DESCRIBED,
    "cli/trace/resend.py: _print_outcome: printable(response.error.message)": DESCRIBED,
    "cli/check.py: run: checked.problems": "errors of the configuration: see that section",
    "cli/main.py: _make_parser: argparse.SUPPRESS": "leaves the argument out of the help",
    "cli/main.py: _report_error: line": "a line of an error: see the other sections",
    "cli/reload.py: run: line": "a line of an error of the gateway: see the other sections",
    "core/plan/declare_mcp.py: add_servers: refusal": "a message of `mcp/policy.py`",
    "config/load.py: convert: text": "the decoder's text, in TOML's words",
    "config/source.py: raise_problems: '\\n'.join((each.message for each in found))": "the"
    " errors of the configuration, all of them",
    "core/faults/classify.py: _make_fault: reading.text": "the provider's own text, for the log",
    "dialects/gemini/decode.py: _read_chunk: candidate": "the provider's own text, for the log",
    "engine/http1/parser.py: feed: error": "the words of the HTTP parser",
    "engine/output.py: _break_off: message": DESCRIBED,
    "engine/output.py: end_as_failed: message": DESCRIBED,
    "engine/upstream.py: next: error": "a reason of engine/http1: see that section",
    "engine/upstream.py: open: error": "a reason of engine/http1: see that section",
    "providers/registry.py: _find_spec: installed_plugins().problems.get(kind, unknown)": "see"
    " providers/plugin.py",
    "search/searcher.py: __call__: str(found[0])": "a search error: see that section",
    "stages/pipeline.py: _fail: self._describe(fault)": DESCRIBED,
    "server/errors.py: shutting_down: describe(fault, caller.locale)": DESCRIBED,
    "server/errors.py: _internal_problem: describe(fault, locale)": DESCRIBED,
}

# Error classes that are only derived from.
UNUSED = {"AntiphonError", "BridgeError"}

METAPHORS = re.compile(
    r"\b(air|desks?|shelf|shelves|heard|hears?|gears?|journeys?|courses?|lessons?|rim|errands?|told"
    r"|tells?|hearts?|spoken|speaks?|says?|said|thoughts?|thinks|voices?"
    r"|kept elsewhere|without a word|again and again|as it likes|goes on|has to be a|dear|woven"
    r"|nobody|everybody)\b",
    re.IGNORECASE,
)


@cache
def found() -> Extraction:
    return extract()


# --- the table ------------------------------------------------------------------------------------


def test_every_message_is_in_the_table_as_it_is_in_the_source(
    pytestconfig: pytest.Config,
) -> None:
    actual = render_table(found().messages)
    if pytestconfig.getoption("update_golden"):
        TABLE.write_text(actual, encoding="utf-8")
    expected = TABLE.read_text(encoding="utf-8") if TABLE.exists() else ""
    if actual != expected:
        pytest.fail(compare_tables(expected, actual), pytrace=False)


def test_the_text_of_every_message_is_found() -> None:
    unknown = [place for place in found().unresolved if place not in NOT_OURS]
    assert unknown == [], "the text cannot be resolved: simplify it, or add a reason to NOT_OURS"


def test_every_exception_to_the_rule_is_still_needed() -> None:
    assert [place for place in NOT_OURS if place not in found().unresolved] == []


def test_every_call_that_takes_a_message_still_exists() -> None:
    """A sink that was renamed would lose its messages silently."""
    expected = {*SINKS, *(name for _, name in MESSAGE_FUNCTIONS)}
    assert expected - found().sinks - UNUSED == set()


def compare_tables(expected: str, actual: str) -> str:
    """Name the messages that are missing in the table, and those that the source no longer has."""
    changes = list(difflib.unified_diff(expected.splitlines(), actual.splitlines(), n=0))[2:]
    missing = [line[1:].strip() for line in changes if line.startswith("+")]
    stale = [line[1:].strip() for line in changes if line.startswith("-")]
    lines = ["tests/messages.txt differs from the messages in the source."]
    lines += [f"  missing in the table: {text}" for text in missing if text]
    lines += [f"  not in the source: {text}" for text in stale if text]
    return "\n".join([*lines, f"Rewrite the table and read the difference: {REWRITE}"])


# --- the words ------------------------------------------------------------------------------------

SUBJECTS = re.compile(
    r"""
    \{                                             # a value
    | `                                            # a field
    | '[a-z_]+'                                    # a field or a value of the API
    | \[[a-z]+\]                                   # a section of the configuration
    | --[a-z]+ | \$[A-Z_]+                         # an option, a variable
    | ^[a-zA-Z]+(\.[a-z_]+)?:                      # the path of a field
    | server\.[a-z_]+ | config\.toml | \$dynamicRef
    | \b(provider|gateway|model|client|codex|antiphon|finish\ reason)\b
    | \b(request|refusal|image|tool|MCP|output|JSON|results\ file|reasoning)\b
    | 网关|请求|对话|回答|服务商
    """,
    re.VERBOSE | re.IGNORECASE,
)
# Sections whose rows are parts of a longer message that has a subject, or no sentences.
PARTS = {COMMAND, HELP, LOG, OUTPUT, REASON, VIOLATION}


def metaphor_offences(message: Message) -> list[str]:
    words = METAPHORS.findall(message.text)
    return [f"{message.module}: {words[0]!r} in: {message.text}"] if words else []


def subject_offences(message: Message) -> list[str]:
    if message.section in PARTS or SUBJECTS.search(message.text):
        return []
    return [f"{message.module}: names no field, provider or file: {message.text}"]


def test_no_message_contains_a_metaphor() -> None:
    assert [offence for each in found().messages for offence in metaphor_offences(each)] == []


def test_every_message_names_what_it_is_about() -> None:
    assert [offence for each in found().messages for offence in subject_offences(each)] == []


# --- the extraction itself ------------------------------------------------------------------------

PLANTED = """
TEXTS = {"a": "the table has a text", "b": "and another one"}

def refuse(param, problem):
    raise InvalidRequest(f"`{param}` {problem}.", param=param)

def check(value, kind):
    long = "must be a string of letters and digits, as names are"
    refuse("x", long if value else "is required: set it")
    message = f"{value!r} is wrong here"
    message += "; send another"
    raise ConfigError(message)

def note(code):
    return Diagnostic(message=TEXTS[code])

def hide():
    raise StoreError(find_text())
"""


def test_a_message_is_found_through_variables_tables_conditions_and_callers() -> None:
    extraction = Extraction([Source("core/a.py", PLANTED)])
    assert sorted(message.text for message in extraction.messages) == [
        "'{value}' is wrong here",
        "'{value}' is wrong here; send another",
        "`{param}` is required: set it.",
        "`{param}` must be a string of letters and digits, as names are.",
        "and another one",
        "the table has a text",
    ]


def test_a_text_that_cannot_be_found_is_reported() -> None:
    extraction = Extraction([Source("core/a.py", PLANTED)])
    assert list(extraction.unresolved) == ["core/a.py: hide: find_text()"]


def test_a_changed_message_is_reported_with_the_command_that_rewrites_the_table() -> None:
    report = compare_tables("a\n  old text\n", "a\n  new text\n")
    assert "missing in the table: new text" in report
    assert "not in the source: old text" in report
    assert REWRITE in report


@pytest.mark.parametrize("text", ["`x` goes on the air", "`x` is told so", "{x} says no"])
def test_a_metaphor_is_detected(text: str) -> None:
    assert metaphor_offences(Message(LOG, "a.py", text))


def test_a_message_about_nothing_is_detected() -> None:
    assert subject_offences(Message("Store errors", "a.py", "Something went wrong."))
    assert not subject_offences(Message("Store errors", "a.py", "{path}: cannot be read"))
