"""The desk where an answer has to have the form that was promised.

1. Where the provider was asked for the form, text that begins as it should streams on as it comes.
   All other text is held back until the round is over, and so is a call of the answer tool.
2. What was held back is told if it fits: the JSON value alone, as the model wrote it. If it does
   not, the model is asked once more, with the reasons. What does not fit then is told as it is, and
   the contract makes the response fail.
3. Only a round that ended well can be a whole answer. One with a call for the client, a refusal or
   an error has promised nothing: what was held back is told in its place, untouched.
4. A client reads all messages as one. What was said beside the answer is told as reasoning.
"""

from __future__ import annotations

from collections.abc import Iterable

from antiphon.core.diagnostic import Code
from antiphon.core.filters.filter import DeltaFilter
from antiphon.core.filters.structured_repair import Draft, fitting, objected
from antiphon.core.plan.follow_up import FollowUp
from antiphon.core.plan.plan import Plan
from antiphon.core.stream.deltas import (
    Annotation,
    Delta,
    Failure,
    Finish,
    ItemEnd,
    RawItem,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolEnd,
    ToolRevision,
)
from antiphon.core.stream.finish import map_finish_reason
from antiphon.core.stream.partial_call import PartialCall
from antiphon.core.structured_output.contract import OutputContract, is_client_call

_PARAM = "text.format"


class StructuredOutputFilter(DeltaFilter):
    """One answer with a contract, over all of its rounds."""

    def __init__(self, contract: OutputContract, *, holds: bool = False) -> None:
        """`holds` keeps back even what could stream: another desk may yet ask for a round."""
        super().__init__()
        self._contract = contract
        self._openings = "" if holds or contract.degraded else _openings(contract)
        self._round = _Round()
        self._asked_again = False

    @classmethod
    def of(cls, plan: Plan) -> StructuredOutputFilter | None:
        """The desk for the answer to a plan; none if any text will do."""
        if plan.contract.requested == "text":
            return None
        return cls(plan.contract, holds=plan.search is not None)

    # Feeding

    def feed(self, delta: Delta) -> list[Delta]:
        if self._round.rejected and _says_something(delta):
            self._begin_again()
        match delta:
            case Text():
                return self._text(delta)
            case Annotation() if self._round.held:
                self._round.held.append(delta)
                return []
            case ToolCall() | ToolEnd() | ToolRevision():
                return self._call(delta)
            case Refusal() | Failure():
                return [*self._round.let_go(), delta]
            case RawItem(document) if is_client_call(document):
                return [*self._round.let_go(), delta]
            case Finish(reason):
                self._round.reason = reason or self._round.reason
        return [delta]

    def _begin_again(self) -> None:
        self._round = _Round()
        message = "The answer did not have the form that was asked for: it was asked for once more."
        self._note(Code.FORMAT_REPAIRED, _PARAM, message)

    def _text(self, delta: Text) -> list[Delta]:
        current = self._round
        if current.streams:
            return [delta]
        current.held.append(delta)
        begins = "" if current.begun else delta.text.lstrip(_SPACE)
        if not begins:
            return []
        current.begun = True
        return current.let_go() if begins[0] in self._openings else []

    def _call(self, delta: ToolCall | ToolEnd | ToolRevision) -> list[Delta]:
        current, tool = self._round, self._contract.tool
        if delta.index in current.answers:
            current.answers[delta.index].add(delta)
            return []
        if tool is None or delta.index in current.others:
            return [*current.let_go(), delta]
        call = current.heard.setdefault(delta.index, PartialCall((tool,)))
        call.add(delta)
        if not _is_named(call, tool):
            return []
        del current.heard[delta.index]
        if call.name == tool:
            current.answers[delta.index] = call
            return []
        current.others.add(delta.index)
        return [*current.let_go(), *call.deltas]

    # Closing

    def close(self, *, final: bool) -> list[Delta]:
        self.again = None
        current = self._round
        deltas = current.calls_after_all()
        if current.rejected:  # nobody was asked again: this is how it ends
            deltas += self._given_up()
        elif current.streams or map_finish_reason(current.reason).status != "completed":
            deltas += [*current.let_go(), *map(Text, current.arguments)]
        elif final:
            return self._judged()
        else:
            deltas += self._aside([current.text, *current.arguments])
        self._round = _Round()
        return deltas

    def _judged(self) -> list[Delta]:
        """The answer if it fits; else it is asked for once more, or told all the same."""
        current = self._round
        drafts = current.drafts()
        found = fitting(self._contract, drafts)
        certain = len(found) == 1
        if not certain and not self._asked_again:
            self._asked_again = current.rejected = True
            self.again = FollowUp(steps=objected(self._contract, drafts))
            return []
        deltas = self._told(found[0]) if certain else self._given_up()
        self._round = _Round()
        return deltas

    def _told(self, answer: str) -> list[Delta]:
        current = self._round
        if current.answers:
            return [*self._aside([current.text]), Text(answer)]
        if answer == current.text:
            return [*current.held]
        if answer != current.text.strip():
            message = "What stood around the JSON value was left out."
            self._note(Code.FORMAT_TRIMMED, _PARAM, message)
        notes = [delta for delta in current.held if isinstance(delta, Annotation)]
        return [Text(answer), *notes]

    def _given_up(self) -> list[Delta]:
        """The answer as it came: nothing is lost, and the contract will see it."""
        current = self._round
        if not current.answers:
            return [*current.held]
        return [*self._aside([current.text]), Text("\n".join(current.arguments))]

    def _aside(self, texts: Iterable[str]) -> list[Delta]:
        """What is no part of the answer, in an item of its own."""
        said = "\n\n".join(text.strip() for text in texts if text.strip())
        if not said:
            return []
        message = "What the model said beside its answer is told as reasoning."
        self._note(Code.FORMAT_COMMENTARY, _PARAM, message)
        return [ItemEnd(), Reasoning(said, kind="summary")]


