"""Provider names of tools: valid at every provider, and stable from turn to turn."""

from __future__ import annotations

import hashlib
import re

NAME_LIMIT = 64


def provider_name(name: str, namespace: str | None = None) -> str:
    """The name a provider knows a tool by, if no other tool has it."""
    full = _full(name, namespace)
    clean = re.sub(r"[^a-zA-Z0-9_-]", "_", full)
    return clean if clean == full and 0 < len(clean) <= NAME_LIMIT else marked_name(name, namespace)


def marked_name(name: str, namespace: str | None = None) -> str:
    """The same, with a mark that tells it from any other."""
    clean = re.sub(r"[^a-zA-Z0-9_-]", "_", _full(name, namespace))
    who = f"{namespace or ''}\0{name}".encode(errors="surrogatepass")
    mark = hashlib.sha256(who).hexdigest()[:8]
    return f"{clean[: NAME_LIMIT - len(mark) - 1]}_{mark}"


def _full(name: str, namespace: str | None) -> str:
    return f"{namespace}__{name}" if namespace else name
