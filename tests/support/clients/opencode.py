"""opencode without a network: its configuration, and its environment."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.clients.gateway import KEY, MODEL, OFFLINE, ClientGateway

OPENCODE_ENVIRONMENT = {
    **OFFLINE,  # it looks for newer packages, and goes on without them
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_PURE": "1",
}


def write_config(setup: ClientGateway, package: str) -> Path:
    """Write a configuration whose only provider is the gateway, by a package of the AI SDK."""
    provider = {
        "npm": package,
        "options": {"baseURL": setup.base_url, "apiKey": KEY},
        "models": {MODEL: {"name": "A scripted model", "reasoning": True}},
    }
    config = {"enabled_providers": ["gw"], "provider": {"gw": provider}, "share": "disabled"}
    path = setup.home / "opencode.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return path
