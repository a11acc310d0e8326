"""Mutants that no test can notice, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping

_UNOBSERVABLE = "replaced before it is read"
_SIZE = "the first byte of a length is 0: no frame may be that large"
_SPEED = "decides when work is done in steps, never its result"

EQUIVALENT: Mapping[str, str] = {
    "antiphon/dialects/validate.py: near = get_close_matches(value[:_MAX_QUOTED_CHARS],"
    " supported, 1): 1 -> 2": "only the first match is used",
    "antiphon/framing/eventstream.py: end = _PRELUDE_BYTES + _read_uint(message[4:8]):"
    " 4 -> 5": _SIZE,
    "antiphon/framing/eventstream.py: total, headers = _read_uint(prelude[:4]),"
    " _read_uint(prelude[4:8]): 4 -> 5": _SIZE,
    'antiphon/framing/sse.py: elif line[:5] == b"data:":: 5 -> 6': (
        "`_read_field` reads the line in the same way, only slower"
    ),
    "antiphon/core/stream/blocks.py: self.output_index = -1: 1 -> 2": _UNOBSERVABLE,
    "antiphon/server/body.py: return self.values > _LARGE_VALUES or self.size > _LARGE_BYTES:"
    " self.values > _LARGE_VALUES -> self.values >= _LARGE_VALUES": _SPEED,
    "antiphon/dialects/json_output.py: if isinstance(value, str) and len(value) > _LONG_STRING::"
    " len(value) > _LONG_STRING -> len(value) >= _LONG_STRING": _SPEED,
    "antiphon/server/body.py: _LARGE_BYTES = 512 * 1024: 1024 -> 1025": _SPEED,
    "antiphon/server/body.py: _LARGE_BYTES = 512 * 1024: 512 -> 513": _SPEED,
    "antiphon/core/stream/machine.py: return"
    " self._sequencer.close(block.status(ended_well=False)) + self._sequencer.advance():"
    " False -> True": "a call that is not complete has returned before",
}
