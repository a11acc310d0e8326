"""Opening what a client carried for us: sealed provider state goes back into the history.

A capsule speaks only to the provider and model that made it. To anybody else it gives the plain
reasoning it holds, and its signatures and blobs stay unused: they would be refused. Nothing here
raises, since what stands in a history was sent before and will be sent again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import structs

from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.history.capsule import Capsule, Opened, Unopened, Unseal
from antiphon.core.history.steps import ReasoningStep, Step
from antiphon.core.web_search.memory import decode_past_searches


def unseal_history(
    steps: Iterable[Step], *, issuer: str, model: str, unseal: Unseal
) -> tuple[tuple[Step, ...], list[Diagnostic]]:
    """The steps with every capsule opened that can be, and what was lost with the others."""
    losses: Counter[str] = Counter()
    open_objects: list[Step] = []
    for step in steps:
        if isinstance(step, ReasoningStep) and step.encrypted is not None:
            reminded, loss = _reminded(step, unseal(step.encrypted), issuer, model)
            losses.update(loss)
            open_objects += reminded
        else:
            open_objects.append(step)
    return tuple(open_objects), [_diagnostic(why, count) for why, count in losses.items()]


def _reminded(
    thought: ReasoningStep, capsule: Opened, issuer: str, model: str
) -> tuple[Sequence[Step], Sequence[str]]:
    """The thought as it was, behind the searches that led to it."""
    if not isinstance(capsule, Capsule):
        return [thought], [capsule]
    searches, states = decode_past_searches(capsule.states)
    is_own = (capsule.issuer, capsule.model) == (issuer, model)
    text = capsule.text or thought.text
    whole = structs.replace(thought, text=text, states=states if is_own else ())
    thoughts = [whole] if text or thought.summary or states or not searches else []
    return [*searches, *thoughts], [Unopened.FOREIGN] if states and not is_own else []


_REASONS = {
    Unopened.FOREIGN: "was made by another provider or model",
    Unopened.TAMPERED: "was altered or cut on its way",
    Unopened.UNKNOWN_KEY: "was sealed with a key that is not here any more",
    Unopened.EXPIRED: "has expired",
}


def _diagnostic(why: str, count: int) -> Diagnostic:
    what = "1 reasoning item" if count == 1 else f"{count} reasoning items"
    return Diagnostic(
        code=Code.CAPSULE_UNUSED,
        decision=Decision.DEGRADED,
        param="input",
        subject=why,
        message=f"The sealed state of {what} {_REASONS[Unopened(why)]}; it goes unused.",
    )
