"""`antiphon trace replay`: the events that the client of a traced request received, made again."""

from __future__ import annotations

import argparse
import os

import msgspec

from antiphon.cli.load_config import load_config_or_default
from antiphon.cli.replay import write_events
from antiphon.core.capabilities import Capabilities
from antiphon.core.client_profile import resolve_profile
from antiphon.library.replay import replay
from antiphon.providers.registry import build_providers
from antiphon.store.trace.reader import TraceDetail
from antiphon.store.trace.rows import TraceFinish, TraceStream


def replay_request(
    args: argparse.Namespace, detail: TraceDetail, asked: TraceStream, said: TraceStream
) -> int:
    """Translate what the provider said as the gateway did: with its dialect, for the request and
    the software of the client."""
    finish = detail.finish
    request = detail.request
    events = replay(
        said.blob,
        dialect=(finish and finish.dialect) or "chat",
        request=msgspec.json.decode(asked.blob, type=dict),
        capabilities=_find_capabilities(args, finish),
        client=resolve_profile("", request.software if request else "", {}).name,
    )
    write_events(events)
    return 0


def _find_capabilities(args: argparse.Namespace, finish: TraceFinish | None) -> Capabilities | None:
    """Find what the model that answered supports; None if its provider is not configured now."""
    if finish is None:
        return None
    config = load_config_or_default(args.config, needs=())
    provider = build_providers(config, os.environ).get(finish.provider)
    return None if provider is None else provider.capabilities(finish.provider_model)
