"""Reader of one attempt: bytes to frames, frames to deltas, without leaked markup."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from antiphon.core.deltas import Delta
from antiphon.core.filters.markup import filter_whole_response, make_markup_filters, pass_deltas
from antiphon.core.stream.source import Framer, Source, StreamDecoder
from antiphon.framing.limits import ResponseLimits
from antiphon.framing.sse import Frame
from antiphon.framing.surrogates import SurrogateJoiner


class StreamReader:
    """Reads the output of one attempt."""

    def __init__(self, source: Source, limits: ResponseLimits) -> None:
        self._source = source
        self._limits = limits
        self._framer: Framer | None = None
        self._joins_surrogates = False
        self._markup_filters = make_markup_filters(source.guards) if source.guards else []
        self.decode = source.dialect.decode
        """Returns the deltas of a body that is not streamed."""
        self.has_markup = bool(self._markup_filters)
        """Whether deltas have to pass `filter_markup`."""

    @cached_property
    def decoder(self) -> StreamDecoder:
        """Makes deltas of frames. A body that is not streamed needs neither this nor a framer."""
        return self._source.dialect.decoder()

    def read_frames(self, chunk: bytes) -> list[Frame]:
        """Return the frames that this chunk completes."""
        framer = self._framer
        if framer is None:
            framer = self._make_framer()
        # `find`: for `in`, CPython 3.11 first makes an error that a number was expected. The search
        # for one byte is the fast one.
        if chunk.find(b"\\") >= 0 and not self._joins_surrogates and _may_escape(chunk):
            framer = self._framer = SurrogateJoiner(framer)
            self._joins_surrogates = True
        return framer.feed(chunk)

    def close_frames(self) -> list[Frame]:
        """Return the last frames: the provider has closed the stream."""
        return (self._framer or self._make_framer()).close()

    def _make_framer(self) -> Framer:
        self._framer = self._source.dialect.framer(self._limits.frame_bytes)
        return self._framer

    def filter_markup(self, deltas: Sequence[Delta]) -> Sequence[Delta]:
        """Take leaked markup out of decoded deltas. What these filters hold back is no output yet:
        it may turn out to be nothing but a tag."""
        for each in self._markup_filters:
            deltas = pass_deltas(each, deltas)
        return deltas

    def finish(self, last: Sequence[Delta]) -> list[Delta]:
        """End the stream: return its last deltas, and those that the filters held back."""
        deltas = [*self.filter_markup(last)]
        held_back: list[Delta] = []
        for each in self._markup_filters:
            held_back = [*pass_deltas(each, held_back), *each.close(final=True).deltas]
        return deltas + held_back

    def filter_whole(self, decoded: list[Delta]) -> list[Delta]:
        """Take leaked markup out of the deltas of a body that is not streamed."""
        return filter_whole_response(decoded, self._markup_filters)


def _may_escape(chunk: bytes) -> bool:
    """Whether a chunk has a `\\u` escape, or may have the first half of one at its end."""
    return chunk.find(b"\\u") >= 0 or chunk.endswith(b"\\")
