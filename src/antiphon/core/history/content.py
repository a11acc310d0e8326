"""Content of items: text, and media that a model may or may not support.

Unsupported media is replaced by a text marker for the model and reported to the client.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec
from msgspec import structs

from antiphon.core.diagnostic import Decision, Diagnostic
from antiphon.core.history.client_format import (
    RESPONSES,
    FormatSupport,
    read_cache,
    read_extra,
)
from antiphon.core.history.media import MediaSupport, RejectedMedia
from antiphon.core.history.steps import (
    AudioPart,
    FilePart,
    HistoryCode,
    ImagePart,
    MessageStep,
    Part,
    RefusalPart,
    TextPart,
)
from antiphon.core.history.text_files import is_pdf, read_text

Item: TypeAlias = Mapping[str, Any]

NO_DESCRIPTIONS: Mapping[str, str] = MappingProxyType({})
"""Descriptions of images by their URLs; "" if an image could not be described."""
NO_TEXTS: Mapping[str, str] = MappingProxyType({})
"""Texts of PDF files by their `file_data`; "" if a file has no text that can be read."""
ANY_MEDIA = MediaSupport()

_WEB = ("https://", "http://")
_CLIENT_MEMBERS = frozenset({"cache_control", "extra"})
TEXT_MEMBERS = frozenset({"type", "text"})
TEXT_TYPES = ("input_text", "output_text", "text")
_MEDIA_KINDS: Mapping[type, str] = {ImagePart: "image", FilePart: "file", AudioPart: "audio"}


def string(value: Any) -> str | None:
    """A non-empty string, or None."""
    return value if isinstance(value, str) and value else None


def mapping(value: Any) -> Item:
    return value if type(value) is dict or isinstance(value, Mapping) else {}


def mappings(value: Any) -> list[Item]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def strings(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


class ItemDiagnostics:
    """Diagnostics of items that are read one after another."""

    def __init__(self) -> None:
        self.found: list[Diagnostic] = []
        self.position = 0
        """The position of the current item in its list."""
        self.subject = ""
        """The type of the current item."""
        self._param = ""

    def begin_item(self, position: int, param: str, subject: str) -> None:
        """Set the item that the following diagnostics are about."""
        self.position = position
        self._param = f"{param}[{position}]"
        self.subject = subject

    def report(self, code: HistoryCode, decision: Decision, message: str) -> None:
        self.found.append(
            Diagnostic(
                code=code,
                decision=decision,
                param=self._param,
                message=message,
                subject=self.subject,
            )
        )


class MediaReader:
    """Reads media for one model: as they are if it supports them, else as a description, as the
    text of a file, or as a marker."""

    def __init__(
        self,
        inputs: frozenset[str],
        *,
        support: MediaSupport,
        descriptions: Mapping[str, str],
        file_texts: Mapping[str, str],
        model_name: str,
        diagnostics: ItemDiagnostics,
    ) -> None:
        """`diagnostics` gets what had to change."""
        self._inputs = inputs
        self._support = support
        self._descriptions = descriptions
        self._file_texts = file_texts
        self._model_name = model_name
        self._diagnostics = diagnostics

    def read_image(self, part: Item) -> Part:
        """Read `"image_url": "https://…"` or `"image_url": {"url": "https://…"}`."""
        value = part.get("image_url", part.get("url"))
        nested = value if isinstance(value, Mapping) else {"url": value}
        url = string(nested.get("url"))
        if "image" not in self._inputs:
            return self._describe_image(url)
        if url is None and string(part.get("file_id")) is not None:
            return self._replace_remote("image", _explain_file_id("image_url"))
        if url is None:
            return self._replace("image", "it came without an address or content")
        return self._check_image(ImagePart(url, string(nested.get("detail", part.get("detail")))))

    def _check_image(self, image: ImagePart) -> Part:
        """Replace an image if the provider does not support its type or fetch its URL."""
        if image.url.startswith("data:"):
            read = self._support.read(image.url, "image")
            if isinstance(read, RejectedMedia):
                return self._replace("image", read.reason)
            return structs.replace(image, url=read)
        if self._support.can_fetch_image(image.url):
            return image
        if image.url.startswith(_WEB):  # the URL is more useful than a marker
            reason = f"{self._model_name} does not fetch its URL"
            return self._replace("image", reason, f"[image: {image.url}]")
        return self._replace("image", "its address cannot be read")

    def _describe_image(self, url: str | None) -> Part:
        """Replace an image for a model without image input: by a description, if there is one.

        The marker is the same whether describing failed or was not tried: a changed marker would
        invalidate the prompt cache of everything after it.
        """
        description = self._descriptions.get(url) if url is not None else None
        if not description:
            failed = "" if description is None else " and it could not be described"
            return self.replace_unsupported("image", "images", failed)
        message = (
            f"The image was replaced by a description from another model:"
            f" {self._model_name} does not support images."
        )
        self._diagnostics.report(HistoryCode.IMAGE_DESCRIBED, Decision.DEGRADED, message)
        return TextPart(f"[image: not shown, but described by another model: {description}]")

    def read_file(self, part: Item) -> Part:
        file = FilePart(
            filename=string(part.get("filename")),
            url=string(part.get("file_url")),
            data=string(part.get("file_data")),
            file_id=string(part.get("file_id")),
            context=string(part.get("context")),
            citations=part["citations"] if isinstance(part.get("citations"), bool) else None,
        )
        if file.file_id is not None and not self._support.accepts_file_id(file.file_id):
            file = structs.replace(file, file_id=None)
        if file.url is not None and file.data is None and file.file_id is None:
            return self._check_file_url(file, file.url, string(part.get("media_type")) or "")
        if file.data is None and string(part.get("file_id")) is None:
            return self._replace("file", "it came without content", name=file.filename)
        if file.data is None and (file.file_id is None or "file" not in self._inputs):
            return self._replace_remote("file", _explain_file_id("file_data"), file.filename)
        return self._check_file(file)

    def _check_file_url(self, file: FilePart, url: str, declared: str) -> Part:
        name = file.filename or ""
        is_accepted = self._support.accepts_file_url(url, name, declared)
        if {"file", "file_url"} <= self._inputs and is_accepted:
            return file
        # The URL is more useful than a marker.
        reason = f"{self._model_name} does not fetch its URL"
        return self._replace("file", reason, f"[{name or 'file'}: {url}]")

    def _check_file(self, file: FilePart) -> Part:
        """Send the text of a file if the provider does not support the type of its content."""
        data = file.data
        name = file.filename
        if data is None:
            return file
        if "file" not in self._inputs:
            reason = f"{self._model_name} does not support files"
            marker = _marker("file", "this model takes no files", name)
            return self._inline_file(data, name, reason, marker)
        read = self._support.read(data, "file", name or "")
        if isinstance(read, RejectedMedia):
            return self._inline_file(data, name, read.reason, _marker("file", read.reason, name))
        return structs.replace(file, data=read)

    def _inline_file(self, data: str, name: str | None, reason: str, marker: str) -> Part:
        """Replace a file by its text, if it has any; else by a marker."""
        text = read_text(data, name or "") or self._file_texts.get(data)
        if text:
            message = f"The file was replaced by its text: {reason}."
            self._diagnostics.report(HistoryCode.FILE_INLINED, Decision.DEGRADED, message)
            title = f"file {name}" if name else "file"
            return TextPart(f"[{title}]\n{text}\n[end of {title}]")
        if not is_pdf(data):
            return self._replace("file", reason, marker)
        if text is None:
            missing = "the gateway has no PDF reader (install the extra antiphon[pdf])"
            return self._replace("file", f"{reason}, and {missing}", marker)
        return self._replace("file", f"{reason}, and no text of this PDF can be read", marker)

    def read_audio(self, part: Item) -> Part:
        if "audio" not in self._inputs:
            advice = "; send a transcript as `input_text` instead of `input_audio`"
            return self.replace_unsupported("audio", "audio", advice)
        match part.get("input_audio"):
            case {"data": str(data), "format": str(form)} if data and form:
                read = self._support.read(f"data:audio/{form};base64,{data}", "audio")
                if isinstance(read, RejectedMedia):
                    return self._replace("audio", read.reason)
                return AudioPart(data, form)
        if string(part.get("audio_url")) is not None:
            return self._replace_remote("audio", "`audio_url` is not fetched; send `input_audio`")
        marker = _marker("audio", "it came without content", None)
        return self._replace("audio", "`input_audio` needs `data` and `format`", marker)

    def replace_unsupported(
        self, kind: str, plural: str, failed: str = "", *, name: str | None = None
    ) -> Part:
        """Replace a part of a kind that the model does not support."""
        marker = _marker(kind, f"this model takes no {plural}", name)
        return self._replace(kind, f"{self._model_name} does not support {plural}{failed}", marker)

    def _replace_remote(self, kind: str, reason: str, name: str | None = None) -> Part:
        """Replace a part whose content is kept where neither provider nor gateway can read it."""
        return self._replace(kind, reason, _marker(kind, "it is kept elsewhere", name))

    def _replace(
        self, kind: str, reason: str, text: str | None = None, *, name: str | None = None
    ) -> Part:
        message = f"The {kind} was replaced by a text: {reason}."
        self._diagnostics.report(
            HistoryCode(f"history.{kind}.replaced"), Decision.DEGRADED, message
        )
        return TextPart(text or _marker(kind, reason, name))


class ContentReader:
    """Reads content for one model, and reports what had to change."""

    def __init__(
        self,
        inputs: frozenset[str],
        *,
        tool_output_images: bool,
        media: MediaSupport = ANY_MEDIA,
        descriptions: Mapping[str, str] = NO_DESCRIPTIONS,
        file_texts: Mapping[str, str] = NO_TEXTS,
        model_name: str = "this model",
        support: FormatSupport = RESPONSES,
    ) -> None:
        self.support = support
        self._model_name = model_name
        self._tool_output_images = tool_output_images
        self.diagnostics = ItemDiagnostics()
        self._media = MediaReader(
            inputs,
            support=media,
            descriptions=descriptions,
            file_texts=file_texts,
            model_name=model_name,
            diagnostics=self.diagnostics,
        )

    def ignore_item(self, reason: str, code: HistoryCode = HistoryCode.ITEM_IGNORED) -> tuple[()]:
        """Report that the item is ignored; returns its steps, which are none."""
        message = f"Item of type {self.diagnostics.subject!r} is ignored: {reason}."
        self.diagnostics.report(code, Decision.IGNORED, message)
        return ()

    def read_parts(self, content: Any) -> tuple[Part, ...]:
        """Read content of any form: a string, a list of parts, one part, nothing at all."""
        values = content if isinstance(content, (list, tuple)) else (content,)
        read = self._read_whole_part
        return tuple([part for value in values if (part := read(value)) is not None])

    def _read_whole_part(self, value: Any) -> Part | None:
        """Read a part with the members that only some client formats have. Nearly all parts are
        nothing but text, and are not compared with every other kind."""
        if type(value) is dict and value.keys() == TEXT_MEMBERS and value["type"] in TEXT_TYPES:
            text = string(value["text"])
            return None if text is None else TextPart(text)
        part = self._read_part(value)
        if part is None or not isinstance(value, dict) or not _CLIENT_MEMBERS & value.keys():
            return part
        if isinstance(part, AudioPart | RefusalPart):
            return part
        part = structs.replace(part, cache=read_cache(value))
        is_replaced = isinstance(part, TextPart) and "text" not in value
        return part if is_replaced else structs.replace(part, extra=read_extra(value, self.support))

    def read_client_block(self, value: Item) -> TextPart | None:
        """Read a content block of the client's own format that has no canonical form."""
        block = mapping(value.get("block"))
        text = string(value.get("text"))
        kind = string(block.get("type")) or "unknown"
        if value.get("format") == self.support.client_blocks:
            return TextPart(text or f"[{kind}]", extra=block)
        if text is not None:
            return TextPart(text)
        if not value.get("hint"):
            message = (
                f"Content block of type {kind!r} is not supported by {self._model_name}; ignored."
            )
            self.diagnostics.report(HistoryCode.PART_IGNORED, Decision.IGNORED, message)
        return None

    def move_media(self, parts: Iterable[Part]) -> tuple[tuple[Part, ...], tuple[MessageStep, ...]]:
        """Split parts of a message into those for a role that supports only text, and a user
        message with the media."""
        return self._move_media(parts, keep=())

    def move_tool_media(
        self, parts: Iterable[Part]
    ) -> tuple[tuple[Part, ...], tuple[MessageStep, ...]]:
        """Split parts of a tool result into those that it may contain, and a user message with the
        other media."""
        accepted = (
            (ImagePart, self._tool_output_images),
            (FilePart, self.support.tool_output_files),
        )
        return self._move_media(parts, keep=[kind for kind, is_kept in accepted if is_kept])

    def _move_media(
        self, parts: Iterable[Part], *, keep: Sequence[type[Part]]
    ) -> tuple[tuple[Part, ...], tuple[MessageStep, ...]]:
        kept: list[Part] = []
        moved: list[Part] = []
        subject = self.diagnostics.subject
        for part in parts:
            kind = _MEDIA_KINDS.get(type(part))
            if kind is None or type(part) in keep:
                kept.append(part)
                continue
            kept.append(TextPart(f"[{kind}: see the next message]"))
            moved.append(part)
            self.diagnostics.report(
                HistoryCode(f"history.{kind}.moved"),
                Decision.DEGRADED,
                f"The {kind} was moved to a user message of its own:"
                f" {self._model_name} does not support it in an item of type {subject!r}.",
            )
        return tuple(kept), (MessageStep("user", tuple(moved)),) if moved else ()

    def _read_part(self, value: Any) -> Part | None:
        match value:
            case None | "":
                return None
            case str(text):
                return TextPart(text)
            case {"type": "refusal", "refusal": str(text)}:
                return RefusalPart(text) if text else None
            case {"type": "input_file"}:
                return self._media.read_file(value)
            case {"type": "tool_reference", "name": str(name)}:
                return TextPart(f"Tool found, callable from now on: {name}", tool=name)
            case {"type": "client_block"}:
                return self.read_client_block(value)
            case {"type": "input_audio"}:
                return self._media.read_audio(value)
            case {"type": "input_video" | "video_url"}:
                return self._media.replace_unsupported("video", "video")
            case {"type": "input_image" | "computer_screenshot" | "image"} | {"image_url": _}:
                return self._media.read_image(value)
            case _:
                return self._read_text(value)

    def _read_text(self, value: Any) -> Part | None:
        """Read the text of a part of any type; data without a type is sent as JSON."""
        match value:
            case {"text": text}:
                return TextPart(text) if string(text) else None
            case {"type": str(kind)}:
                message = f"Content part of type {kind!r} is unknown; ignored."
                self.diagnostics.report(HistoryCode.PART_IGNORED, Decision.IGNORED, message)
                return None
            case _:
                return TextPart(json_text(value))


def _explain_file_id(field: str) -> str:
    """Why a file that is only named by its id is not sent; `field`: what to send instead."""
    return f"its `file_id` is not known here: no files are stored; send its content as `{field}`"


def _marker(kind: str, reason: str, name: str | None) -> str:
    """The text for the model in place of a part: `[audio omitted: this model takes no audio]`."""
    return f"[{kind} {name} omitted: {reason}]" if name else f"[{kind} omitted: {reason}]"
