"""Any Responses API server: assumed to support everything, unless configured otherwise."""

from __future__ import annotations

from antiphon.core.capabilities import Capabilities
from antiphon.core.plan.effort import EFFORTS
from antiphon.providers.spec import HOSTED_OUTPUT, Spec

SPEC = Spec(
    name="responses",
    title="Any Responses server",
    needs_key=False,
    dialect="responses",
    capabilities=Capabilities(
        parameters=frozenset(
            """
            max_output_tokens max_tool_calls parallel_tool_calls prompt_cache_key safety_identifier
            temperature top_logprobs top_p user
            """.split()
        ),
        efforts={effort: effort for effort in EFFORTS},
        replay_reasoning="always",
        hosted_tools=frozenset("code_interpreter file_search image_generation mcp".split()),
        include=HOSTED_OUTPUT,
    ),
)