# What a round has brought so far


class _Round:
    def __init__(self) -> None:
        self.held: list[Text | Annotation] = []
        self.begun = False
        """There was text that is more than space."""
        self.streams = False
        """Nothing is held back any more."""
        self.reason: str | None = None
        self.heard: dict[int, PartialCall] = {}
        """The calls of which it is not certain yet whose they are."""
        self.others: set[int] = set()
        """The calls that are the client's."""
        self.answers: dict[int, PartialCall] = {}
        """The calls of the answer tool."""
        self.rejected = False
        """It does not fit, and the model is asked once more."""

    @property
    def text(self) -> str:
        return "".join(delta.text for delta in self.held if isinstance(delta, Text))

    @property
    def arguments(self) -> list[str]:
        """What the answer tool was called with."""
        return [call.arguments for call in self.answers.values()]

    def drafts(self) -> list[Draft]:
        """What may be the answer: the calls of its tool, else the text."""
        drafts = [
            Draft(call.arguments, call.call_id or f"call_answer_{place}")
            for place, call in enumerate(self.answers.values())
        ]
        return drafts or [Draft(self.text)]

    def let_go(self) -> list[Delta]:
        self.streams = True
        released, self.held = self.held, []
        return [*released]

    def calls_after_all(self) -> list[Delta]:
        """Calls without a name will not get one any more: they are not of the answer tool."""
        deltas: list[Delta] = []
        for call in self.heard.values():
            deltas += [*self.let_go(), *call.deltas]
        self.heard.clear()
        return deltas


def _is_named(call: PartialCall, tool: str) -> bool:
    """Whether it is certain which tool is called: nothing else goes before the arguments."""
    whole = call.name == tool or not tool.startswith(call.name)
    return whole or bool(call.name and call.arguments)


def _says_something(delta: Delta) -> bool:
    """Whether a draft that was rejected may be forgotten: another one has begun."""
    return isinstance(delta, ToolCall | Refusal) or (isinstance(delta, Text) and bool(delta.text))


# How an answer begins

_SPACE = " \t\r\n"
_OPENINGS = {
    "object": "{",
    "array": "[",
    "string": '"',
    "boolean": "tf",
    "null": "n",
    "number": "-0123456789",
    "integer": "-0123456789",
}


def _openings(contract: OutputContract) -> str:
    """What an answer can begin with."""
    if contract.schema is None:
        return _OPENINGS["object"]
    kinds = contract.schema.get("type", list(_OPENINGS))
    named = kinds if isinstance(kinds, list) else [kinds]
    return "".join(_OPENINGS[kind] for kind in named)
