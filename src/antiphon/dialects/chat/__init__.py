"""Chat Completions."""

from __future__ import annotations
