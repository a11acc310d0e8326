"""Detection of a recording's dialect: right for every golden recording, whole bodies included."""

from __future__ import annotations

from pathlib import Path

from antiphon.library.replay import detect_dialect
from tests.support.tables import table

_GOLDEN = Path(__file__).parents[2] / "golden"
RECORDINGS = sorted(_GOLDEN.glob("*/*/upstream.*"))


@table("path", RECORDINGS, ids=[f"{each.parts[-3]}-{each.parts[-2]}" for each in RECORDINGS])
def test_a_golden_recording_is_recognized(path: Path) -> None:
    assert detect_dialect(path.read_bytes()) == path.parts[-3]


@table(
    ("data", "dialect"),
    [
        (b"", "chat"),
        (b'{"error": {"message": "no"}}', "chat"),
        (b'{"type": "message", "content": [], "stop_reason": "end_turn"}', "anthropic"),
        (b'{"output": {"message": {}}, "stopReason": "end_turn"}', "bedrock"),
        (b'{"id": "r", "object" : "response"}', "responses"),
        (b'{"message": {}, "usage": {"billed_units": {}}}', "cohere"),
        (b'{"model": "m", "message": {}, "done": true}', "ollama"),
        (b'[{"candidates": []}]', "gemini"),
        (b'data: {"choices": [{"delta": {"content": "\\"type\\":\\"message_start\\""}}]}', "chat"),
    ],
)
def test_a_body_is_recognized_by_its_members(data: bytes, dialect: str) -> None:
    assert detect_dialect(data) == dialect
