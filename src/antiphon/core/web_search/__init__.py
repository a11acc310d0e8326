"""Web search run by the gateway: rules, numbered sources, results kept for later turns."""

from __future__ import annotations
