"""Amazon Bedrock Converse."""

from __future__ import annotations
