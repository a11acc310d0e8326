"""From a provider's bytes to events: framer → decoder → machine, and no way out but a good one.

However the upstream behaves, and whatever goes wrong on the way, the events of a bridge begin with
`response.created` and end with exactly one terminal event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from antiphon.core.deltas import Delta, RawItem, Refusal, Start, Text, ToolCall
from antiphon.core.faults import ProviderFault, internal_fault, protocol_fault
from antiphon.core.machine import Phase, ResponseMachine
from antiphon.dialects.dialect import Dialect, StreamDecoder
from antiphon.dialects.guard import GuardedDecoder, build_guards, guarded
from antiphon.errors import BridgeError
from antiphon.wire.events import Event
from antiphon.wire.sse import Frame


class Bridge:
    """One answer of one provider. Streamed: `feed` and `close`. Whole: `answer`."""

    def __init__(
        self, machine: ResponseMachine, dialect: Dialect, guards: Sequence[str] = ()
    ) -> None:
        """`guards` names what this model is known to leak into its text."""
        self._machine = machine
        self._dialect = dialect
        self._guards = build_guards(guards)
        self._framer = dialect.framer()
        self._decoder: StreamDecoder = dialect.decoder()
        if self._guards:
            self._decoder = GuardedDecoder(self._decoder, self._guards)
        self.frames = 0
        """How many have come: whoever waits for an answer does not count the bytes between."""

    @property
    def ended(self) -> bool:
        return self._machine.phase not in _ALIVE

    @property
    def finishing(self) -> bool:
        """The provider has said why it stopped; only usage is still worth waiting for."""
        return self._machine.pending_finish is not None

    @property
    def fault(self) -> ProviderFault | None:
        """Why the answer failed, if a fault is why."""
        return self._machine.fault

    def start(self) -> list[Event]:
        """Begin before the provider has said anything; nothing happens if it has."""
        return self._started()

    def feed(self, chunk: bytes) -> list[Event]:
        """What this read of the network makes the client see."""
        return self._guarded(lambda events: self._read(self._framer.feed(chunk), events))

    def close(self) -> list[Event]:
        """The upstream has closed: the terminal event, unless it has left already."""
        return self._guarded(self._close)

    def answer(self, body: bytes) -> list[Event]:
        """A whole answer: a stream of one chunk, with a message even if it is empty."""
        return self._guarded(lambda events: self._whole(body, events))

    def fail(self, fault: ProviderFault) -> list[Event]:
        """End the answer with an error; nothing happens to one that has ended."""
        if self.ended:
            return []
        return self._started() + self._machine.fail(fault)

    def _guarded(self, step: Callable[[list[Event]], None]) -> list[Event]:
        """The events of a step. If it breaks, it keeps what it has earned, and the answer fails."""
        events: list[Event] = []
        if self.ended:
            return events
        try:
            step(events)
        except BridgeError as error:
            events += self.fail(protocol_fault(error.message, code=error.code.rpartition(".")[2]))
        except Exception as error:  # a bug of ours is no reason to leave a client hanging
            events += self.fail(internal_fault(error))
        return events

    def _read(self, frames: Sequence[Frame], events: list[Event]) -> None:
        self.frames += len(frames)
        for frame in frames:
            self._take(self._decoder.feed(frame), events)
            if self._decoder.ended:
                self._finish(events)
            if self.ended:
                break

    def _close(self, events: list[Event]) -> None:
        self._read(self._framer.close(), events)
        self._finish(events)

    def _whole(self, body: bytes, events: list[Event]) -> None:
        deltas = guarded(self._dialect.decode(body), self._guards)
        self._take(deltas, events)
        if self.ended:
            return
        events += self._started()
        if not any(map(_answers, deltas)):
            events += self._machine.empty_message()
        events += self._machine.finish()

    def _finish(self, events: list[Event]) -> None:
        if not self.ended:
            self._take(self._decoder.close(), events)
        if not self.ended:
            events += self._started()
            events += self._machine.finish()

    def _take(self, deltas: Sequence[Delta], events: list[Event]) -> None:
        if deltas:
            events += self._started(deltas)
        for delta in deltas:
            if self.ended:
                break
            events += self._machine.feed(delta)

    def _started(self, deltas: Sequence[Delta] = ()) -> list[Event]:
        if self._machine.phase is not Phase.IDLE:
            return []
        models = (delta.model for delta in deltas if isinstance(delta, Start))
        return self._machine.start(next(models, None))


_ALIVE = frozenset({Phase.IDLE, Phase.IN_PROGRESS})


def _answers(delta: Delta) -> bool:
    """It makes an item that a whole answer would otherwise lack."""
    if isinstance(delta, Text | Refusal):
        return bool(delta.text)
    return isinstance(delta, ToolCall | RawItem)
