"""NVIDIA: hosted open models; an unknown field is an HTTP 400 or a server error."""

from __future__ import annotations

from antiphon.core.capabilities import Capabilities
from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.providers.open_model import gpt_oss
from antiphon.providers.spec import Spec

_ANY = Capabilities(
    # `parallel_tool_calls: true` is refused for some models (2026-07), so it is never sent.
    parameters=frozenset({"temperature", "top_p", "max_output_tokens", "seed", "stop"}),
    strict_tools=False,
    system_messages="first",  # the chat templates of some models reject any other (2026-09)
)

SPEC = Spec(
    name="nvidia",
    title="NVIDIA",
    as_of="2026-09",
    base_url="https://integrate.api.nvidia.com/v1",
    api_key_env=("NVIDIA_API_KEY",),
    capabilities=_ANY,
    models=gpt_oss(_ANY),
    quirks=ChatQuirks(content_beside_calls=True, user_field=None),
)
