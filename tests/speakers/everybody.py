"""All speakers, by name."""

from __future__ import annotations

from collections.abc import Mapping

from tests.speakers.anthropic import AnthropicSpeaker
from tests.speakers.bedrock import BedrockSpeaker
from tests.speakers.chat import ChatSpeaker
from tests.speakers.cohere import CohereSpeaker
from tests.speakers.gemini import GeminiSpeaker
from tests.speakers.ollama import OllamaSpeaker
from tests.speakers.responses import ResponsesSpeaker
from tests.speakers.speaker import Speaker

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
