"""What a provider is: an address, what its models take, and the quirks of its dialect."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from antiphon.core.plan import Capabilities
from antiphon.core.planning import RUNGS
from antiphon.dialects.chat_request import ChatQuirks


def ladder(words: str) -> dict[str, str]:
    """A provider's word for each rung from `none` to `max`; `-` where it has none."""
    return {rung: word for rung, word in zip(RUNGS, words.split(), strict=True) if word != "-"}


class Model(Struct, frozen=True, kw_only=True):
    """A model known by name, and how it differs from the rest of its provider."""

    id: str
    capabilities: Capabilities | None = None


class Spec(Struct, frozen=True, kw_only=True):
    """The data of one provider. Facts are dated, and overridable by configuration."""

    name: str
    title: str
    as_of: str = ""
    """The month when the facts were last compared with the provider's own pages."""
    base_url: str = ""
    api_key_env: tuple[str, ...] = ()
    dialect: str = "chat"
    needs_key: bool = True
    in_process: bool = False
    any_model: bool = True
    """False: only the models listed here exist."""
    implied_finish: str | None = None
    capabilities: Capabilities = Capabilities()
    models: tuple[Model, ...] = ()
    quirks: ChatQuirks = ChatQuirks()
    headers: Mapping[str, str] = {}

    def capabilities_of(self, model: str) -> Capabilities:
        """What this model takes; the longest known name that begins the model's wins."""
        name = model.casefold()
        kin = [known for known in self.models if name.startswith(known.id.casefold())]
        best = max(kin, key=lambda known: len(known.id), default=None)
        return (best and best.capabilities) or self.capabilities
