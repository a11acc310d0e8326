"""Compaction: a long history is replaced by a summary that any provider can continue from."""

from __future__ import annotations
