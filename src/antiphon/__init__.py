"""Antiphon: any provider's answer becomes one exact sequence of OpenAI Responses events."""

from __future__ import annotations

from antiphon.replay import replay

__version__ = "0.1.0"

__all__ = ["__version__", "replay"]
