"""Filter for structured outputs: the answer must have the requested format (`text.format`).

1. Where the provider enforces the format, text that begins like an answer streams as it comes. All
   other text is held back until the round is over, and so is a call of the answer tool.
2. When the round is over, what was held back is sent if it is valid: the JSON value alone, as the
   model wrote it. If it is not, the model is asked once more, with the reasons. Output that
   is not valid then is sent as it is, and the output contract makes the response fail.
3. Only a round that completed can be an answer. One with a call for the client, a refusal or an
   error has promised nothing: what was held back is sent where it was, unchanged.
4. A client reads all messages as one. Text beside the answer is sent as reasoning.
"""

from __future__ import annotations

from collections.abc import Iterable

from antiphon.core.deltas import (
    Annotation,
    BlockMembers,
    BlockStart,
    Delta,
    Failure,
    Finish,
    ItemEnd,
    RawItem,
    RawItemStarted,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolEnd,
    ToolRevision,
)
from antiphon.core.diagnostic import Code
from antiphon.core.filters.call_watcher import CallDelta, CallWatcher, PartialCall
from antiphon.core.filters.filter import DeltaFilter, FinishReason, FollowUp, RoundEnd, RoundWish
from antiphon.core.structured_output.contract import OutputContract, is_client_call
from antiphon.core.structured_output.repair import (
    AnswerDraft,
    ask_for_correction,
    find_valid_answers,
)


class StructuredOutputFilter(DeltaFilter):
    """One response with an output contract, over all of its rounds."""

    def __init__(self, contract: OutputContract, *, holds: bool = False) -> None:
        """`holds` holds back even what could stream: another filter may yet want a round."""
        self._contract = contract
        self._openings = "" if holds or contract.degraded else _first_characters(contract)
        self._has_asked = False
        self._round = self._new_round()

    def _new_round(self, *, is_correction: bool = False) -> _AnswerRound:
        tool = self._contract.tool
        watcher = None if tool is None else CallWatcher((tool,), self._is_named)
        return _AnswerRound(watcher, is_correction=is_correction)

    def _is_named(self, call: PartialCall) -> bool:
        """Whether the name is complete: only names come before the arguments."""
        tool = self._contract.tool or ""
        is_decided = call.name == tool or not tool.startswith(call.name)
        return is_decided or bool(call.name and call.arguments)

    # During a round

    def feed(self, delta: Delta) -> list[Delta]:
        if self._round.rejected and _begins_answer(delta):
            self._round = self._new_round(is_correction=True)
        match delta:
            case Text():
                return self._feed_text(delta)
            case Annotation() | BlockStart() | BlockMembers() if self._round.held:
                self._round.held.append(delta)
                return []
            case ToolCall() | ToolEnd() | ToolRevision():
                return self._feed_call(delta)
            case Refusal() | Failure():
                return [*self._round.release_text(), delta]
            case RawItem(document=document) | RawItemStarted(document=document) if is_client_call(
                document
            ):
                return [*self._round.release_text(), delta]
            case Finish():
                self._round.finish.feed(delta)
        return [delta]

    def _feed_text(self, delta: Text) -> list[Delta]:
        current = self._round
        if current.is_correction:
            current.correction.append(delta.text)
        if current.streams:
            return [delta]
        beginning = current.hold_text(delta)
        return current.release_text() if beginning and beginning[0] in self._openings else []

    def _feed_call(self, delta: CallDelta) -> list[Delta]:
        current = self._round
        if delta.index in current.answers:
            current.answers[delta.index].add(delta)
            return []
        watcher = current.watcher
        if watcher is None or delta.index in watcher.passed:
            return [*current.release_text(), delta]
        call = watcher.add(delta)
        if call is None:
            return []
        if call.name == self._contract.tool:
            current.answers[delta.index] = call
            return []
        watcher.passed.add(delta.index)
        return [*current.release_text(), *call.deltas]

    # The end of a round

    def close(self, *, final: bool) -> RoundEnd:
        deltas = self._round.release_partial_calls()
        current = self._round
        if current.rejected:  # the second attempt has no answer: the first one is sent
            deltas += self._send_as_it_is()
        elif current.streams or not current.finish.is_complete:
            # It has been sent, or promises nothing: `{"city": "Ul` with finish reason `length`.
            if current.is_correction and self._contract.is_valid("".join(current.correction)):
                self._report_repair()
            deltas += self._send_unchecked()
        elif not final:  # another filter wants a round: the answer comes in that one
            deltas += self._send_as_reasoning([current.text, *current.arguments])
        else:
            return self._send_checked()
        self._round = self._new_round()
        return RoundEnd(deltas)

    def give_up(self) -> list[Delta]:
        deltas = self._round.release_partial_calls()
        deltas += self._send_as_it_is() if self._round.rejected else self._send_unchecked()
        self._round = self._new_round()
        return deltas

    def _send_checked(self) -> RoundEnd:
        """Send the answer if there is exactly one that is valid; otherwise ask for it, once."""
        drafts = self._round.drafts()
        valid = find_valid_answers(self._contract, drafts)
        if len(valid) == 1:
            if self._round.is_correction:
                self._report_repair()
            deltas = self._send_answer(valid[0])
        elif self._has_asked:
            deltas = self._send_as_it_is()
        else:
            self._has_asked = True
            self._round.reject()
            return RoundEnd(
                wish=RoundWish(FollowUp(steps=ask_for_correction(self._contract, drafts)))
            )
        self._round = self._new_round()
        return RoundEnd(deltas)

    def _report_repair(self) -> None:
        param = self._contract.param
        message = f"The answer did not match `{param}`; the model has corrected it."
        self._note(Code.FORMAT_REPAIRED, param, message)

    def _send_answer(self, answer: str) -> list[Delta]:
        current = self._round
        if current.answers:  # a call of the answer tool
            return [*self._send_as_reasoning([current.text]), Text(answer)]
        if answer == current.text:  # deltas as they came, with their log probabilities
            return [*current.held]
        if answer != current.text.strip():  # `Here it is: {"city": "Ulm"}`
            param = self._contract.param
            message = f"The text around the JSON value was removed: `{param}` allows none."
            self._note(Code.FORMAT_TRIMMED, param, message)
        annotations = [delta for delta in current.held if isinstance(delta, Annotation)]
        return [Text(answer), *annotations]

    def _send_as_it_is(self) -> list[Delta]:
        """Send an answer that is not valid: nothing is lost, and the contract will reject it."""
        current = self._round
        if not current.answers:
            return [*current.held]
        return [*self._send_as_reasoning([current.text]), Text("\n".join(current.arguments))]

    def _send_unchecked(self) -> list[Delta]:
        return [*self._round.release_text(), *map(Text, self._round.arguments)]

    def _send_as_reasoning(self, texts: Iterable[str]) -> list[Delta]:
        """Send text that is not part of the answer, in an item of its own."""
        text = "\n\n".join(text.strip() for text in texts if text.strip())
        if not text:
            return []
        param = self._contract.param
        message = f"The text beside the `{param}` answer is sent as reasoning."
        self._note(Code.FORMAT_COMMENTARY, param, message)
        return [ItemEnd(), Reasoning(text, kind="summary")]


