"""Ollama, self-hosted, in its native API.

The context window is set at start-up (`OLLAMA_CONTEXT_LENGTH`). Longer input is truncated silently
unless `truncate` is false, as it is here: then it is refused.
"""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.core.capabilities import Capabilities
from antiphon.dialects.ollama.media import ACCEPTED_MEDIA
from antiphon.dialects.ollama.quirks import OllamaQuirks
from antiphon.providers.spec import Model, Spec, parse_efforts

_PLAIN = Capabilities(
    parameters=frozenset(
        """
        temperature top_p max_output_tokens presence_penalty frequency_penalty top_logprobs
        seed stop top_k
        """.split()
    ),
    tool_choice=frozenset({"auto", "none"}),
    media=ACCEPTED_MEDIA,
    replay_reasoning="tool_turns",
    strict_tools=False,
    system_messages="first",  # the chat templates of some models reject any other (2026-09)
)
_THINKS = replace(_PLAIN, efforts=parse_efforts("false true true true true true true"))
_OSS = replace(_PLAIN, efforts=parse_efforts("- low low medium high high high"))

SPEC = Spec(
    name="ollama",
    title="Ollama",
    as_of="2026-09",
    base_url="http://localhost:11434",
    needs_key=False,
    dialect="ollama",
    capabilities=_PLAIN,  # a model without thinking refuses `think`
    models=(
        Model(id="gpt-oss", capabilities=_OSS, family=True),
        *(
            Model(id=name, capabilities=_THINKS, family=True)
            for name in "qwen3 deepseek-r1 deepseek-v3.1 glm-4 magistral kimi-k2-thinking".split()
        ),
        Model(id="qwen3-coder", family=True),  # does not think
    ),
    quirks=OllamaQuirks(fields={"truncate": False}),
)
