"""Masks of a client's frames.

A server must close a connection on which it receives an unmasked frame (RFC 6455, 5.1): a client
that chooses the bytes on the wire could fill the cache of a proxy. aiohttp does not look.
"""

from __future__ import annotations

PROTOCOL_ERROR = b"\x88\x02\x03\xea"
"""The frame that closes a connection because of it: code 1002, without a reason."""

_MASKED = 0x80
_LENGTHS = {126: 2, 127: 8}
"""Bytes of an extended length, by the short one."""
_MASK_BYTES = 4


class FrameHeads:
    """Follows the frames of one client from head to head, in whatever pieces they arrive."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._payload_left = 0

    def are_masked(self, data: bytes) -> bool:
        """Take the next bytes; False as soon as the head of a frame says that it is not masked."""
        position = 0
        while position < len(data):
            if self._payload_left:
                step = min(self._payload_left, len(data) - position)
                self._payload_left -= step
                position += step
                continue
            self._head.append(data[position])
            position += 1
            if len(self._head) == 2 and not self._head[1] & _MASKED:
                return False
            self._end_head()
        return True

    def _end_head(self) -> None:
        """Go on to the payload, if the head is complete."""
        if len(self._head) < 2:
            return
        short = self._head[1] & ~_MASKED
        extended = _LENGTHS.get(short, 0)
        if len(self._head) == 2 + extended + _MASK_BYTES:
            length = self._head[2 : 2 + extended]
            self._payload_left = int.from_bytes(length) if extended else short
            self._head.clear()
