"""What `antiphon codex` and `antiphon claude` share: gateway, process and files of an agent."""

from __future__ import annotations
