"""Compactions that the engine makes: of a context that has become too long for its request."""

from __future__ import annotations
