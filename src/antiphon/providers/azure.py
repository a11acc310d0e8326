"""Azure OpenAI: OpenAI's models under the names of your own deployments.

The base URL is a deployment's, `https://NAME.openai.azure.com/openai/deployments/DEPLOYMENT`. The
newer API at `…/openai/v1` takes no version: `query = { api-version = "" }` removes it.
"""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.core.capabilities import Capabilities
from antiphon.dialects.call_ids import CallIdFormat
from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.providers.spec import Auth, Model, Spec, parse_efforts

_PLAIN = Capabilities(
    parameters=frozenset(
        """
        temperature top_p max_output_tokens presence_penalty frequency_penalty top_logprobs
        parallel_tool_calls safety_identifier user logit_bias seed stop
        """.split()
    ),
)
_REASONS = replace(
    _PLAIN,
    # Sampling parameters are refused.
    parameters=frozenset("max_output_tokens parallel_tool_calls safety_identifier user".split()),
    efforts=parse_efforts("- low low medium high high high"),
    developer_role=True,
    context_window=272_000,
    max_output_tokens=128_000,
)

SPEC = Spec(
    name="azure",
    title="Azure OpenAI",
    as_of="2026-09",
    api_key_env=("AZURE_OPENAI_API_KEY",),
    auth=Auth(header="api-key", scheme="plain"),
    query={"api-version": "2025-04-01-preview"},
    capabilities=_PLAIN,
    models=(  # applies if a deployment is named after its model
        *(
            Model(id=name, capabilities=_REASONS, family=True)
            for name in ("gpt-5", "gpt-6", "o1", "o3", "o4")
        ),
    ),
    quirks=ChatQuirks(
        max_tokens_field="max_completion_tokens", call_ids=CallIdFormat("[!-~]{1,40}", 40)
    ),
)
