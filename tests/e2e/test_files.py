"""Files for models without file input: their text is sent, or the reason why it is not."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.support.checked_gateway import CheckedGateway, checked_gateway
from tests.support.pdf_files import data_url, make_pdf
from tests.support.upstream import HELLO_WORLD, send_frames

Document = dict[str, Any]
HELLO = send_frames(HELLO_WORLD)
HEADER = "antiphon-diagnostics"

TEXTS: dict[str, Document] = {
    "text by its type": {"file_data": data_url(b"alpha", "text/plain"), "filename": "notes"},
    "JSON by its type": {"file_data": data_url(b'{"a": "alpha"}', "application/json")},
    "CSV by its name": {
        "file_data": data_url(b"a,b\nalpha,2\n", "application/octet-stream"),
        "filename": "table.csv",
    },
    "CSV of Windows": {
        "file_data": data_url("größe\nalpha\n".encode("cp1252"), "text/csv"),
        "filename": "table.csv",
    },
    "Markdown by its content": {"file_data": data_url(b"# alpha", ""), "filename": "README"},
    "source code": {"file_data": data_url(b"alpha = 1\n", "text/x-python"), "filename": "a.py"},
    "bare base64": {"file_data": base64.b64encode(b"alpha").decode(), "filename": "a.txt"},
    "UTF-16": {"file_data": data_url("alpha".encode("utf-16"), "text/plain"), "filename": "a.txt"},
    "an unencoded data URL": {"file_data": "data:text/plain,alpha%20beta", "filename": "a.txt"},
}


async def send(setup: CheckedGateway, *parts: Document) -> tuple[Document, str]:
    """Send one message of these parts; return what the provider got of it, and the diagnostics."""
    items = [{"role": "user", "content": [*parts]}]
    status, headers, document = await setup.post(input=items)
    assert status == 200, document
    return setup.last_body["messages"][-1], headers.get(HEADER, "")


@pytest.mark.parametrize("name", TEXTS)
async def test_a_file_with_text_is_sent_as_text_with_its_name(tmp_path: Path, name: str) -> None:
    part = {"type": "input_file", **TEXTS[name]}
    async with checked_gateway(tmp_path, HELLO) as setup:
        message, diagnostics = await send(setup, part)
        assert "alpha" in str(message)
        assert TEXTS[name].get("filename", "[file]") in str(message)
        assert diagnostics == "1; codes=history.file.inlined:message"


async def test_a_pdf_is_sent_as_its_text(tmp_path: Path) -> None:
    content = data_url(make_pdf("First page", "Second page"))
    part = {"type": "input_file", "file_data": content, "filename": "report.pdf"}
    async with checked_gateway(tmp_path, HELLO) as setup:
        message, diagnostics = await send(setup, part)
        for text in ("report.pdf", "First page", "Second page"):
            assert text in str(message)
        assert diagnostics == "1; codes=history.file.inlined:message"


@pytest.mark.parametrize("content", [b"%PDF-1.4\nbroken", b"\x00\x01\x02", b"PK\x03\x04\x00\xff"])
async def test_a_file_without_readable_text_stays_a_marker(tmp_path: Path, content: bytes) -> None:
    part = {"type": "input_file", "file_data": data_url(content, ""), "filename": "a.bin"}
    async with checked_gateway(tmp_path, HELLO) as setup:
        message, diagnostics = await send(setup, part)
        assert message["content"] == "[file a.bin omitted: this model takes no files]"
        assert diagnostics == "1; codes=history.file.replaced:message"
