"""Any Chat Completions server: assumed to support everything, unless configured otherwise."""

from __future__ import annotations

from antiphon.core.capabilities import Capabilities
from antiphon.core.plan.effort import EFFORTS
from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.providers.spec import Spec

SPEC = Spec(
    name="chat",
    title="Any Chat Completions server",
    needs_key=False,
    capabilities=Capabilities(
        parameters=frozenset(
            {
                "frequency_penalty",
                "max_output_tokens",
                "parallel_tool_calls",
                "presence_penalty",
                "safety_identifier",
                "seed",
                "stop",
                "temperature",
                "top_logprobs",
                "top_p",
                "user",
            }
        ),
        efforts={effort: effort for effort in EFFORTS},
        # Strict servers refuse unknown fields in a message.
        replay_reasoning="never",
    ),
    # A server accepts provider state that it has sent itself.
    quirks=ChatQuirks(replay_details=True, replay_signatures=True),
)
