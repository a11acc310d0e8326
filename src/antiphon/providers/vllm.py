"""vLLM, self-hosted: capabilities depend on the model and the server's flags."""

from __future__ import annotations

from antiphon.core.capabilities import Capabilities
from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.providers.spec import Spec, parse_efforts

CAPABILITIES = Capabilities(
    parameters=frozenset(
        """
        temperature top_p max_output_tokens presence_penalty frequency_penalty top_logprobs
        parallel_tool_calls safety_identifier user logit_bias seed stop top_k
        """.split()
    ),
    efforts=parse_efforts("none low low medium high high high"),
    replay_reasoning="tool_turns",
    system_messages="first",  # templates of Qwen 3.5 and later reject any other (2026-09)
    strict_tools=False,
)
NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}

SPEC = Spec(
    name="vllm",
    title="vLLM",
    as_of="2026-09",
    base_url="http://localhost:8000/v1",
    needs_key=False,
    capabilities=CAPABILITIES,
    quirks=ChatQuirks(content_beside_calls=True, thinking_off=NO_THINKING),
)
