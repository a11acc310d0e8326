"""Rendering of what the provider has sent in this format: blocks and texts as they came."""

from __future__ import annotations

import msgspec

from antiphon.core.events import HostedToolEvent, PartAdded, PartDone
from antiphon.core.items import Document
from antiphon.dialects.anthropic.kept_blocks import BLOCK_DELTA, CITED
from antiphon.dialects.anthropic.render_blocks import CITATIONS, EMPTY_TEXT, ContentBlocks
from antiphon.dialects.anthropic.render_items import kept_of_part

_encode = msgspec.json.Encoder().encode


class KeptContent:
    """Writes blocks of the provider's own into the blocks of a stream."""

    def __init__(self, blocks: ContentBlocks) -> None:
        self.has_citations = False
        """Whether the open text has citations of its own; those of other formats are left out."""
        self._blocks = blocks

    # Text

    def open_text(self, event: PartAdded) -> bytes:
        """Open the block of a text with its members. Its citations come at its end."""
        members = kept_of_part(event.part)
        self.has_citations = members is not None and CITED in members
        if members is None:
            return b""
        block = {**EMPTY_TEXT, **members}
        if block.get(CITED):
            block[CITED] = []
        return self._blocks.open(("text", event.output_index, event.content_index), block)

    def end_text(self, event: PartDone) -> bytes:
        members = (kept_of_part(event.part) or {}) if self.has_citations else {}
        self.has_citations = False
        return b"".join(
            self._blocks.delta(CITATIONS, citation) for citation in members.get(CITED) or ()
        )

    # Other blocks

    def open_block(self, shows: tuple[object, ...], item: Document) -> bytes:
        block = item["block"]
        start = {**block, "input": {}} if "input" in block else block
        return self._blocks.open(shows, start)

    def add(self, event: HostedToolEvent) -> bytes:
        """Render a piece of a block; the progress of other items is not of this format."""
        match event:
            case HostedToolEvent(type=kind, fields={"delta": dict(delta)}) if kind == BLOCK_DELTA:
                fragment = delta.get("partial_json")
                if isinstance(fragment, str):
                    return self._blocks.add_input(fragment)
                return self._blocks.add(delta)
        return b""

    def end_block(self, item: Document) -> bytes:
        """Close a block. An input that came whole is a delta, too: clients ignore that of the
        block's start."""
        whole = item["block"].get("input")
        is_missing = bool(whole) and not self._blocks.has_input
        rest = self._blocks.add_input(_encode(whole).decode()) if is_missing else b""
        return rest + self._blocks.close()
