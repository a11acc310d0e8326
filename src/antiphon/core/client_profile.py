"""Client profiles: what Antiphon sends differently to clients that need it.

`PROFILES` has one row for each kind of client, recognized by the `originator` header or the user
agent. The configuration may override a profile, for one kind of client or for all. Whatever a
profile changes in a response is reported as a diagnostic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct, structs

from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.faults.fault import ProviderFault, is_permanent

ALL_CLIENTS = "*"
"""The name in the configuration for overrides that apply to every client."""

_MAX_SOFTWARE = 100  # characters
_UNDERSTOOD_STATUSES = frozenset({400, 408, 425, 426, 429})
"""4xx statuses that need no change: 400 is final already, the others may be retried."""


class Profile(Struct, frozen=True, kw_only=True):
    """The response variants that one kind of client receives."""

    name: str = "other"
    refusals: Literal["refusal", "text"] = "refusal"
    permanent_errors: Literal["exact", "400"] = "exact"
    keepalive: Literal["event", "comment"] = "event"
    ends_with_text: bool = False
    """The client takes the last block of a message as its result: state of the provider that comes
    after the text is left out (ADR 0094)."""
    optional_tools: frozenset[str] = frozenset()
    """Hosted tools that the client sends unasked: left out, not refused, if they cannot be run."""
    software: str = ""
    """The client's own name and version, as its headers have them; for the trace."""

    def status(self, status: int, *, permanent: bool = False) -> int:
        """The HTTP status for this client; `permanent` where the status itself does not show it."""
        permanent = permanent or (400 <= status < 500 and status not in _UNDERSTOOD_STATUSES)
        return 400 if permanent and self.permanent_errors == "400" else status

    def code(self, fault: ProviderFault) -> str:
        """The `error.code` for this client inside a stream."""
        code = fault.public_code
        final = self.permanent_errors == "400" and code == "server_error" and is_permanent(fault)
        return "invalid_prompt" if final else code


_CODEX = Profile(
    name="codex",
    refusals="text",  # it drops a refusal message, and the turn ends without any output
    permanent_errors="400",  # it retries six times after other statuses and codes
    optional_tools=frozenset({"web_search", "image_generation"}),
)

_CLAUDE_CODE = Profile(
    name="claude-code",
    refusals="text",  # it replaces the text of a refusal by its own, and asks again
    ends_with_text=True,
)

ClientPattern: TypeAlias = tuple[re.Pattern[str], Profile]

# The first match counts. Frameworks come before the libraries that they are built on, because
# their user agents often contain the library's, too. Seen in October 2026.
_CLIENT_PATTERNS: tuple[ClientPattern, ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), profile)
    for pattern, profile in (
        (r"^codex", _CODEX),
        (r"^claude-(cli|code)/", _CLAUDE_CODE),
        (r"^opencode\b", Profile(name="opencode")),
        (r"^agents/", Profile(name="openai-agents")),
        (r"\blangchain", Profile(name="langchain")),
        (r"\bpydantic-ai\b", Profile(name="pydantic-ai")),
        (r"\bai-sdk\b", Profile(name="ai-sdk")),
        (r"openai/python\b", Profile(name="openai-python")),
        (r"openai/js\b", Profile(name="openai-node")),
        (r"anthropic/python\b", Profile(name="anthropic-python")),
        (r"anthropic/js\b", Profile(name="anthropic-ts")),
    )
)
OTHER = Profile()
"""The profile of an unrecognized client."""

PROFILES: Mapping[str, Profile] = {
    profile.name: profile for profile in (*(profile for _, profile in _CLIENT_PATTERNS), OTHER)
}
"""Every profile by its name."""

Overrides: TypeAlias = Mapping[str, Mapping[str, Any]]
"""The configured fields by profile name or `*`; a field that is None is not set."""


def resolve_profile(originator: str, user_agent: str, overrides: Overrides) -> Profile:
    """Find the profile for a request with these headers, and apply the configured overrides."""
    headers = (originator, user_agent)
    matching = (
        profile for pattern, profile in _CLIENT_PATTERNS if any(map(pattern.search, headers))
    )
    profile = next(matching, OTHER)
    for name in (ALL_CLIENTS, profile.name):
        override = {
            key: value for key, value in overrides.get(name, {}).items() if value is not None
        }
        profile = structs.replace(profile, **override)
    return profile


def name_software(originator: str, user_agent: str) -> str:
    """Return the name and version that a client gives itself, without comments such as its system;
    its profile can be found by it."""
    known = user_agent.lower().startswith(originator.lower())
    text = (user_agent if known else f"{originator} {user_agent}").partition(" (")[0]
    return "".join(filter(str.isprintable, text))[:_MAX_SOFTWARE].strip()


# Diagnostics


def error_as_400(profile: Profile, status: int) -> Diagnostic:
    message = f"The status is 400 instead of {status}: {profile.name} would retry."
    return _client_diagnostic(Code.CLIENT_ERROR_AS_400, message, str(status))


def error_as_final(profile: Profile, code: str) -> Diagnostic:
    message = f"The code is invalid_prompt instead of {code}: {profile.name} would retry."
    return _client_diagnostic(Code.CLIENT_ERROR_AS_400, message, code)


def keepalive_as_comment(profile: Profile) -> Diagnostic:
    message = f"Keepalives are SSE comments: {profile.name} does not accept unknown events."
    return _client_diagnostic(Code.CLIENT_KEEPALIVE, message, profile.name)


def _client_diagnostic(code: Code, message: str, subject: str) -> Diagnostic:
    return Diagnostic(
        code=code, decision=Decision.DEGRADED, param="client", message=message, subject=subject
    )
