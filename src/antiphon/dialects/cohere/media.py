"""Media in Cohere requests: images as blocks; a notice for everything else."""

from __future__ import annotations

from antiphon.core.history.media import MediaSupport
from antiphon.core.history.steps import AudioPart, FilePart, ImagePart, Part
from antiphon.core.items import Document
from antiphon.dialects.placeholders import omission

ACCEPTED_MEDIA = MediaSupport(types=frozenset({"image/*"}), file_ids="")
"""Media that the API accepts: images only."""
_DETAILS = frozenset({"low", "high", "auto"})


def image_block(image: ImagePart) -> Document:
    detail = {"detail": image.detail} if image.detail in _DETAILS else {}
    return {"type": "image_url", "image_url": {"url": image.url, **detail}}


def part_text(part: Part) -> str:
    """A part as text; media that cannot be sent become a notice."""
    match part:
        case ImagePart():
            return omission("image", "it cannot be shown here")
        case FilePart(filename):
            return omission(f"file {filename or 'without a name'}", "this model takes no files")
        case AudioPart():
            return omission("audio", "this model takes no audio")
        case _:
            return part.text
