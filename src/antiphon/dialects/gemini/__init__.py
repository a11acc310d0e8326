"""Gemini generateContent."""

from __future__ import annotations
