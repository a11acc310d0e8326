"""Diagnostics: the response header, and documentation of every code."""

from __future__ import annotations

import re
from pathlib import Path

from antiphon.core.diagnostic import (
    HEADER_LIMIT,
    Code,
    Decision,
    Diagnostic,
    bound_diagnostics,
    diagnostics_header,
)
from antiphon.core.history.steps import HistoryCode

PAGE = Path(__file__).parents[3] / "docs" / "diagnostics.md"


def diagnostic(code: str, param: str, subject: str = "") -> Diagnostic:
    return Diagnostic(
        code=code, decision=Decision.IGNORED, param=param, message="…", subject=subject
    )


def test_the_header_counts_and_names_the_codes_in_order() -> None:
    found = [
        diagnostic("param.ignored", "truncation"),
        diagnostic("tool.ignored", "tools[3]", "image_generation"),
        diagnostic("history.image.replaced", "input[4].content[0]"),
    ]
    assert diagnostics_header(found) == (
        "3; codes=param.ignored:truncation,tool.ignored:image_generation"
        ",history.image.replaced:input.content"
    )


def test_no_diagnostics_give_a_count_of_zero() -> None:
    assert diagnostics_header([]) == "0"


def test_the_same_code_is_named_once_and_counted_every_time() -> None:
    found = [diagnostic("tool.degraded", f"tools[{index}].strict", "strict") for index in range(9)]
    assert diagnostics_header(found) == "9; codes=tool.degraded:strict"


def test_client_text_cannot_break_out_of_the_header() -> None:
    header = diagnostics_header([diagnostic("param.unknown", "größe\r\nset-cookie: a=b,c;d")])
    assert header == "1; codes=param.unknown:gr__e__set-cookie__a_b_c_d"


def test_a_long_subject_is_shortened() -> None:
    assert diagnostics_header([diagnostic(Code.PARAM_UNKNOWN, "x" * 5000)]) == (
        "1; codes=param.unknown:" + "x" * 80
    )


def test_the_number_of_diagnostics_is_bounded_and_the_others_are_counted() -> None:
    found = [diagnostic(Code.PARAM_UNKNOWN, f"f{number}") for number in range(5100)]
    *kept, omitted = bound_diagnostics(found)
    assert kept == found[:100]
    assert (omitted.code, omitted.message) == (
        "diagnostics.omitted",
        "5,000 more diagnostics are left out.",
    )


def test_a_long_header_ends_with_a_complete_code() -> None:
    found = [diagnostic("param.unknown", f"field_{index:03}") for index in range(200)]
    header = diagnostics_header(found)
    assert header.startswith("200; codes=")
    assert HEADER_LIMIT - 30 < len(header) <= HEADER_LIMIT
    assert re.fullmatch(r"param\.unknown:field_\d{3}", header.rpartition(",")[2])


def test_the_documented_codes_are_exactly_the_existing_ones() -> None:
    documented = re.findall(
        r"^\| `([a-z0-9_.]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(documented) == sorted([*Code, *HistoryCode])
