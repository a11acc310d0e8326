"""Encode images for Ollama, and name the media that it does not accept."""

from __future__ import annotations

import base64

from antiphon.core.history.media import MediaSupport
from antiphon.core.history.steps import AudioPart, FilePart, ImagePart, Part
from antiphon.dialects.placeholders import omission

ACCEPTED_MEDIA = MediaSupport(types=frozenset({"image/*"}), image_links="", file_ids="")
"""Media that a server accepts: images, and only by content."""


def image_data(part: Part) -> str | None:
    """The base64 content of an image; None for other parts and for URLs: servers fetch nothing."""
    if not isinstance(part, ImagePart):
        return None
    header, _, data = part.url.partition(",")
    if not header.startswith("data:") or not header.lower().endswith(";base64"):
        return None
    try:
        base64.b64decode(data, validate=True)
    except ValueError:
        return None
    return data or None


def part_text(part: Part) -> str:
    """A part as text; media that a server does not accept become a notice."""
    match part:
        case ImagePart(url):
            is_link = not url.startswith("data:")
            return f"[image: {url}]" if is_link else omission("image", "it cannot be read")
        case FilePart(filename):
            return omission(f"file {filename or 'without a name'}", "this model takes no files")
        case AudioPart():
            return omission("audio", "this model takes no audio")
        case _:
            return part.text
