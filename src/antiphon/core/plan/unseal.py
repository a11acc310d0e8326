"""Capsules in the history: provider state in `encrypted_content`, opened for the next request.

State of the same provider and model goes back to it. For any other model only the plain reasoning
in the capsule is used: it would reject signatures and blobs that it did not make. Nothing here
raises, because a client sends the same history with every later request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import structs

from antiphon.core.diagnostic import Code, Diagnostic, degraded
from antiphon.core.history.capsule import Capsule, Opened, Unopened, Unseal
from antiphon.core.history.steps import ReasoningStep, Step
from antiphon.core.plan.plan import Notes
from antiphon.core.web_search.memory import decode_past_searches


def unseal_history(
    steps: Iterable[Step], notes: Notes, *, issuer: str, model: str, unseal: Unseal
) -> tuple[Step, ...]:
    """Open every capsule in the history, and report those whose state is not used."""
    unused: Counter[str] = Counter()
    unsealed: list[Step] = []
    for step in steps:
        if isinstance(step, ReasoningStep) and step.encrypted is not None:
            opened, reasons = _open_step(step, unseal(step.encrypted), issuer, model)
            unused.update(reasons)
            unsealed += opened
        else:
            unsealed.append(step)
    notes.extend(_diagnostic(reason, count) for reason, count in unused.items())
    return tuple(unsealed)


def _open_step(
    step: ReasoningStep, capsule: Opened, issuer: str, model: str
) -> tuple[Sequence[Step], Sequence[str]]:
    """Restore a reasoning step, preceded by the web searches that its capsule holds; and the
    reason why its state is not used, if it is not."""
    if not isinstance(capsule, Capsule):
        return [step], [capsule]
    searches, states = decode_past_searches(capsule.states)
    is_own = (capsule.issuer, capsule.model) == (issuer, model)
    text = capsule.text or step.text
    whole = structs.replace(step, text=text, states=states if is_own else ())
    reasoning = [whole] if text or step.summary or states or not searches else []
    return [*searches, *reasoning], [Unopened.FOREIGN] if states and not is_own else []


_REASONS = {
    Unopened.FOREIGN: "was created by another provider or model",
    Unopened.TAMPERED: "was modified or truncated, or belongs to another client key",
    Unopened.UNKNOWN_KEY: "was sealed with a key that is no longer configured",
    Unopened.EXPIRED: "has expired",
}


def _diagnostic(reason: str, count: int) -> Diagnostic:
    where = "1 reasoning item" if count == 1 else f"{count} reasoning items"
    message = f"`encrypted_content` of {where} {_REASONS[Unopened(reason)]}; not sent."
    return degraded(Code.CAPSULE_UNUSED, "input", message, reason)
