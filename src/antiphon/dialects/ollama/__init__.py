"""Ollama chat."""

from __future__ import annotations
