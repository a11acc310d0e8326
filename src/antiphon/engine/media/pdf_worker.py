"""Reader of one PDF, in a process of its own: the file on standard input, its text on standard
output. It has limits of memory and CPU time, and imports nothing of the gateway."""

from __future__ import annotations

import io
import sys
from itertools import islice

MAX_PAGES = 500
MAX_CHARACTERS = 4_000_000
_MAX_MEMORY = 1024 * 1024 * 1024
_MAX_CPU_S = 30


def extract_text(content: bytes) -> str:
    """The text of a PDF, page by page; "" if it has none, or is encrypted with a password."""
    import pypdf  # the optional extra `antiphon[pdf]`

    pages = pypdf.PdfReader(io.BytesIO(content)).pages
    texts = (page.extract_text().strip() for page in islice(pages, MAX_PAGES))
    text = "\n\n".join(filter(None, texts))[:MAX_CHARACTERS]
    omitted = len(pages) - MAX_PAGES
    return f"{text}\n\n[{omitted} more pages omitted]" if text and omitted > 0 else text


def limit_resources() -> None:
    """Limit the memory and the CPU time of this process, where the system can."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_MAX_CPU_S, _MAX_CPU_S))


def main() -> None:
    limit_resources()
    text = extract_text(sys.stdin.buffer.read())
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))


if __name__ == "__main__":
    main()
