"""`antiphon codex`: run Codex CLI against the gateway, or configure it permanently."""

from __future__ import annotations
