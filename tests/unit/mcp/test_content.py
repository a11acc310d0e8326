"""Tools and results, read from JSON and bounded."""

from __future__ import annotations

import base64
from typing import Any

from antiphon.config import McpConfig
from antiphon.core.mcp.values import McpImage, McpResult, McpTool
from antiphon.mcp.content import read_result, read_tools
from tests.support.tables import table

IMAGE = base64.b64encode(b"image").decode()


def read(*parts: dict[str, Any], structured: Any = None, **settings: Any) -> McpResult:
    document: dict[str, Any] = {"content": [*parts]}
    if structured is not None:
        document["structuredContent"] = structured
    return read_result(document, McpConfig(**settings))


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def tool(name: str, schema: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": schema or {"type": "object"}, **more}


def nest(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels - 1):
        schema = {"a": schema}
    return schema


def test_texts_are_joined_by_lines() -> None:
    assert read(text("a"), text("b")) == McpResult(text="a\nb")


def test_an_image_is_kept_beside_the_text() -> None:
    part = {"type": "image", "mimeType": "image/png", "data": IMAGE}
    assert read(part).images == (McpImage(media_type="image/png", data=IMAGE),)


def test_data_that_is_not_base64_is_no_image() -> None:
    found = read({"type": "image", "mimeType": "image/png", "data": "<svg>"})
    assert found.images == ()
    assert found.text == "[an image of type image/png that cannot be read]"


def test_resources_are_text_with_their_uri() -> None:
    inside = {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}}
    link = {"type": "resource_link", "uri": "file:///b", "name": "b", "description": "The second."}
    bare = {"type": "resource_link", "uri": "file:///c", "name": "c", "title": "C"}
    assert read(inside, link, bare).text == (
        "[resource file:///a]\ninside\n[resource file:///b: b] The second.\n[resource file:///c: C]"
    )


def test_an_image_resource_is_an_image_and_other_data_is_named_and_counted() -> None:
    picture = {"uri": "file:///a", "mimeType": "image/gif", "blob": IMAGE}
    archive = {"uri": "file:///b", "blob": "AAAA"}
    sound = {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}
    parts = [{"type": "resource", "resource": each} for each in (picture, archive)]
    found = read(*parts, sound)
    assert found.images == (McpImage(media_type="image/gif", data=IMAGE),)
    assert found.text == (
        "[resource file:///b: data of type application/octet-stream, which is left out]\n"
        "[audio: data of type audio/wav, which is left out]"
    )
    assert found.left_out == 8


def test_structured_content_is_text() -> None:
    assert read(structured={"a": 1}).text == '{"a":1}'
    assert read(text("Done."), structured={"a": 1}).text == 'Done.\n{"a":1}'


@table(
    ("parts", "structured"),
    [
        ([text('{ "a": 1 }')], {"a": 1}),
        ([text("3")], {"result": 3}),
        ([text("three")], {"result": "three"}),
        ([text("1"), text("2")], {"result": [1, 2]}),
    ],
)
def test_structured_content_that_a_text_repeats_is_sent_once(
    parts: list[dict[str, Any]], structured: Any
) -> None:
    expected = "\n".join(part["text"] for part in parts)
    assert read(*parts, structured=structured).text == expected


def test_an_error_of_the_tool_is_a_result() -> None:
    found = read_result({"content": [text("no")], "isError": True}, McpConfig())
    assert found == McpResult(text="no", is_error=True)


def test_text_beyond_the_limit_is_cut_between_characters_and_counted() -> None:
    found = read(text("aé"), text("bcd"), max_result_bytes=2)
    assert found.text == "a"
    assert found.left_out == 4


def test_an_image_beyond_the_limit_is_left_out_whole() -> None:
    part = {"type": "image", "mimeType": "image/png", "data": IMAGE}
    found = read(part, text("a"), max_result_bytes=4)
    assert found == McpResult(text="a", left_out=len(IMAGE))


def test_parts_beyond_the_limit_are_left_out_and_counted() -> None:
    found = read(text("a"), text("b"), text("c"), max_result_parts=1)
    assert found.text == "a"
    assert found.left_out > 0


def test_a_lone_surrogate_does_not_fail() -> None:
    assert read(text("a\ud800"), max_result_bytes=3).text == "a"


def test_tools_are_read_with_description_schema_and_annotations() -> None:
    listed = [tool("a", {"type": "object"}, description="A.", annotations={"readOnlyHint": True})]
    found = read_tools(listed)
    assert found.tools == (
        McpTool(
            name="a",
            description="A.",
            input_schema={"type": "object"},
            annotations={"readOnlyHint": True},
        ),
    )
    assert found.left_out == ()
    assert found.size > 50


def test_pages_are_read_one_after_the_other() -> None:
    first = read_tools([tool("a"), tool("")])
    found = read_tools([tool("b"), tool("a")], first)
    assert [each.name for each in found.tools] == ["a", "b"]
    assert found.left_out == ("", "a")
    assert found.size > first.size


@table(
    "bad",
    [
        tool("bad", nest(40)),
        tool("bad", {"enum": [[[]]] * 50_000}),
        tool("bad", {"description": "x" * 200_000}),
        tool("bad", description="x" * 40_000),
        tool("bad", annotations={"title": "x" * 200_000}),
        tool("good"),
        tool(""),
        tool("x" * 129),
        tool("a\x1b[31m"),
    ],
)
def test_a_tool_beyond_a_limit_is_left_out_and_named(bad: dict[str, Any]) -> None:
    found = read_tools([tool("good"), bad])
    assert [each.name for each in found.tools] == ["good"]
    assert found.left_out == (bad["name"][:128],)


def test_a_schema_at_the_limit_of_nesting_is_kept() -> None:
    assert read_tools([tool("a", nest(31))]).left_out == ()
