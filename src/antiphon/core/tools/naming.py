"""Provider names of tools: valid at every provider, and stable from turn to turn."""

from __future__ import annotations

import hashlib
import re

NAME_LIMIT = 64


def provider_name(name: str, namespace: str | None = None) -> str:
    """The provider name of a tool, unless another tool has it already (then: `hashed_name`)."""
    full = _qualify(name, namespace)
    clean = re.sub(r"[^a-zA-Z0-9_-]", "_", full)
    return clean if clean == full and 0 < len(clean) <= NAME_LIMIT else hashed_name(name, namespace)


def hashed_name(name: str, namespace: str | None = None) -> str:
    """The provider name with a hash of the original name at its end, which makes it unique."""
    clean = re.sub(r"[^a-zA-Z0-9_-]", "_", _qualify(name, namespace))
    original = f"{namespace or ''}\0{name}".encode(errors="surrogatepass")
    suffix = hashlib.sha256(original).hexdigest()[:8]
    return f"{clean[: NAME_LIMIT - len(suffix) - 1]}_{suffix}"


def _qualify(name: str, namespace: str | None) -> str:
    return f"{namespace}__{name}" if namespace else name
