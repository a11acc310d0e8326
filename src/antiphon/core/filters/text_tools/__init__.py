"""Tool calls that a server left in the text: their formats, a scanner, and the filter."""

from __future__ import annotations
