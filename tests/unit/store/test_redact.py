"""Redaction: secrets are replaced in bytes and text, and everything else is kept."""

from __future__ import annotations

import json
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from antiphon.store.redact import REDACTED, Redactor
from tests.support.tables import table

PLAIN = Redactor()
CANARY = "cAnArY0123456789abcdefABCDEF"


@table(
    "key",
    [
        "sk-abcdEFGH1234",
        "sk-proj-abc_DEF-123456789012",
        "sk-ant-api03-AAAABBBBCCCC",
        "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
        "gsk_abcdefghijklmnopqrstuvwx",
        "hf_abcdefghijklmnopqrstuvwx",
        "xai-abcdefghijklmnopqrstuvwx",
        "nvapi-abcdefghijklmnopqrstuvwx",
        "ghp_abcdefghijklmnopqrstuvwx",
        "github_pat_11ABCDEFG0abcdefgh",
        "xoxb-123456789012-abcdefghij",
        "AKIAIOSFODNN7EXAMPLE",
        "AIzaSyA-abcdefghijklmnopqrstuvwxyz0123456",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    ],
)
@table(
    "frame",
    ["{}", "({})", "the key is {}.", '"{}"', "line\n{}\nline", "\\n{}", "\\u000a{}", "a={}&b"],
)
def test_a_well_known_key_format_is_redacted_anywhere(key: str, frame: str) -> None:
    text = PLAIN.redact_text(frame.format(key))
    assert key not in text
    assert REDACTED in text
    assert key[8:] not in text


def test_only_the_secret_half_of_an_id_and_secret_is_redacted() -> None:
    text = PLAIN.redact_text("0123456789abcdef0123456789abcdef.AbCdEfGhIjKlMnOp")
    assert text == f"0123456789abcdef0123456789abcdef.{REDACTED}"


@table(
    "line",
    [
        "Authorization: Bearer {}",
        "authorization: {}",
        "AUTHORIZATION = Basic {}",
        "Proxy-Authorization: Digest username=me, response={}",
        "x-api-key: {}",
        "api-key:{}",
        "X-Goog-Api-Key: {}",
        "Ocp-Apim-Subscription-Key: {}",
        "Cookie: a=b; session={}",
        "Set-Cookie: {}; Path=/",
        "https://host/path?api_key={}&x=1",
        "OPENAI_API_KEY={}",
        "export DEEPSEEK_API_KEY='{}'",
        "access_token={}",
        "client_secret: {}",
        "aws_secret_access_key = {}",
        "password: {}",
        'api_key = "{}"',
        "{{'Authorization': 'Bearer {}'}}",
        '{{"authorization":"Bearer {}"}}',
        '{{"apiKey" : "{}"}}',
        '{{"refresh_token":"{}"}}',
        '{{"arguments":"{{\\"api_key\\": \\"{}\\"}}"}}',
        "he said bearer {} to me",
    ],
)
def test_a_value_after_a_secret_name_is_redacted(line: str) -> None:
    text = PLAIN.redact_text(line.format(CANARY))
    assert CANARY not in text
    assert REDACTED in text


@table(
    "text",
    [
        "The bearer of this letter, and the secret of the old key.",
        "Authorization is described in task-oriented-programming-guides.",
        "An API key is required: send `Authorization: Bearer KEY`, or the key as `x-api-key`.",
        "risk-management-for-beginners",
        '{"usage":{"prompt_tokens":3,"completion_tokens":4}}',
        '{"max_output_tokens":100,"tokens":"abc"}',
        '{"api_key":null,"password":{"type":"string"}}',
        '{"properties":{"api_key":{"type":"string"}},"required":["api_key"]}',
        '{"key_name":"first","key":"value","token":"Hello"}',
        "chatcmpl-0123456789abcdef0123456789abcdef",
        "resp_0123456789abcdef0123456789abcdef0123456789abcdef",
        "sk-short",
        "sk-",
        "",
    ],
)
def test_ordinary_text_is_not_redacted(text: str) -> None:
    assert PLAIN.redact_text(text) == text


@table(
    "secret",
    ["hunter2secret", 'quo"te\\back', "пароль-тайна", "with space & more", "tab\tand\nline"],
)
def test_a_configured_secret_is_redacted_in_every_encoding(secret: str) -> None:
    redactor = Redactor(["unrelated-one", secret])
    document = {"deep": [{"text": f"before {secret} after"}, secret], secret: 1}
    assert redactor.redact_text(f"x{secret}y") == f"x{REDACTED}y"
    for encoded in (json.dumps(document), json.dumps(document, ensure_ascii=False)):
        back = json.loads(redactor.redact_text(encoded))
        assert back == {
            "deep": [{"text": f"before {REDACTED} after"}, REDACTED],
            REDACTED: 1,
        }


