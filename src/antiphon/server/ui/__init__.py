"""The page at `/ui`: static files, and a JSON API below `/ui/api`."""

from __future__ import annotations
