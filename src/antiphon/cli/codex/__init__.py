"""`antiphon codex`: run Codex CLI against the gateway, and set it up permanently."""

from __future__ import annotations
