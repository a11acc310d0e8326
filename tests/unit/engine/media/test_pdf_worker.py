"""The PDF reader's process: text of a file, page by page, within limits."""

from __future__ import annotations

import subprocess
import sys

import pypdf
import pytest

from antiphon.engine.media import pdf_worker
from antiphon.engine.media.pdf_worker import MAX_PAGES, extract_text
from tests.support.pdf_files import make_pdf


def run(content: bytes) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, pdf_worker.__file__]
    return subprocess.run(command, input=content, capture_output=True, check=False)


def test_the_text_of_all_pages_is_extracted() -> None:
    assert extract_text(make_pdf("One", "Two")) == "One\n\nTwo"


def test_a_pdf_without_text_has_none() -> None:
    assert extract_text(make_pdf("")) == ""


def test_pages_beyond_the_limit_are_omitted_and_counted() -> None:
    text = extract_text(make_pdf(*(f"page {number}" for number in range(MAX_PAGES + 3))))
    assert text.endswith(f"page {MAX_PAGES - 1}\n\n[3 more pages omitted]")


def test_a_file_that_is_no_pdf_is_an_error_of_the_reader() -> None:
    with pytest.raises(pypdf.errors.PyPdfError):
        extract_text(b"%PDF-1.4 broken")


def test_the_process_writes_the_text_of_its_input() -> None:
    done = run(make_pdf("One"))
    assert (done.returncode, done.stdout) == (0, b"One")


def test_the_process_fails_for_a_broken_file() -> None:
    assert run(b"%PDF-1.4 broken").returncode != 0
