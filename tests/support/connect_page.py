"""The programs of docs/connect.md, by client, with the address and the model of a test."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "connect.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8484"
MODEL = "deepseek-v4-pro"
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def read_blocks(client: str, language: str) -> list[str]:
    """The blocks of one client in one language, as they stand on the page."""
    pattern = rf"^```{language}\n(.*?)^```$"
    found: list[str] = re.findall(pattern, SECTIONS[client], re.MULTILINE | re.DOTALL)
    return found


def read_program(client: str, language: str, base_url: str, model: str = "echo") -> str:
    """The one block of a client, for a gateway and a model."""
    [block] = read_blocks(client, language)
    assert ADDRESS in block or "antiphon" in block
    return block.replace(ADDRESS, base_url.removesuffix("/v1")).replace(MODEL, model)
