"""What stands inside of an item: text, and the media that a model may or may not take.

Nothing is lost in silence: what a model does not take leaves a marker that the model can read and
a diagnostic that the client can see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec
from msgspec import structs

from antiphon.core.diagnostic import Decision, Diagnostic
from antiphon.core.history.media import MediaSupport, Unread
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

Item: TypeAlias = Mapping[str, Any]

NOTHING_SEEN: Mapping[str, str] = MappingProxyType({})
"""Descriptions of images by their URLs. An empty one was asked for in vain."""
ANY_MEDIA = MediaSupport()

_WEB = ("https://", "http://")
_MEDIA: Mapping[type, str] = {ImagePart: "image", FilePart: "file", AudioPart: "audio"}


def string(value: Any) -> str | None:
    """A text with something in it, or None."""
    return value if isinstance(value, str) and value else None


def mapping(value: Any) -> Item:
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> list[Item]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


class Reader:
    """Reads content for one model, and notes what could not stay as it was."""

    def __init__(
        self,
        inputs: frozenset[str],
        *,
        tool_output_images: bool,
        media: MediaSupport = ANY_MEDIA,
        descriptions: Mapping[str, str] = NOTHING_SEEN,
    ) -> None:
        self._inputs = inputs
        self._tool_output_images = tool_output_images
        self._media = media
        self._descriptions = descriptions
        self._param = ""
        self.subject = ""
        self.position = 0
        self.diagnostics: list[Diagnostic] = []

    def turn_to(self, position: int, param: str, subject: str) -> None:
        """The item that the following notes are about."""
        self.position = position
        self._param = f"{param}[{position}]"
        self.subject = subject

    def note(self, code: HistoryCode, decision: Decision, message: str) -> None:
        self.diagnostics.append(
            Diagnostic(
                code=code,
                decision=decision,
                param=self._param,
                message=message,
                subject=self.subject,
            )
        )

    def leave_out(self, why: str, code: HistoryCode = HistoryCode.ITEM_IGNORED) -> tuple[()]:
        """Note that the item becomes nothing, and be that nothing."""
        message = f"An item of type {self.subject!r} was left out. {why}"
        self.note(code, Decision.IGNORED, message)
        return ()

    def parts(self, content: Any) -> tuple[Part, ...]:
        """Content in any shape: a string, a list of parts, one part, nothing at all."""
        values = content if isinstance(content, list | tuple) else (content,)
        return tuple(part for part in map(self._part, values) if part is not None)

    def text_only(self, parts: Iterable[Part]) -> tuple[tuple[Part, ...], tuple[MessageStep, ...]]:
        """Parts for a role that takes text alone, and the user message that brings the media."""
        return self._apart(parts, keep=None)

    def tool_output(
        self, parts: Iterable[Part]
    ) -> tuple[tuple[Part, ...], tuple[MessageStep, ...]]:
        """Parts of a tool's answer, and the user message that brings what they cannot hold."""
        return self._apart(parts, keep=ImagePart if self._tool_output_images else None)

    def _apart(
        self, parts: Iterable[Part], *, keep: type[Part] | None
    ) -> tuple[tuple[Part, ...], tuple[MessageStep, ...]]:
        kept: list[Part] = []
        moved: list[Part] = []
        for part in parts:
            kind = _MEDIA.get(type(part))
            if kind is None or type(part) is keep:
                kept.append(part)
                continue
            kept.append(TextPart(f"[{kind}: see the next message]"))
            moved.append(part)
            self.note(
                HistoryCode(f"history.{kind}.moved"),
                Decision.DEGRADED,
                f"The {kind} stands in a user message of its own: its place takes text only.",
            )
        return tuple(kept), (MessageStep("user", tuple(moved)),) if moved else ()

    def _part(self, value: Any) -> Part | None:
        match value:
            case None | "":
                return None
            case str(text):
                return TextPart(text)
            case {"type": "refusal", "refusal": str(text)}:
                return RefusalPart(text) if text else None
            case {"type": "input_file"}:
                return self._file(value)
            case {"type": "input_audio"}:
                return self._audio(value)
            case {"type": "input_video" | "video_url"}:
                return self._replaced("video", "this model takes no video")
            case {"type": "input_image" | "computer_screenshot" | "image"} | {"image_url": _}:
                return self._image(value)
            case _:
                return self._text(value)

    def _text(self, value: Any) -> Part | None:
        """The text of a part of whatever type; data without a type speaks for itself."""
        match value:
            case {"text": text}:
                return TextPart(text) if string(text) else None
            case {"type": str(kind)}:
                message = f"A content part of type {kind!r} means nothing here."
                self.note(HistoryCode.PART_IGNORED, Decision.IGNORED, message)
                return None
            case _:
                return TextPart(json_text(value))

    def _image(self, part: Item) -> Part:
        place = part.get("image_url", part.get("url"))
        nested = place if isinstance(place, Mapping) else {"url": place}
        url = string(nested.get("url"))
        if "image" not in self._inputs:
            return self._unseen(url)
        if url is None:
            return self._replaced("image", "it came without an address or content")
        return self._shown(ImagePart(url, string(nested.get("detail", part.get("detail")))))

    def _shown(self, image: ImagePart) -> Part:
        """An image of a type, or from a place, that the provider takes."""
        if image.url.startswith("data:"):
            read = self._media.read(image.url, "image")
            if isinstance(read, Unread):
                return self._replaced("image", read.why)
            return structs.replace(image, url=read)
        if self._media.fetches(image.url):
            return image
        if image.url.startswith(_WEB):  # an address says more than a marker
            return self._replaced("image", "it is only linked", f"[image: {image.url}]")
        return self._replaced("image", "its address cannot be read")

    def _unseen(self, url: str | None) -> Part:
        """What stands in for an image that the model does not take."""
        why = "this model takes no images"
        seen = self._descriptions.get(url) if url is not None else None
        if seen:
            message = "The image did not reach the model: what another model saw stands there."
            self.note(HistoryCode.IMAGE_DESCRIBED, Decision.DEGRADED, message)
            return TextPart(f"[image: not shown, but described by another model: {seen}]")
        if seen is None:
            return self._replaced("image", why)
        # The marker stays the same: what follows an image must not move a prompt cache.
        return self._replaced(
            "image", f"{why}, and it could not be described", _omitted("image", why)
        )

    def _file(self, part: Item) -> Part:
        file = FilePart(
            filename=string(part.get("filename")),
            url=string(part.get("file_url")),
            data=string(part.get("file_data")),
            file_id=string(part.get("file_id")),
        )
        if file.file_id is not None and not self._media.knows(file.file_id):
            file = structs.replace(file, file_id=None)
        if file.url is not None and file.data is None and file.file_id is None:
            return self._linked(file, file.url)
        if "file" not in self._inputs:
            return self._replaced("file", "this model takes no files", name=file.filename)
        if file == FilePart(filename=file.filename):
            kept = string(part.get("file_id"))
            why = "it is kept elsewhere" if kept else "it came without content"
            return self._replaced("file", why, name=file.filename)
        return self._opened(file)

    def _linked(self, file: FilePart, url: str) -> Part:
        name = file.filename or ""
        if {"file", "file_url"} <= self._inputs and self._media.follows(url, name):
            return file
        # An address says more than a marker.
        return self._replaced("file", "it is only linked", f"[{name or 'file'}: {url}]")

    def _opened(self, file: FilePart) -> Part:
        """A file whose content is of a type that the provider takes."""
        if file.data is None:
            return file
        read = self._media.read(file.data, "file", file.filename or "")
        if isinstance(read, Unread):
            return self._replaced("file", read.why, name=file.filename)
        return structs.replace(file, data=read)

    def _audio(self, part: Item) -> Part:
        if "audio" not in self._inputs:
            return self._replaced("audio", "this model takes no audio")
        match part.get("input_audio"):
            case {"data": str(data), "format": str(form)} if data and form:
                read = self._media.read(f"data:audio/{form};base64,{data}", "audio")
                if isinstance(read, Unread):
                    return self._replaced("audio", read.why)
                return AudioPart(data, form)
        return self._replaced("audio", "it came without content")

    def _replaced(
        self, kind: str, why: str, text: str | None = None, *, name: str | None = None
    ) -> Part:
        message = f"The {kind} did not reach the model: {why}."
        self.note(HistoryCode(f"history.{kind}.replaced"), Decision.DEGRADED, message)
        return TextPart(text or _omitted(f"{kind} {name}" if name else kind, why))


def _omitted(label: str, why: str) -> str:
    return f"[{label} omitted: {why}]"
