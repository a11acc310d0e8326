"""Provider data: base URL, authentication, model capabilities and dialect quirks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from antiphon.core.capabilities import Capabilities
from antiphon.core.plan.effort import EFFORTS

__all__ = ["HOSTED_OUTPUT", "Auth", "Model", "Spec", "parse_efforts"]


def parse_efforts(values: str) -> dict[str, str]:
    """Map each effort from `none` to `max` to the provider's value; `-` where it has none."""
    pairs = zip(EFFORTS, values.split(), strict=True)
    return {effort: value for effort, value in pairs if value != "-"}


HOSTED_OUTPUT = frozenset(
    """
    file_search_call.results web_search_call.results web_search_call.action.sources
    code_interpreter_call.outputs
    """.split()
)
"""Values of `include` for tools that a server of the Responses API runs."""


class Auth(Struct, frozen=True, kw_only=True):
    """How an API key is sent: in which header, and in what form."""

    header: str = "authorization"
    scheme: Literal["bearer", "plain", "sigv4"] = "bearer"
    """`bearer` sends `Bearer KEY`, `plain` the key itself. `sigv4` signs with a key pair
    (`ACCESS:SECRET`, with `:TOKEN` for temporary credentials); any other key is sent as bearer."""
    service: str = ""
    """The service name in a SigV4 signature."""


class Model(Struct, frozen=True, kw_only=True):
    """A model known by name, with its capabilities if they differ from the provider's default."""

    id: str
    capabilities: Capabilities | None = None
    family: bool = False
    """`id` is the prefix of a family of names, not a model name itself."""


class Spec(Struct, frozen=True, kw_only=True):
    """The data of one provider. Facts are dated; configuration overrides them."""

    name: str
    title: str
    as_of: str = ""
    """The month in which the facts were last compared with the provider's documentation."""
    base_url: str = ""
    """Empty: the operator must configure it."""
    api_key_env: tuple[str, ...] = ()
    ambient_key: bool = False
    """Other programs use the variable, too: its presence does not enable the provider."""
    needs_key: bool = True
    auth: Auth = Auth()
    query: Mapping[str, str] = {}
    """Query parameters of every request."""
    headers: Mapping[str, str] = {}
    dialect: str = "chat"
    quirks: object | None = None
    """An instance of the dialect's quirks class (`ChatQuirks` for `chat`); None: its defaults."""
    implied_finish: str | None = None
    in_process: bool = False
    any_model: bool = True
    """False: only the models listed here exist."""
    capabilities: Capabilities = Capabilities()
    models: tuple[Model, ...] = ()

    def capabilities_of(self, model: str) -> Capabilities:
        """Return the capabilities of the longest known name that `model` begins with."""
        matching = [known for known in self.models if _matches_name(known.id, model)]
        best = max(matching, key=lambda known: len(known.id), default=None)
        return (best and best.capabilities) or self.capabilities

    def knows(self, model: str) -> bool:
        """Whether the data has a model; data without any models knows nothing to the contrary."""
        return not self.models or any(_matches_name(known.id, model) for known in self.models)


def _matches_name(known: str, model: str) -> bool:
    """Whether a model name begins with a known one, optionally after a region or an owner."""
    return re.search(rf"(?:^|[./:]){re.escape(known)}", model, re.IGNORECASE) is not None
