"""Cohere chat, version 2 (and version 1, decoding only)."""

from __future__ import annotations
