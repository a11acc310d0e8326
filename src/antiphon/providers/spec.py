"""What a provider is: an address, what its models take, and the quirks of its dialect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from antiphon.core.plan.plan import Capabilities
from antiphon.core.planning.make_plan import RUNGS

__all__ = ["Auth", "Model", "Spec", "ladder"]


def ladder(words: str) -> dict[str, str]:
    """A provider's word for each rung from `none` to `max`; `-` where it has none."""
    return {rung: word for rung, word in zip(RUNGS, words.split(), strict=True) if word != "-"}


class Auth(Struct, frozen=True, kw_only=True):
    """How a key is shown: in which header, and in what form."""

    header: str = "authorization"
    scheme: Literal["bearer", "plain", "sigv4"] = "bearer"
    """Behind the word Bearer, as it is, or as a signature by a pair of keys (`ACCESS:SECRET`, with
    `:TOKEN` if they are lent); a key that is no pair is a bearer's then, too."""
    service: str = ""
    """Which service a signature is for."""


class Model(Struct, frozen=True, kw_only=True):
    """A model known by name, and how it differs from the rest of its provider."""

    id: str
    capabilities: Capabilities | None = None
    family: bool = False
    """Not a name by itself, but how the names of a family begin."""


class Spec(Struct, frozen=True, kw_only=True):
    """The data of one provider. Facts are dated, and overridable by configuration."""

    name: str
    title: str
    as_of: str = ""
    """The month when the facts were last compared with the provider's own pages."""
    base_url: str = ""
    """Empty: everybody has an address of their own."""
    api_key_env: tuple[str, ...] = ()
    ambient_key: bool = False
    """The variable serves other purposes, too: to have it is no wish to use this provider."""
    needs_key: bool = True
    auth: Auth = Auth()
    query: Mapping[str, str] = {}
    """Parameters of every address."""
    headers: Mapping[str, str] = {}
    dialect: str = "chat"
    quirks: object | None = None
    """The dialect's own kind of them (`ChatQuirks` for `chat`); None: nothing is special."""
    implied_finish: str | None = None
    in_process: bool = False
    any_model: bool = True
    """False: only the models listed here exist."""
    capabilities: Capabilities = Capabilities()
    models: tuple[Model, ...] = ()

    def capabilities_of(self, model: str) -> Capabilities:
        """What this model takes; of the known names that it begins with, the longest counts."""
        kin = [known for known in self.models if _matches_name(known.id, model)]
        best = max(kin, key=lambda known: len(known.id), default=None)
        return (best and best.capabilities) or self.capabilities


def _matches_name(known: str, model: str) -> bool:
    """Whether a name begins like a known one, be it behind a region or an owner."""
    return re.search(rf"(?:^|[./:]){re.escape(known)}", model, re.IGNORECASE) is not None
