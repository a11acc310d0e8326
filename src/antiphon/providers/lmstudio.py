"""LM Studio, self-hosted: `json_schema` output only, and no parameter for thinking."""

from __future__ import annotations

from antiphon.core.capabilities import Capabilities
from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.providers.spec import Spec

SPEC = Spec(
    name="lmstudio",
    title="LM Studio",
    as_of="2026-09",
    base_url="http://localhost:1234/v1",
    needs_key=False,
    capabilities=Capabilities(
        parameters=frozenset(
            """
            temperature top_p top_k max_output_tokens presence_penalty frequency_penalty logit_bias
            seed stop
            """.split()
        ),
        tool_choice=frozenset({"auto", "none", "required"}),
        formats=frozenset({"text", "json_schema"}),  # `json_object` is refused
        strict_tools=False,
        system_messages="first",  # the chat templates of some models reject any other (2026-09)
    ),
    quirks=ChatQuirks(user_field=None),
)
