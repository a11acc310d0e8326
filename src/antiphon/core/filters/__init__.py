"""Delta filters between a decoder and the state machine."""

from __future__ import annotations
