"""SGLang, self-hosted."""

from __future__ import annotations

from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.providers.spec import Spec
from antiphon.providers.vllm import CAPABILITIES, NO_THINKING

SPEC = Spec(
    name="sglang",
    title="SGLang",
    as_of="2026-09",
    base_url="http://localhost:30000/v1",
    needs_key=False,
    capabilities=CAPABILITIES,
    quirks=ChatQuirks(content_beside_calls=True, thinking_off=NO_THINKING),
)
