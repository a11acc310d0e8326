"""NVIDIA: hosted open models; a field that one of them does not know is a 400, or worse."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.core.plan import Capabilities
from antiphon.dialects.chat_request import ChatQuirks
from antiphon.providers.spec import Model, Spec, ladder

_ANY = Capabilities(
    # `parallel_tool_calls: true` is refused for some models (2026-07), so nothing is said of it.
    parameters=frozenset({"temperature", "top_p", "max_output_tokens"}),
    strict_tools=False,
)
_OSS = replace(
    _ANY,
    efforts=ladder("- low low medium high high high"),
    inputs=frozenset({"text"}),
    context_window=131_072,
)

SPEC = Spec(
    name="nvidia",
    title="NVIDIA",
    as_of="2026-09",
    base_url="https://integrate.api.nvidia.com/v1",
    api_key_env=("NVIDIA_API_KEY",),
    capabilities=_ANY,
    models=(
        Model(id="openai/gpt-oss-120b", capabilities=_OSS),
        Model(id="openai/gpt-oss-20b", capabilities=_OSS),
    ),
    quirks=ChatQuirks(user_field=None),
)
