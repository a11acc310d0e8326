"""Planning: how a request becomes a plan."""

from __future__ import annotations
