"""Text of PDF files: cached, bounded in time, and never a failure."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from antiphon.engine.media.pdf_text import PDFReader, make_pdf_reader
from tests.support.pdf_files import data_url, make_pdf

ONE, TWO = data_url(make_pdf("One")), data_url(make_pdf("Two"))


async def test_the_texts_are_found_by_the_content_of_their_files() -> None:
    assert await PDFReader()([ONE, TWO], "a") == {ONE: "One", TWO: "Two"}


async def test_a_file_is_read_once() -> None:
    read = PDFReader()
    assert await read([ONE], "a") == await read([ONE], "b") == {ONE: "One"}
    assert read.started == 1


async def test_the_least_recently_used_text_is_dropped_from_a_full_cache() -> None:
    read = PDFReader(max_cached=4)
    for content in (ONE, TWO, TWO, ONE):
        await read([content], "a")
    assert read.started == 3


async def test_a_broken_file_has_no_text() -> None:
    broken = data_url(b"%PDF-1.4 broken")
    assert await PDFReader()([broken], "a") == {broken: ""}


async def test_a_file_that_takes_too_long_has_no_text() -> None:
    assert await PDFReader(timeout_s=0)([ONE], "a") == {ONE: ""}


async def test_a_file_has_no_text_while_no_process_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = PDFReader()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(tmp_path / "missing"))
        assert await read([ONE], "a") == {ONE: ""}
    assert await read([ONE], "a") == {ONE: "One"}


def test_there_is_a_reader_where_the_library_is_installed() -> None:
    assert isinstance(make_pdf_reader(), PDFReader)
