"""Translator: one request and its response, translated without any input or output of its own.

It makes the provider's request from that of a client in any of its formats, and the events of this
format from the bytes of the provider's response. The caller sends and receives these bytes with an
HTTP client of its choice. Nothing here reads a clock, a file or the environment, and nothing is
random but the nonces of capsules, unless the caller hands in these as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from antiphon.config import suggest
from antiphon.core.client_profile import OTHER, PROFILES, Profile
from antiphon.core.diagnostic import Diagnostic
from antiphon.core.events import Event
from antiphon.core.faults.fault import connection_fault, protocol_fault
from antiphon.core.history.capsule import Opened, Sealer, Unopened
from antiphon.core.plan.hosted_tools import REFUSE, HostedToolPolicy
from antiphon.core.plan.next_round import FinishedRound, plan_next_round
from antiphon.core.plan.plan import Plan
from antiphon.core.plan.planner import ModelTarget, PlanInputs, Planner
from antiphon.core.response import Response
from antiphon.core.stream.blocks import Seal
from antiphon.core.stream.numbered_ids import number_ids
from antiphon.core.stream.source import Source
from antiphon.core.translation.next_step import Calls, Round
from antiphon.core.translation.translation import Translation, make_translation
from antiphon.dialects.responses.create_response import create_response
from antiphon.errors import InvalidRequest
from antiphon.library.formats import Format, RenderedDocuments, find_format
from antiphon.providers.dialect_plugins import make_dialect
from antiphon.providers.registry import known_specs
from antiphon.providers.spec import Spec
from antiphon.server.body import decode_body
from antiphon.stages.builtin import make_changing_stages
from antiphon.stages.pipeline import Batch, Pipeline

SEALED = "sealed"
"""Stands for state that only a gateway could seal."""


class OutboundRequest(Struct, frozen=True, kw_only=True):
    """The HTTP request to send to the provider. Its authentication is added by the caller."""

    method: str = "POST"
    path: str
    """Below the provider's base URL."""
    headers: Mapping[str, str]
    body: bytes


class Capsules:
    """Seals and opens the capsules of one owner."""

    def __init__(self, sealer: Sealer, owner: str) -> None:
        self.seal = partial(sealer.seal, owner)
        self.open = partial(sealer.open, owner)


