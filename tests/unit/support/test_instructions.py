"""The measure of `make instructions`, and of `bench/functions.py`."""

from __future__ import annotations

from bench.instructions import Cost, Count, find_growth, library_of, read_calls, read_profile

PROFILE = """\
# callgrind format
version: 1
positions: line
events: Ir
summary: 175

ob=(1) /usr/lib/libpython3.11.so.1.0
fl=(1) ceval.c
fn=(1) _PyEval_EvalFrameDefault
10 100
+2 20
cob=(2) /venv/lib/python3.11/site-packages/msgspec/_core.cpython-311-x86_64-linux-gnu.so
cfn=(2) decode
calls=3 40
* 55
* 5

ob=(2)
fn=(2)
40 50

totals: 175
"""


def test_a_profile_counts_each_instruction_once_in_the_library_that_executed_it() -> None:
    assert read_profile(PROFILE.splitlines()) == {"Python": 125, "JSON (msgspec)": 50}


def test_the_calls_of_a_function_are_counted_with_all_that_they_call() -> None:
    assert read_calls(PROFILE.splitlines()) == ({"decode": Cost(55, 3)}, 175)


def test_extension_modules_of_the_standard_library_are_told_apart_from_the_interpreter() -> None:
    folder = "/usr/lib/python3.11/lib-dynload"
    assert library_of(f"{folder}/zlib.cpython-311-x86_64-linux-gnu.so") == "zlib"
    assert library_of(f"{folder}/_sqlite3.cpython-311-x86_64-linux-gnu.so") == "SQLite"
    assert library_of("/usr/lib/x86_64-linux-gnu/libz.so.1") == "zlib"
    assert library_of("/usr/lib/x86_64-linux-gnu/libc.so.6") == "C library"


def test_only_a_figure_more_than_three_percent_above_the_kept_one_has_grown() -> None:
    kept = {"whole": 1000, "stream-2": 1000}
    found = {
        "whole": Count((1000, 30), {}),
        "stream-2": Count((900,), {}),
        "new": Count((5000,), {}),
    }
    assert find_growth(found, kept) == {}
    found["whole"] = Count((1000, 31), {})
    assert find_growth(found, kept) == {"whole": "whole: 1,031 instructions, +3.1% against 1,000"}
