"""The reference readers by protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.support.reference_readers import (
    anthropic,
    bedrock,
    chat,
    cohere,
    gemini,
    ollama,
    responses,
)
from tests.support.reference_readers.recorded_response import RecordedOutput, RecordedResponse

OUTPUT_READERS: Mapping[str, Callable[[bytes], RecordedOutput]] = {
    "anthropic": anthropic.read,
    "bedrock": bedrock.read,
    "chat": chat.read,
    "cohere": cohere.read,
    "gemini": gemini.read,
    "ollama": ollama.read,
}
READERS: Mapping[str, Callable[[bytes], RecordedResponse]] = {
    **OUTPUT_READERS,
    "responses": responses.read,  # its items are compared whole, in a file of their own
}
