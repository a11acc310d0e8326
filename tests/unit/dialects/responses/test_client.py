"""The client half of Responses: parsing, rendering for one reader, whole responses, errors."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import structs

from antiphon.core.client_profile import OTHER, Profile
from antiphon.core.events import Event, HostedToolEvent, Keepalive, SearchCompleted
from antiphon.core.faults.fault import FaultType, ProviderFault, connection_fault
from antiphon.core.faults.kinds import FaultKind
from antiphon.core.response import Response
from antiphon.dialects.client_dialect import ClientDialect, EventBatch, Problem, fault_problem
from antiphon.dialects.responses.client import RESPONSES
from antiphon.dialects.responses.render import DONE, ResponsesRenderer, SSEEncoder
from antiphon.errors import InvalidRequest
from tests.support.tables import table

COMMENTS = Profile(name="strict", keepalive="comment")
EVENTS: list[Event] = [SearchCompleted(item_id="ws_1", output_index=0), Keepalive()]


def test_a_body_is_parsed_to_a_canonical_request() -> None:
    request = RESPONSES.parse({"model": "m", "input": "hi"}, is_large=True)
    assert (request.model, request.is_large) == ("m", True)
    with pytest.raises(InvalidRequest, match="input"):
        RESPONSES.parse({"model": "m"})


def test_a_request_to_count_needs_no_input() -> None:
    document = {"model": "m", "instructions": "Be brief."}
    assert RESPONSES.parse(document, is_count=True).instructions == "Be brief."


def test_a_batch_is_rendered_with_its_numbers() -> None:
    renderer = RESPONSES.renderer(RESPONSES.parse({"model": "m", "input": "hi"}), OTHER)
    encoder = SSEEncoder()
    assert renderer.feed(EventBatch(0, EVENTS)) == encoder.feed(EVENTS)
    assert renderer.feed(EventBatch(2, EVENTS)) == encoder.feed(EVENTS)
    assert renderer.close() == DONE


def test_frames_that_were_rendered_for_the_store_are_not_rendered_again() -> None:
    batch = EventBatch(0, EVENTS, b"data: stored\n\n")
    assert ResponsesRenderer(OTHER).feed(batch) == b"data: stored\n\n"


def test_padding_is_left_out_for_a_reader_that_does_not_want_it() -> None:
    padded = HostedToolEvent("response.x.delta", {"delta": "a", "obfuscation": "xyz", "n": 1})
    plain = HostedToolEvent("response.x.delta", {"delta": "a", "n": 1})
    renderer = ResponsesRenderer(OTHER, keeps_obfuscation=False)
    stored = EventBatch(4, [*EVENTS, padded, plain], b"with padding")
    expected = ResponsesRenderer(OTHER).feed(EventBatch(4, [*EVENTS, plain, plain]))
    assert renderer.feed(stored) == expected
    assert ResponsesRenderer(OTHER).feed(stored) == b"with padding"


def test_a_batch_without_padding_keeps_its_frames() -> None:
    renderer = ResponsesRenderer(OTHER, keeps_obfuscation=False)
    assert renderer.feed(EventBatch(0, EVENTS, b"frames")) == b"frames"


def test_a_keepalive_repeats_the_last_number() -> None:
    renderer = ResponsesRenderer(OTHER)
    assert renderer.keepalive(7) == (
        b'event: keepalive\ndata: {"type":"keepalive","sequence_number":7}\n\n'
    )
    assert renderer.keepalive(-1) == b": keep-alive\n\n"
    assert renderer.keepalive_diagnostic is None


def test_a_client_that_rejects_unknown_events_gets_comments_and_is_told() -> None:
    renderer = ResponsesRenderer(COMMENTS)
    assert renderer.keepalive(7) == b": keep-alive\n\n"
    assert renderer.keepalive_diagnostic is not None
    assert renderer.keepalive_diagnostic.subject == "strict"


def test_a_whole_response_is_its_document() -> None:
    request = RESPONSES.parse({"model": "m", "input": "hi"})
    response = Response(id="resp_1", created_at=1, model="m")
    assert RESPONSES.whole(response, request, OTHER) == msgspec.json.encode(response)


def test_a_response_that_failed_has_a_status_and_is_no_error() -> None:
    failed = Response(id="resp_1", created_at=1, model="m", status="failed")
    dialect: ClientDialect = RESPONSES
    assert dialect.failure(failed) is None


def test_an_error_has_all_four_keys() -> None:
    reply = RESPONSES.error(Problem(status=400, message="No.", param="input", headers={"a": "b"}))
    assert (reply.status, reply.headers) == (400, {"content-type": "application/json", "a": "b"})
    assert reply.body == (
        b'{"error":{"message":"No.","type":"invalid_request_error","param":"input","code":null}}'
    )


@table(
    ("changes", "kind", "code", "param"),
    [
        ({}, "server_error", "server_error", None),
        (
            {"type": FaultType.rate_limit, "http_status": 429},
            "rate_limit_error",
            "rate_limit_exceeded",
            None,
        ),
        ({"type": FaultType.billing}, "insufficient_quota", "insufficient_quota", None),
        (
            {"type": FaultType.model_error, "http_status": 404},
            "invalid_request_error",
            "model_not_found",
            "model",
        ),
        ({"code": FaultKind.OVERLOADED}, "server_error", "server_is_overloaded", None),
        ({"code": FaultKind.MCP_LIST}, "external_connector_error", "http_error", "tools"),
    ],
)
def test_a_fault_has_the_type_and_code_that_clients_act_on(
    changes: dict[str, object], kind: str, code: str, param: str | None
) -> None:
    fault: ProviderFault = structs.replace(connection_fault("reset"), **changes)
    error = msgspec.json.decode(RESPONSES.error(fault_problem(fault, "Sorry.")).body)["error"]
    assert error == {"message": "Sorry.", "type": kind, "param": param, "code": code}


def test_a_delay_is_told_in_seconds_and_in_milliseconds() -> None:
    fault = structs.replace(connection_fault("reset"), retry_after_s=1.25)
    headers = RESPONSES.error(fault_problem(fault, "Wait.")).headers
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("2", "1250")
