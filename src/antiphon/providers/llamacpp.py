"""llama.cpp, self-hosted: the model's chat template decides which features it supports."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.providers.spec import Spec
from antiphon.providers.vllm import CAPABILITIES, NO_THINKING

SPEC = Spec(
    name="llamacpp",
    title="llama.cpp",
    as_of="2026-09",
    base_url="http://localhost:8080/v1",
    needs_key=False,
    capabilities=replace(CAPABILITIES, tool_choice=frozenset({"auto", "none", "required"})),
    quirks=ChatQuirks(
        effort_field="chat_template_kwargs.reasoning_effort", thinking_off=NO_THINKING
    ),
)
