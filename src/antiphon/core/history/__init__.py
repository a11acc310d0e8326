"""Conversation history: input items read into steps that every dialect can encode."""

from __future__ import annotations
