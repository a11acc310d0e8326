"""Structured output: the contract, JSON Schema checks, and JSON found in text."""

from __future__ import annotations
