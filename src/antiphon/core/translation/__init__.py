"""Translation of a provider's bytes to the events of a response."""

from __future__ import annotations
