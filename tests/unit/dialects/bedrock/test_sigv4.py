"""AWS Signature Version 4: the published examples, and comparison with botocore."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest
from yarl import URL

from antiphon.dialects.bedrock.sigv4 import (
    Credentials,
    authorize,
    percent_encode,
    read_credentials,
    region_of,
    sign,
)
from tests.support.tables import table

ACCESS, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
AT = "20150830T123600Z"
HOME = "https://example.amazonaws.com/"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
PAIR = "AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
ENDPOINT = "https://bedrock-runtime.eu-central-1.amazonaws.com/model/m:0/converse"


def signed(
    method: str, url: str, headers: Mapping[str, str], body: bytes = b"", token: str | None = None
) -> dict[str, str]:
    return sign(
        method,
        url,
        headers,
        body,
        access_key=ACCESS,
        secret_key=SECRET,
        session_token=token,
        region="us-east-1",
        service="service",
        timestamp=AT,
    )


# From Amazon's published suite of examples for version 4.
PUBLISHED = [
    ("GET", HOME, {}, b"", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    ("POST", HOME, {}, b"", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
    (
        "GET",
        f"{HOME}?Param2=value2&Param1=value1",
        {},
        b"",
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    (
        "POST",
        HOME,
        FORM,
        b"Param1=value1",
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
    ),
]


@pytest.mark.parametrize(("method", "url", "headers", "body", "signature"), PUBLISHED)
def test_published_examples_have_their_published_signatures(
    method: str, url: str, headers: dict[str, str], body: bytes, signature: str
) -> None:
    added = signed(method, url, headers, body)
    names = "content-type;host;x-amz-date" if headers else "host;x-amz-date"
    assert added == {
        "x-amz-date": AT,
        "authorization": "AWS4-HMAC-SHA256"
        " Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request,"
        f" SignedHeaders={names}, Signature={signature}",
    }


def oracle(
    method: str, url: str, headers: Mapping[str, str], body: bytes, token: str | None
) -> dict[str, Any]:
    """The headers that botocore makes, with a fixed clock."""
    reason = "Amazon's client is not here: pip install botocore"
    auth = pytest.importorskip("botocore.auth", reason=reason)
    request_type = pytest.importorskip("botocore.awsrequest").AWSRequest
    keys = pytest.importorskip("botocore.credentials").Credentials(ACCESS, SECRET, token)
    request = request_type(method=method, url=url, headers=dict(headers), data=body)
    request.context["timestamp"] = AT
    signer = auth.SigV4Auth(keys, "service", "us-east-1")
    signer._modify_request_before_signing(request)
    text = signer.string_to_sign(request, signer.canonical_request(request))
    signer._inject_signature_to_request(request, signer.signature(text, request))
    return {name.lower(): value for name, value in request.headers.items()}


@table("token", [None, "to/ken=="])
@table(
    "url",
    [
        HOME,
        "http://localhost",
        "http://localhost:80/a",
        "https://localhost:443/a",
        "https://localhost:8443/a/",
        "http://localhost:8000/a//b/./c/../d/",
        "http://localhost:8000/a/../..",
        "http://localhost:8000/a/b/.",
        "http://localhost:8000/./",
        "https://localhost/model/us.anthropic.claude%3A0/converse",
        "https://localhost/model/us.anthropic.claude:0/converse-stream",
        "https://localhost/model/arn:aws:bedrock:x:1:profile%2Fabc/converse",
        "https://localhost/?b=2&a=1&a=0&c",
    ],
)
def test_a_url_is_signed_as_botocore_signs_it(url: str, token: str | None) -> None:
    headers = {"content-type": "application/json", "X-Odd": "  a   b ", "User-Agent": "us"}
    added = signed("post", url, headers, b"{}", token)
    expected = oracle("POST", url, headers, b"{}", token)
    assert added == {name: expected[name] for name in added}
    assert ("x-amz-security-token" in added) == (token is not None)


def test_body_and_headers_are_signed_as_botocore_signs_them() -> None:
    dice = random.Random(4)
    for _ in range(50):
        body = dice.randbytes(dice.randrange(100))
        headers = {f"x-{dice.randrange(9)}": dice.choice(["a", " b ", "c  d"]) for _ in range(3)}
        url = f"https://h.test/{dice.randrange(99)}?{dice.choice('zyx')}={dice.randrange(9)}"
        added = signed("POST", url, headers, body)
        assert added["authorization"] == oracle("POST", url, headers, body, None)["authorization"]


def test_headers_that_proxies_may_change_are_not_signed() -> None:
    plain = signed("POST", HOME, {})
    assert signed("POST", HOME, {"User-Agent": "x", "Connection": "close"}) == plain


def test_the_fragment_of_a_url_is_not_signed() -> None:
    assert signed("GET", f"{HOME}#here", {}) == signed("GET", HOME, {})


@pytest.mark.parametrize("url", ["", "/a", "ftp://a.test/"])
def test_a_url_that_is_not_http_is_rejected(url: str) -> None:
    with pytest.raises(ValueError, match="not an HTTP or HTTPS URL"):
        signed("GET", url, {})


# --- keys -----------------------------------------------------------------------------------------


def test_a_key_pair_is_read_with_or_without_a_session_token() -> None:
    access, _, secret = PAIR.partition(":")
    assert read_credentials(PAIR) == Credentials(access, secret)
    assert read_credentials(f"{PAIR}:to:ken") == Credentials(access, secret, "to:ken")


@table("key", ["", "bedrock-api-key-YWJj", "ABSKQmVkcm9j", "a:b", "AKIDEXAMPLE:", ":"])
def test_any_other_key_is_not_a_key_pair(key: str) -> None:
    assert read_credentials(key) is None


def test_the_repr_of_credentials_hides_the_secret() -> None:
    assert "wJalr" not in repr(read_credentials(f"{PAIR}:token"))
    assert "token" not in repr(read_credentials(f"{PAIR}:token"))


@pytest.mark.parametrize(
    ("url", "region"),
    [
        ("https://bedrock-runtime.us-east-1.amazonaws.com", "us-east-1"),
        ("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com/x", "us-gov-west-1"),
        ("https://vpce-0a-b1.bedrock-runtime.ap-southeast-2.vpce.amazonaws.com", "ap-southeast-2"),
        ("http://localhost:1/us-east-1", None),
    ],
)
def test_the_region_is_read_from_the_url(url: str, region: str | None) -> None:
    assert region_of(url) == region


def authorized(key: str, url: str = ENDPOINT, **options: Any) -> dict[str, str]:
    return authorize(key, "POST", url, {}, b"{}", service="bedrock", timestamp=AT, **options)


def test_a_key_pair_signs_for_the_region_of_the_url() -> None:
    added = authorized(f"{PAIR}:token")
    assert "/20150830/eu-central-1/bedrock/aws4_request" in added["authorization"]
    assert added["x-amz-security-token"] == "token"
    assert "/us-west-2/" in authorized(PAIR, region="us-west-2")["authorization"]
    assert "/us-east-1/" in authorized(PAIR, "http://localhost/")["authorization"]


def test_any_other_key_is_a_bearer_token_and_an_empty_key_adds_no_header() -> None:
    assert authorized("bedrock-api-key-1") == {"authorization": "Bearer bedrock-api-key-1"}
    assert authorized("") == {}


# --- what is sent ---------------------------------------------------------------------------------


def test_percent_encode_leaves_unreserved_and_safe_characters() -> None:
    assert percent_encode("aZ9-._~ /:é") == "aZ9-._~%20%2F%3A%C3%A9"
    assert percent_encode("a/b:c", safe="/:") == "a/b:c"


@pytest.mark.parametrize(
    "model", ["us.anthropic.claude-v1:0", "arn:aws:bedrock:x:1:profile/abc", "a b"]
)
def test_the_http_client_sends_the_url_that_was_signed(model: str) -> None:
    """The HTTP client normalizes URLs: it would send an encoded colon unencoded."""
    path = f"/model/{percent_encode(model, safe=':')}/converse"
    assert URL(f"https://h.test{path}").raw_path == path
