"""The OpenAI Responses API as an upstream."""

from __future__ import annotations
