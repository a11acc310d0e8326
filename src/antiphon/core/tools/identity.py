"""Tool identity map: the names of a tool at the client and at the provider.

It is built with the plan and read by the state machine. A provider only ever sees functions under
their provider names; `core.tools.restore` gives each call back the type that the client declared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from antiphon.core.tools.naming import provider_name
from antiphon.errors import ToolCollision

ToolType: TypeAlias = Literal[
    "function", "custom", "shell", "local_shell", "apply_patch", "tool_search", "web_search", "mcp"
]


class Grammar(Struct, frozen=True):
    """The grammar that the input of a custom tool must match."""

    syntax: Literal["lark", "regex"]
    definition: str


class ToolIdentity(Struct, frozen=True):
    """One tool: its name at the provider, and its name and type as the client declared them."""

    provider_name: str
    requested_name: str
    requested_type: ToolType = "function"
    namespace: str | None = None
    grammar: Grammar | None = None
    strict: bool = False
    """The client requires calls that match the schema of the tool."""


class ToolIdentityMap:
    """Two-way lookup between provider names and requested tools; a collision is an error."""

    def __init__(self, identities: Iterable[ToolIdentity] = ()) -> None:
        self._by_provider: dict[str, ToolIdentity] = {}
        self._by_requested: dict[tuple[str | None, str], ToolIdentity] = {}
        for identity in identities:
            self._add(identity)

    def _add(self, identity: ToolIdentity) -> None:
        key = (identity.namespace, identity.requested_name)
        same_provider_name = self._by_provider.setdefault(identity.provider_name, identity)
        same_requested_name = self._by_requested.setdefault(key, identity)
        if same_provider_name != identity or same_requested_name != identity:
            raise ToolCollision(
                f"Two different tools cannot share the name {identity.provider_name!r}"
                f" (requested as {identity.requested_name!r}); rename one of them."
            )

    def by_provider_name(self, name: str) -> ToolIdentity | None:
        """Find the tool that a provider calls by this name."""
        return self._by_provider.get(name)

    def by_requested_name(self, name: str, namespace: str | None = None) -> ToolIdentity | None:
        """Find the tool that the client declared under this name."""
        return self._by_requested.get((namespace, name))

    def name_for_provider(self, requested_name: str, namespace: str | None = None) -> str:
        """The provider name of a tool in the history, even if this request does not declare it."""
        known = self.by_requested_name(requested_name, namespace)
        return known.provider_name if known else provider_name(requested_name, namespace)

    def __contains__(self, provider_name: object) -> bool:
        return provider_name in self._by_provider

    def __iter__(self) -> Iterator[str]:
        """Iterate over the provider names."""
        return iter(self._by_provider)

    def __len__(self) -> int:
        return len(self._by_provider)


NO_TOOLS = ToolIdentityMap()
