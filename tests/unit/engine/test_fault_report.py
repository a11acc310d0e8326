"""Fault reports: the provider's words without content and secrets, and bugs with their place."""

from __future__ import annotations

import msgspec

from antiphon.core.faults.classify import classify
from antiphon.core.faults.fault import internal_fault, timeout_fault
from antiphon.engine.fault_report import (
    MAX_BYTES,
    ProviderWords,
    clean_own_text,
    clean_text,
    is_bug,
    log_fields,
    report_fault,
)
from antiphon.store.quoted_text import RequestTexts, read_texts
from antiphon.store.redact import Redactor

REDACTOR = Redactor(["key-of-alice"])
NOTHING = RequestTexts()
ASKED = read_texts(b'{"input": "Where is my grandmother?"}')


def test_our_own_codes_of_a_fault_are_logged() -> None:
    assert log_fields(timeout_fault("idle")) == {
        "fault": "timeout",
        "code": "idle_timeout",
        "status": None,
        "retry_after_s": None,
    }


def test_a_report_has_the_provider_s_words_and_ids() -> None:
    body = b'{"error": {"message": "no top_k", "code": "E1", "request_id": "up-1"}}'
    report = report_fault(classify(400, {}, body), REDACTOR, NOTHING)
    assert (report.code, report.reason) == ("invalid_request", "no top_k")
    assert report.facts["reason"] == "no top_k"
    assert (report.facts["upstream_code"], report.facts["upstream_request_id"]) == ("E1", "up-1")


def test_everything_that_a_provider_said_is_kept_without_quotes_and_secrets() -> None:
    error = {
        "message": "Invalid argument",
        "type": "invalid_request_error",
        "param": "input[0]",
        "code": "E1",
        "details": [{"hint": "key-of-alice wrote: Where is my grandmother?"}],
    }
    body = msgspec.json.encode({"error": error, "request_id": "up-1"})
    report = report_fault(classify(400, {}, body), REDACTOR, ASKED)
    assert report.words == ProviderWords(
        type="invalid_request_error",
        code="E1",
        param="input[0]",
        request_id="up-1",
        body='{"error":{"message":"Invalid argument","type":"invalid_request_error",'
        '"param":"input[0]","code":"E1","details":[{"hint":"«redacted» wrote: «request text»?"}]},'
        '"request_id":"up-1"}',
    )
    assert report.facts["upstream_type"] == "invalid_request_error"
    assert report.facts["upstream_param"] == "input[0]"
    assert report.facts["upstream_body"] == report.words.body


def test_a_body_is_bounded_and_not_repeated() -> None:
    long = report_fault(
        classify(500, {}, b'{"error": "' + b"busy " * 9000 + b'"}'), REDACTOR, ASKED
    )
    assert len(long.words.body or "") == MAX_BYTES
    plain = report_fault(classify(503, {}, b"try later"), REDACTOR, ASKED)
    assert (plain.reason, plain.words.body) == ("try later", None)


def test_a_body_without_a_message_is_reported_as_it_is() -> None:
    report = report_fault(classify(502, {}, b"<html>Bad gateway</html>"), REDACTOR, NOTHING)
    assert report.reason == "<html>Bad gateway</html>"


def test_quotes_and_secrets_are_removed() -> None:
    text = "key-of-alice may not ask where is my grandmother"
    assert clean_text(text, REDACTOR, ASKED) == "«redacted» may not ask «request text»"


def test_our_own_words_are_not_searched_for_quotes() -> None:
    asked = read_texts(b'{"input": "the total timeout expired, and no key-of-alice helps"}')
    assert report_fault(timeout_fault("total"), REDACTOR, asked).reason == (
        "the total timeout expired"
    )
    text = "the total timeout expired for key-of-alice"
    assert clean_own_text(text, REDACTOR) == "the total timeout expired for «redacted»"


def test_a_text_is_cut_at_a_whole_character() -> None:
    assert clean_text("é" * 2000, REDACTOR, NOTHING) == "é" * (MAX_BYTES // 2)


def test_the_end_of_a_text_that_was_cut_before_is_dropped() -> None:
    """A secret there is not recognised any more, however much was removed before it."""
    run = "x" * 100 + " "
    text = (run * 45)[:4080] + " key-of-alice"
    assert "key-of" not in clean_text(text, REDACTOR, NOTHING)


def test_a_bug_is_reported_with_class_message_and_traceback() -> None:
    try:
        raise LookupError("no place for: where is my grandmother?")
    except LookupError as error:
        fault = internal_fault(error)
    assert is_bug(fault)
    facts = report_fault(fault, REDACTOR, ASKED).facts
    assert (facts["error"], facts["message"]) == ("LookupError", "no place for: «request text»?")
    assert "test_a_bug_is_reported" in facts["traceback"][-1]
