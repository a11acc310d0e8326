"""Request traces: a SQLite file, its bounded queue, its writer and its reader."""

from __future__ import annotations
