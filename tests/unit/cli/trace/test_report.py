"""Masking of payloads for a bug report: their structure stays, their words do not."""

from __future__ import annotations

from antiphon.cli.trace.report import mask_payload
from tests.support.tables import table

STREAM = b'event: message_start\ndata: {"type":"a","text":"Hi 7","n":3}\n\ndata: [DONE]\n\n'


@table(
    ("payload", "masked"),
    [
        (b'{"role":"user","content":"My PIN: 1234"}', '{"role":"user","content":"xx xxx: 0000"}'),
        (STREAM, STREAM.decode().replace("Hi 7", "xx 0")),
        (b'data: {"text":"cut of', 'data: {"xxxx":"xxx xx'),
        ("Zoë at home".encode(), "xxx xx xxxx"),
        (
            b'{"call_id":"call_1","id":"fc_1","name":"run"}',
            '{"call_id":"call_1","id":"fc_1","name":"xxx"}',
        ),
        (  # arguments of a tool in Messages, Gemini and Ollama, where no name is one of the API
            b'{"type":"tool_use","id":"t_1","input":{"code":"rm","id":"Jo","a":[{"type":"Jo"}]}}',
            '{"type":"tool_use","id":"t_1","input":{"code":"xx","id":"xx","a":[{"type":"xx"}]}}',
        ),
        (b'{"args":{"status":"ill"}}', '{"args":{"status":"xxx"}}'),
        (b'{"arguments":{"model":"Jo"}}', '{"arguments":{"model":"xx"}}'),
        (b'{"input":[{"role":"user"}]}', '{"input":[{"role":"user"}]}'),
        (b'{"metadata":{"user_id":"jo@x.org"}}', '{"metadata":{"user_id":"xx@x.xxx"}}'),
        (b'{"user_id":"jo"}', '{"user_id":"xx"}'),
        (
            b'{"type":"code_interpreter_call","code":"key = 7"}',
            '{"type":"code_interpreter_call","code":"xxx = 0"}',
        ),
        (b"[" * 2000, "[" * 2000),
    ],
)
def test_letters_and_digits_are_masked_and_the_structure_stays(payload: bytes, masked: str) -> None:
    assert mask_payload(payload) == masked
