"""Profiles: clients that read the same answer differently are spoken to differently.

A row of `PROFILES` says what is known of one kind of client; a request tells its kind by the header
`originator` or by its user agent. An operator may know better, for one kind or for all. What a
profile really changes in an answer is a diagnostic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct, structs

from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.faults.fault import ProviderFault, is_permanent

EVERYONE = "*"
"""The name, in a configuration, of what counts for every client."""

_PASSING = frozenset({400, 408, 425, 426, 429})
"""What a client understands as it is: it is final, or it says how to go on."""


class Profile(Struct, frozen=True, kw_only=True):
    """How one kind of client is spoken to."""

    name: str = "other"
    refusals: Literal["refusal", "text"] = "refusal"
    permanent_errors: Literal["exact", "400"] = "exact"
    keepalive: Literal["event", "comment"] = "event"

    def status(self, status: int, *, permanent: bool = False) -> int:
        """The status that this client is told; `permanent` where the status does not say so."""
        permanent = permanent or (400 <= status < 500 and status not in _PASSING)
        return 400 if permanent and self.permanent_errors == "400" else status

    def code(self, fault: ProviderFault) -> str:
        """The code that this client is told inside of a stream."""
        code = fault.public_code
        final = self.permanent_errors == "400" and code == "server_error" and is_permanent(fault)
        return "invalid_prompt" if final else code


_CODEX = Profile(
    name="codex",
    refusals="text",  # it drops a message with a refusal, and the turn ends without a word
    permanent_errors="400",  # it repeats a request six times after other statuses and codes
)

Signs: TypeAlias = tuple[re.Pattern[str], Profile]

# The first that fits. Frameworks stand before the libraries that they are built on, whose names
# their user agents often hold, too. Seen in October 2026.
_SIGNS: tuple[Signs, ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), profile)
    for pattern, profile in (
        (r"^codex", _CODEX),
        (r"^opencode\b", Profile(name="opencode")),
        (r"^agents/", Profile(name="openai-agents")),
        (r"\blangchain", Profile(name="langchain")),
        (r"\bpydantic-ai\b", Profile(name="pydantic-ai")),
        (r"\bai-sdk\b", Profile(name="ai-sdk")),
        (r"openai/python\b", Profile(name="openai-python")),
        (r"openai/js\b", Profile(name="openai-node")),
    )
)
OTHER = Profile()
"""Whoever is not known."""

PROFILES: Mapping[str, Profile] = {
    profile.name: profile for profile in (*(profile for _, profile in _SIGNS), OTHER)
}
"""By name."""

Overrides: TypeAlias = Mapping[str, Mapping[str, Any]]
"""What an operator says, by a profile's name or `*`, and field by field; None says nothing."""


def resolve(originator: str, user_agent: str, overrides: Overrides) -> Profile:
    """The profile of whoever sent a request with these headers."""
    said = (originator, user_agent)
    found = (profile for sign, profile in _SIGNS if any(map(sign.search, said)))
    profile = next(found, OTHER)
    for name in (EVERYONE, profile.name):
        given = {key: value for key, value in overrides.get(name, {}).items() if value is not None}
        profile = structs.replace(profile, **given)
    return profile


# What became of an answer


def error_as_400(profile: Profile, status: int) -> Diagnostic:
    message = f"The status is 400 and not {status}: {profile.name} would ask again and again."
    return _note(Code.CLIENT_ERROR_AS_400, message, str(status))


def error_as_final(profile: Profile, code: str) -> Diagnostic:
    message = f"The code is invalid_prompt, not {code}: {profile.name} would ask again and again."
    return _note(Code.CLIENT_ERROR_AS_400, message, code)


def keepalive_as_comment(profile: Profile) -> Diagnostic:
    message = f"Silence is bridged with comments: {profile.name} does not take unknown events."
    return _note(Code.CLIENT_KEEPALIVE, message, profile.name)


def _note(code: Code, message: str, subject: str) -> Diagnostic:
    return Diagnostic(
        code=code, decision=Decision.DEGRADED, param="client", message=message, subject=subject
    )
