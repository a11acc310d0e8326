"""Provider faults: one type for every provider's errors, how they are classified and described."""

from __future__ import annotations
