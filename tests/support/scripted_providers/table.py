"""All speakers, by name."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.scripted_providers.anthropic import AnthropicSpeaker
from tests.support.scripted_providers.bedrock import BedrockSpeaker
from tests.support.scripted_providers.chat import ChatSpeaker
from tests.support.scripted_providers.cohere import CohereSpeaker
from tests.support.scripted_providers.gemini import GeminiSpeaker
from tests.support.scripted_providers.ollama import OllamaSpeaker
from tests.support.scripted_providers.responses import ResponsesSpeaker
from tests.support.scripted_providers.scripted_provider import Speaker

_ALL: tuple[Speaker, ...] = (
    AnthropicSpeaker(),
    BedrockSpeaker(),
    ChatSpeaker(),
    ChatSpeaker("reasoner", "tool_turns"),
    ChatSpeaker("router", details=True),
    ChatSpeaker("counter", counting=True),
    CohereSpeaker(),
    GeminiSpeaker(),
    GeminiSpeaker("older gemini", signed=False),
    OllamaSpeaker(),
    ResponsesSpeaker(),
)
SPEAKERS: Mapping[str, Speaker] = {speaker.name: speaker for speaker in _ALL}