class _AnswerRound:
    """What the current round has brought so far."""

    def __init__(self, watcher: CallWatcher | None, *, is_correction: bool) -> None:
        self.watcher = watcher
        """None: there is no answer tool, so all calls are the client's."""
        self.held: list[Text | Annotation | BlockStart | BlockMembers] = []
        self._begun = False  # there was text other than white space
        self.streams = False
        """Nothing is held back any more."""
        self.finish = FinishReason()
        self.answers: dict[int, PartialCall] = {}
        """Calls of the answer tool."""
        self.rejected = False
        """The answer is not valid, and the model is asked once more."""
        self.is_correction = is_correction
        """The model has been asked once more, and this is its second answer."""
        self.correction: list[str] = []
        """The text of the second answer, also what has been sent of it."""

    @property
    def text(self) -> str:
        return "".join(delta.text for delta in self.held if isinstance(delta, Text))

    @property
    def arguments(self) -> list[str]:
        """The arguments of the calls of the answer tool."""
        return [call.arguments for call in self.answers.values()]

    def drafts(self) -> list[AnswerDraft]:
        """What may be the answer: the calls of the answer tool, or else the text."""
        drafts = [
            AnswerDraft(call.arguments, call.call_id or f"call_answer_{index}")
            for index, call in enumerate(self.answers.values())
        ]
        return drafts or [AnswerDraft(self.text)]

    def hold_text(self, delta: Text) -> str:
        """Hold text back. Return it if it is the beginning, without the white space before it."""
        self.held.append(delta)
        beginning = "" if self._begun else delta.text.lstrip(_SPACE)
        self._begun = self._begun or bool(beginning)
        return beginning

    def reject(self) -> None:
        self.rejected = True

    def release_text(self) -> list[Delta]:
        self.streams = True
        released, self.held = self.held, []
        return [*released]

    def release_partial_calls(self) -> list[Delta]:
        """Calls without a complete name will not get one any more: they are the client's."""
        deltas: list[Delta] = []
        for call in [] if self.watcher is None else self.watcher.take_all():
            deltas += [*self.release_text(), *call.deltas]
        return deltas


def _begins_answer(delta: Delta) -> bool:
    """Whether a second attempt begins with this delta, so that the first may be forgotten."""
    return isinstance(delta, ToolCall | Refusal) or (isinstance(delta, Text) and bool(delta.text))


_SPACE = " \t\r\n"
_FIRST_CHARACTERS = {
    "object": "{",
    "array": "[",
    "string": '"',
    "boolean": "tf",
    "null": "n",
    "number": "-0123456789",
    "integer": "-0123456789",
}


def _first_characters(contract: OutputContract) -> str:
    """The characters that a JSON value of the schema can begin with."""
    if contract.schema is None:
        return _FIRST_CHARACTERS["object"]
    kinds = contract.schema.get("type", list(_FIRST_CHARACTERS))
    types = kinds if isinstance(kinds, list) else [kinds]
    return "".join(_FIRST_CHARACTERS[kind] for kind in types)