def test_overlapping_secrets_are_redacted_completely() -> None:
    redactor = Redactor(["abcdefgh", "abcdefgh-and-more", "and-more-still"])
    assert redactor.redact_text("<abcdefgh-and-more-still>") == f"<{REDACTED}>"


def test_a_short_placeholder_is_not_a_secret() -> None:
    assert Redactor(["", "x", "none"]).redact_text("next to none") == "next to none"


def test_bytes_that_are_not_text_pass_unchanged() -> None:
    data = bytes(range(256))
    assert PLAIN.redact_bytes(data) == data
    assert PLAIN.redact_text("\ud800 sk-abcdefghijkl") == f"\ud800 {REDACTED}"


def test_offsets_are_adjusted_for_replacements() -> None:
    chunks = [b"one sk-abcdefghijklmnop ", b"two ", b"authorization: abc", b"def\n", b"three"]
    offsets = [(sum(map(len, chunks[:n])), n) for n in range(len(chunks))]
    blob, moved = PLAIN.redact_blob(b"".join(chunks), offsets)
    starts = [blob[offset:].decode() for offset, _ in moved]
    assert [at for _, at in moved] == [0, 1, 2, 3, 4]
    assert starts[0].startswith("one ")
    assert starts[1].startswith("two ")
    assert starts[2].startswith("authorization")
    assert starts[3].startswith(f"{REDACTED}\n")  # it began within the part that is gone
    assert starts[4] == "three"


scraps = st.lists(
    st.sampled_from(
        [
            *("sk-0123456789abcdef", "Authorization", "api_key", "password", "cookie", "bearer"),
            *(":", "=", " ", '"', "'", "\\", "\n", "{", "]", ",", "é", "\x1f", "n" * 9, "abc"),
        ]
    ),
    max_size=6,
).map("".join)
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | scraps,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(scraps, inner, max_size=3)
        | st.builds(json.dumps, inner)
    ),
    max_leaves=8,
)


@given(documents, st.booleans(), st.sampled_from([None, (",", ":")]))
def test_redacted_json_is_still_valid_json(
    document: Any, ascii_only: bool, separators: tuple[str, str] | None
) -> None:
    redactor = Redactor(["nnnnnnnn", "nabcabc"])
    encoded = json.dumps(document, ensure_ascii=ascii_only, separators=separators)
    assert json.dumps(json.loads(redactor.redact_text(encoded)))


secret_names = st.sampled_from(
    ["authorization", "x-api-key", "Set-Cookie", "PASSWORD", "access_token"]
)


@given(secret_names, st.text("aé\"\\'\n ,:{}", min_size=1), st.integers(0, 2), st.booleans())
def test_a_secret_value_in_nested_json_is_redacted_completely(
    name: str, inside: str, depth: int, ascii_only: bool
) -> None:
    value: Any = {name: f"{CANARY}{inside}{CANARY}", "then": "stays"}
    for _ in range(depth):
        value = {"nested": json.dumps(value, ensure_ascii=ascii_only)}
    back = json.loads(PLAIN.redact_text(json.dumps(value, ensure_ascii=ascii_only)))
    for _ in range(depth):
        back = json.loads(back["nested"])
    assert back["then"] == "stays"
    if depth < 2:
        assert back[name] == REDACTED
    else:
        assert not back[name].startswith(CANARY)


@table("name", ["authorization:", "cookie=", "api_key=", "access_token:", "password="])
def test_the_work_is_linear_in_a_value_that_consists_of_names(name: str) -> None:
    def seconds(length: int) -> float:
        data = (name * length)[:length].encode()
        began = time.process_time()
        PLAIN.redact_bytes(data)
        return time.process_time() - began

    # Eight times the data may take eight times as long; were the work quadratic, 64 times.
    small = min(seconds(20_000) for _ in range(3))
    assert seconds(160_000) < 20 * small + 0.05


def test_the_last_name_in_a_value_may_be_that_of_another_one() -> None:
    text = PLAIN.redact_text("api_key=password=api_key= s3cr3t")
    assert text == f"api_key={REDACTED} {REDACTED}"
    text = PLAIN.redact_text("authorization: one, authorization: 'two three'")
    assert "one" not in text
    assert "three" not in text


@given(st.binary(max_size=300), st.lists(st.integers(0, 300)))
def test_offsets_stay_in_order_and_within_the_blob(data: bytes, cuts: list[int]) -> None:
    blob = data[:100] + b" sk-0123456789abcdef " + data[100:] + b" api_key=0123456789abc"
    offsets = [(min(cut, len(blob)), cut) for cut in sorted(cuts)]
    redacted, adjusted = PLAIN.redact_blob(blob, offsets)
    indexes = [offset for offset, _ in adjusted]
    assert indexes == sorted(indexes)
    assert all(0 <= index <= len(redacted) for index in indexes)
