"""PDF files with one line of text on each page."""

from __future__ import annotations

import base64


def make_pdf(*lines: str) -> bytes:
    """A PDF with a page for each line."""
    count = len(lines)
    kids = " ".join(f"{4 + 2 * index} 0 R" for index in range(count))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for index, line in enumerate(lines):
        content = f"BT /F1 12 Tf 72 720 Td ({line}) Tj ET"
        resources = "<< /Font << /F1 3 0 R >> >>"
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources {resources}"
            f" /Contents {5 + 2 * index} 0 R >>",
            f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
        ]
    return _write(objects)


def _write(objects: list[str]) -> bytes:
    data = b"%PDF-1.4\n"
    offsets = []
    for number, each in enumerate(objects, 1):
        offsets.append(len(data))
        data += f"{number} 0 obj\n{each}\nendobj\n".encode()
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    trailer = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(data)}\n%%EOF\n"
    return data + f"xref\n0 {size}\n0000000000 65535 f \n{table}{trailer}".encode()


def data_url(content: bytes, media_type: str = "application/pdf") -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"
