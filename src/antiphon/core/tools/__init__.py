"""Tool identity: one tool's names on both sides, and restoration of its calls."""

from __future__ import annotations
