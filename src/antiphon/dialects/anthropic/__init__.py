"""Anthropic Messages."""

from __future__ import annotations
