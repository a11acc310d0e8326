"""The plan: everything decided about a request, as immutable values."""

from __future__ import annotations
