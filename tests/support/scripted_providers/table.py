"""All scripted providers, by name."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.scripted_providers.anthropic import ScriptedAnthropic
from tests.support.scripted_providers.bedrock import ScriptedBedrock
from tests.support.scripted_providers.chat import ScriptedChat
from tests.support.scripted_providers.cohere import ScriptedCohere
from tests.support.scripted_providers.gemini import ScriptedGemini
from tests.support.scripted_providers.ollama import ScriptedOllama
from tests.support.scripted_providers.responses import ScriptedResponses
from tests.support.scripted_providers.scripted_provider import ScriptedProvider

_ALL: tuple[ScriptedProvider, ...] = (
    ScriptedAnthropic(),
    ScriptedBedrock(),
    ScriptedChat(),
    ScriptedChat("reasoner", "tool_turns"),
    ScriptedChat("router", details=True),
    ScriptedChat("counter", counting=True),
    ScriptedCohere(),
    ScriptedGemini(),
    ScriptedGemini("older gemini", signed=False),
    ScriptedOllama(),
    ScriptedResponses(),
)
SCRIPTED_PROVIDERS: Mapping[str, ScriptedProvider] = {scripted.name: scripted for scripted in _ALL}