class Translator:
    """One response: `outbound` is the request to send, `feed` and `close` take its response."""

    _hosted_tools: ClassVar[HostedToolPolicy] = REFUSE

    def __init__(
        self,
        request: Mapping[str, Any],
        *,
        provider: str | Spec,
        model: str = "",
        history: Sequence[Mapping[str, Any]] = (),
        follow_ups: bool = False,
        client: str = OTHER.name,
        format: Format = "responses",
        new_id: Callable[[str], str] | None = None,
        now: Callable[[], int] = lambda: 0,
        capsule_keys: Sequence[str] = (),
        owner: str = "",
        new_nonce: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """`request` is the request as a client of the format `format` sent it, `provider` the name
        of a provider or its data, `model` the provider's name of the model, if it differs.
        `history` holds the items before `input`, `client` is the name of a client profile.

        By default, ids are numbered and times are 0. With `follow_ups`, a response that should be
        corrected leaves the response open: `outbound` is the next request then.

        What a provider needs again in the next turn (signatures, encrypted reasoning) is sealed
        into `encrypted_content` with the first of `capsule_keys` and opened with any of them, for
        the same `owner` only. Without a key it is left out, with the diagnostic `state.dropped`.
        `new_nonce` returns random bytes that are never the same again.
        """
        dialect = find_format(format)
        self._request = dialect.parse(decode_body(msgspec.json.encode(request)))
        self._spec = provider if isinstance(provider, Spec) else _find_spec(provider)
        self._dialect = make_dialect(self._spec)
        self._follow_ups = follow_ups
        self._capsules = (
            Capsules(Sealer(capsule_keys, new_nonce=new_nonce, now=now), owner)
            if capsule_keys
            else None
        )
        profile = PROFILES.get(client, OTHER)
        self._plan = self._make_plan(history, model or self._request.model)
        self._source = self._make_source()
        self._translation = self._make_translation(new_id or number_ids(), now, profile)
        self._pipeline = Pipeline(make_changing_stages(self._plan, profile))
        self._rendered = RenderedDocuments(dialect, self._request, profile)
        self._response: Response | None = None
        self._outbound: OutboundRequest | None = None

    def _make_plan(self, history: Sequence[Mapping[str, Any]], model: str) -> Plan:
        name = self._spec.name
        target = ModelTarget(name, model, self._spec.capabilities_of(model), issuer=name)
        inputs = PlanInputs(
            history=[*map(dict, history)],
            unseal=self._open_capsule,
            hosted_tools=self._hosted_tools,
        )
        return Planner(self._request, inputs).plan(target)

    def _make_seal(self) -> Seal | None:
        """Make what turns a provider's state into `encrypted_content`; None: state is dropped."""
        if self._capsules is None:
            return None
        return partial(self._capsules.seal, self._plan.provider, self._plan.model)

    def _open_capsule(self, sealed: str) -> Opened:
        return Unopened.UNKNOWN_KEY if self._capsules is None else self._capsules.open(sealed)

    def _make_source(self) -> Source:
        return Source(
            self._dialect.for_client(self._request.client_format),
            guards=self._spec.capabilities_of(self._plan.model).guards,
            seal=self._make_seal(),
            describe=partial(self._dialect.describe, provider=self._plan.provider),
        )

    def _make_translation(
        self, new_id: Callable[[str], str], now: Callable[[], int], profile: Profile
    ) -> Translation:
        response = create_response(
            self._request, response_id=new_id("resp"), created_at=now(), used=self._plan.used
        )
        translation = make_translation(
            self._plan,
            self._source,
            response,
            new_id=new_id,
            now=now,
            profile=profile,
            reminders=self._follow_ups,
        )
        translation.note_request(self._plan)
        return translation

    @property
    def outbound(self) -> OutboundRequest:
        """The request to send to the provider now."""
        if self._outbound is None:
            self._outbound = self._encode()
        return self._outbound

    @property
    def ended(self) -> bool:
        """Whether the terminal event has been returned."""
        return self._response is not None

    @property
    def response(self) -> dict[str, Any]:
        """The response as it stands, complete once `ended` is true; in the client's format."""
        return self._rendered.whole(self._response or self._translation.machine.snapshot)

    @property
    def diagnostics(self) -> list[dict[str, Any]]:
        """What was degraded or dropped, in the request and in the response."""
        found: list[Diagnostic] = [*self._plan.diagnostics, *self._translation.machine.diagnostics]
        return [msgspec.to_builtins(self._rendered.rename(diagnostic)) for diagnostic in found]

    def feed(self, chunk: bytes) -> list[dict[str, Any]]:
        """Take bytes of a streamed response, and return the events that come of them."""
        return self._release(self._translation.feed(chunk))

    def feed_whole(self, body: bytes) -> list[dict[str, Any]]:
        """Take the whole body of a response that is not streamed, and return all its events."""
        return self._release(self._translation.feed_whole(body) + self._settle())

    def close(self) -> list[dict[str, Any]]:
        """End the response: the provider has closed the stream."""
        return self._release(self._translation.close() + self._settle())

    def fail(self, message: str) -> list[dict[str, Any]]:
        """End the response with an error: the connection to the provider broke."""
        return self._release(self._translation.connection_lost(connection_fault(message)))

    def _encode(self) -> OutboundRequest:
        outbound = self._dialect.encode(self._plan, stream=self._request.stream)
        headers = {"content-type": "application/json", **self._spec.headers, **outbound.headers}
        return OutboundRequest(path=outbound.path, headers=headers, body=outbound.body)

    def _settle(self) -> list[Event]:
        """End a round: prepare the next request, or do without it."""
        translation = self._translation
        wanted = translation.next
        if isinstance(wanted, Round) and self._follow_ups:
            self._begin_round(wanted)
            return []
        if isinstance(wanted, Round):  # a gateway would have asked again
            translation.begin_round()
        if isinstance(wanted, Calls | Round):
            return translation.give_up_round(protocol_fault("no further request was made"))
        return []

    def _begin_round(self, wanted: Round) -> None:
        self._translation.begin_round()
        self._translation.read_from(self._source)
        finished = FinishedRound(wanted.items, wanted.follow_up)
        issuer = self._plan.provider
        self._plan = plan_next_round(self._plan, finished, issuer=issuer, unseal=self._open_capsule)
        self._translation.note_request(self._plan)
        self._outbound = None  # another one is made from the new plan

    def _release(self, events: list[Event]) -> list[dict[str, Any]]:
        """Check a finished response against its contract, and render the events."""
        batch = self._pipeline.feed(
            Batch(events, self._translation.machine.fault, self._translation.path.refused)
        )
        released = self._rendered.feed(batch.events)
        if self._translation.machine.has_ended and batch.events and self._response is None:
            self._response = getattr(batch.events[-1], "response", None)
        return released


class ReplayTranslator(Translator):
    """Translates a recorded response as a gateway did that sealed the provider's state: the items
    that carry the state are kept, as items. A tool that nothing here could run was not refused."""

    _hosted_tools = HostedToolPolicy(unavailable="ignore")

    def _make_seal(self) -> Seal:
        return lambda states, text: SEALED


def _find_spec(provider: str) -> Spec:
    specs = known_specs()
    if provider not in specs:
        raise InvalidRequest(
            f"The provider {provider!r} is unknown; {suggest(provider, specs)}", param="provider"
        )
    return specs[provider]
