"""The response state machine: deltas in, Responses events out."""

from __future__ import annotations
