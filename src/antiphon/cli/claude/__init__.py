"""`antiphon claude`: run Claude Code against the gateway, or configure it permanently."""

from __future__ import annotations
