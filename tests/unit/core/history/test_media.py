"""Media types: detection, supported types, and reasons for a rejection."""

from __future__ import annotations

import base64

from msgspec import structs

from antiphon.core.history.media import MediaSupport, RejectedMedia, guess_media_type
from tests.support.tables import table

PNG = "iVBORw0KGgo="
TAKES = MediaSupport(
    types=frozenset({"image/png", "image/jpeg", "application/pdf", "audio/*", "text/*"}),
    image_links="https?://.*",
    file_ids="files/.*",
)


def data(media_type: str, content: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


@table("given", ["data:x/y;base64,AA==", "data:,hi", "***", ""])
def test_media_is_not_checked_without_a_list_of_types(given: str) -> None:
    assert MediaSupport().read(given, "file") == given
    assert MediaSupport().can_fetch_image(given)
    assert MediaSupport().accepts_file_id(given)
    assert MediaSupport().accepts_file_url(given, "")


@table(
    ("given", "sent"),
    [
        (f"data:image/png;base64,{PNG}", f"data:image/png;base64,{PNG}"),
        (f"data:IMAGE/PNG;name=a;BASE64,{PNG}", f"data:image/png;base64,{PNG}"),
        ("data:image/jpg;base64,AA==", "data:image/jpeg;base64,AA=="),
        (f"data:;base64,{PNG}", f"data:image/png;base64,{PNG}"),
        (f"data:application/octet-stream;base64,{PNG}", f"data:image/png;base64,{PNG}"),
    ],
)
def test_an_image_becomes_a_data_url_of_its_detected_type(given: str, sent: str) -> None:
    assert TAKES.read(given, "image") == sent


@table(
    ("declared", "content", "sent"),
    [
        ("image/png", b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("image/jpeg", b"\x89PNG\r\n\x1a\n", "image/png"),
        ("image/jpeg", b"RIFF\x0a\0\0\0WEBPVP8 ", "image/webp"),
        ("image/png", b"RIFF\x0a\0\0\0WAVEfmt ", "image/png"),
        ("image/png", b"%PDF-1", "image/png"),
    ],
)
def test_an_image_that_is_declared_as_another_type_gets_its_own(
    declared: str, content: bytes, sent: str
) -> None:
    """vybestack/llxprt-code#2130: Anthropic refuses a JPEG that is declared as PNG."""
    given = data(declared, content)
    support = structs.replace(TAKES, types=TAKES.types | {"image/webp"})
    assert support.read(given, "image") == given.replace(declared, sent)
    assert support.read(given, "file") == given.replace(declared, sent)


def test_an_image_is_rejected_by_its_own_type() -> None:
    assert TAKES.read(data("image/png", b"GIF89a"), "image") == RejectedMedia(
        "image/gif is not accepted"
    )


@table(
    ("given", "why"),
    [
        ("data:image/png;base64,***", "its content cannot be read"),
        ("data:image/png;base64,", "its content cannot be read"),
        ("data:image/png,plain", "its content cannot be read"),
        ("data:", "its content cannot be read"),
        ("data:image/bmp;base64,AA==", "image/bmp is not accepted"),
        ("data:;base64,AA==", "its type is not accepted"),
        ("data:application/pdf;base64,AA==", "application/pdf is not accepted"),
        ("data:text/plain;base64,aGk=", "text/plain is not accepted"),
    ],
)
def test_an_unsupported_image_is_rejected_with_a_reason(given: str, why: str) -> None:
    assert TAKES.read(given, "image") == RejectedMedia(why)


@table(
    ("given", "name", "sent"),
    [
        (data("application/pdf", b"x"), "", "application/pdf"),
        (data("application/octet-stream", b"x"), "a.PDF", "application/pdf"),
        (data("", b"%PDF-1"), "", "application/pdf"),
        (base64.b64encode(b"%PDF-1").decode(), "", "application/pdf"),
        (data("image/png", b"x"), "", "image/png"),
        (data("text/x-python", b"print()"), "a.py", "text/x-python"),
        (data("application/toml", b"a = 1"), "a.toml", "text/plain"),
        (data("", b"words"), "", "text/plain"),
    ],
)
def test_the_type_of_a_file_is_detected(given: str, name: str, sent: str) -> None:
    payload = given.rpartition(",")[2]
    assert TAKES.read(given, "file", name) == f"data:{sent};base64,{payload}"


@table(
    ("given", "why"),
    [
        (data("application/zip", b"PK\3\4\0"), "application/zip is not accepted"),
        (data("text/plain", b"gr\xfcn"), "text/plain is not accepted"),
        (data("text/plain", b" \n"), "text/plain is not accepted"),
        (data("", b"\xff"), "its type is not accepted"),
        ("not base64", "its content cannot be read"),
    ],
)
def test_an_unsupported_file_is_rejected_with_a_reason(given: str, why: str) -> None:
    assert TAKES.read(given, "file") == RejectedMedia(why)


def test_a_listed_text_type_is_accepted_without_checking_the_content() -> None:
    latin = data("text/plain", b"gr\xfcn")
    assert MediaSupport(types=frozenset({"text/plain"})).read(latin, "file") == latin
    words = data("text/css", b"a {}")
    assert MediaSupport(types=frozenset({"text/plain"})).read(words, "file") == RejectedMedia(
        "text/css is not accepted"
    )


def test_audio_is_accepted_by_its_major_type() -> None:
    assert TAKES.read("data:audio/mp3;base64,AA==", "audio") == "data:audio/mp3;base64,AA=="
    assert isinstance(TAKES.read("data:audio/mp3;base64,*", "audio"), RejectedMedia)


@table(
    ("url", "name", "accepts_file_url"),
    [
        ("https://a.test/a.pdf?x=1#top", "", True),
        ("https://a.test/a", "a.txt", True),
        ("https://a.test/a", "", False),
        ("https://a.test/a.zip", "a", False),
    ],
)
def test_a_file_url_is_accepted_only_with_a_supported_extension(
    url: str, name: str, accepts_file_url: bool
) -> None:
    assert TAKES.accepts_file_url(url, name) is accepts_file_url


def test_a_provider_may_fetch_fewer_types_than_it_accepts() -> None:
    fetches = structs.replace(TAKES, file_links=frozenset({"application/pdf"}))
    assert fetches.accepts_file_url("https://a.test/a.pdf", "")
    assert not fetches.accepts_file_url("https://a.test/a.txt", "")


def test_a_declared_type_is_enough_only_where_the_request_does_not_name_one() -> None:
    fetches = structs.replace(TAKES, file_links=frozenset({"application/pdf"}))
    assert fetches.accepts_file_url("https://a.test/a", "", "application/pdf")
    assert not fetches.accepts_file_url("https://a.test/a.pdf", "", "application/zip")
    for address in ("https://a.test/a", "https://a.test/a.zip"):
        assert not TAKES.accepts_file_url(address, "", "application/pdf")


def test_image_urls_and_file_ids_have_to_match_the_providers_patterns() -> None:
    assert TAKES.can_fetch_image("https://a.test/a\n.png")
    assert not TAKES.can_fetch_image("s3://a/b.png")
    assert TAKES.accepts_file_id("files/a")
    assert not TAKES.accepts_file_id("file-1")


@table(
    ("address", "found"),
    [("a.JPG", "image/jpeg"), ("a.b/c", ""), ("", ""), ("x.md", "text/markdown")],
)
def test_a_media_type_is_guessed_from_the_extension(address: str, found: str) -> None:
    assert guess_media_type(address) == found
