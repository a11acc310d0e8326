"""Media: what a provider fetches and reads goes to it in one form, anything else says why not."""

from __future__ import annotations

import base64

import pytest

from antiphon.core.history.media import MediaSupport, RejectedMedia, guess_media_type

PNG = "iVBORw0KGgo="
TAKES = MediaSupport(
    types=frozenset({"image/png", "image/jpeg", "application/pdf", "audio/*", "text/*"}),
    image_links="https?://.*",
    file_ids="files/.*",
)


def data(media_type: str, content: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


@pytest.mark.parametrize("given", ["data:x/y;base64,AA==", "data:,hi", "***", ""])
def test_a_provider_that_says_nothing_is_sent_what_there_is(given: str) -> None:
    assert MediaSupport().read(given, "file") == given
    assert MediaSupport().can_fetch_image(given)
    assert MediaSupport().accepts_file_id(given)
    assert MediaSupport().accepts_file_url(given, "")


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (f"data:image/png;base64,{PNG}", f"data:image/png;base64,{PNG}"),
        (f"data:IMAGE/PNG;name=a;BASE64,{PNG}", f"data:image/png;base64,{PNG}"),
        ("data:image/jpg;base64,AA==", "data:image/jpeg;base64,AA=="),
        (f"data:;base64,{PNG}", f"data:image/png;base64,{PNG}"),
        (f"data:application/octet-stream;base64,{PNG}", f"data:image/png;base64,{PNG}"),
    ],
)
def test_an_image_comes_in_one_form(given: str, sent: str) -> None:
    assert TAKES.read(given, "image") == sent


@pytest.mark.parametrize(
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
def test_an_image_that_would_be_refused_says_why(given: str, why: str) -> None:
    assert TAKES.read(given, "image") == RejectedMedia(why)


@pytest.mark.parametrize(
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
def test_the_type_of_a_file_is_found(given: str, name: str, sent: str) -> None:
    payload = given.rpartition(",")[2]
    assert TAKES.read(given, "file", name) == f"data:{sent};base64,{payload}"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (data("application/zip", b"PK\3\4\0"), "application/zip is not accepted"),
        (data("text/plain", b"gr\xfcn"), "text/plain is not accepted"),
        (data("text/plain", b" \n"), "text/plain is not accepted"),
        (data("", b"\xff"), "its type is not accepted"),
        ("not base64", "its content cannot be read"),
    ],
)
def test_a_file_that_would_be_refused_says_why(given: str, why: str) -> None:
    assert TAKES.read(given, "file") == RejectedMedia(why)


def test_text_is_taken_by_its_name_where_that_is_enough() -> None:
    latin = data("text/plain", b"gr\xfcn")
    assert MediaSupport(types=frozenset({"text/plain"})).read(latin, "file") == latin
    words = data("text/css", b"a {}")
    assert MediaSupport(types=frozenset({"text/plain"})).read(words, "file") == RejectedMedia(
        "text/css is not accepted"
    )


def test_sound_is_taken_by_its_kind() -> None:
    assert TAKES.read("data:audio/mp3;base64,AA==", "audio") == "data:audio/mp3;base64,AA=="
    assert isinstance(TAKES.read("data:audio/mp3;base64,*", "audio"), RejectedMedia)


@pytest.mark.parametrize(
    ("url", "name", "accepts_file_url"),
    [
        ("https://a.test/a.pdf?x=1#top", "", True),
        ("https://a.test/a", "a.txt", True),
        ("https://a.test/a", "", False),
        ("https://a.test/a.zip", "a", False),
    ],
)
def test_an_address_has_to_tell_what_is_there(url: str, name: str, accepts_file_url: bool) -> None:
    assert TAKES.accepts_file_url(url, name) is accepts_file_url


def test_addresses_and_ids_are_those_that_the_provider_knows() -> None:
    assert TAKES.can_fetch_image("https://a.test/a\n.png")
    assert not TAKES.can_fetch_image("s3://a/b.png")
    assert TAKES.accepts_file_id("files/a")
    assert not TAKES.accepts_file_id("file-1")


@pytest.mark.parametrize(
    ("address", "found"),
    [("a.JPG", "image/jpeg"), ("a.b/c", ""), ("", ""), ("x.md", "text/markdown")],
)
def test_a_name_ends_with_its_type(address: str, found: str) -> None:
    assert guess_media_type(address) == found
