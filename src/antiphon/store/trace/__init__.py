"""The request trace: a SQLite file, its bounded queue, its writer and its readers."""

from __future__ import annotations
