"""Translator of a recording: the items that carry the state of a provider are kept, as items."""

from __future__ import annotations

from antiphon.core.stream.blocks import Seal
from antiphon.library.translator import Translator

SEALED = "sealed"
"""Stands for state that only a gateway could seal."""


class ReplayTranslator(Translator):
    """Translates a recorded answer as a gateway did that sealed the provider's state."""

    def _make_seal(self) -> Seal:
        return lambda states, text: SEALED
