"""Freeform (custom) tools: grammars and unwrapping of their input."""

from __future__ import annotations
