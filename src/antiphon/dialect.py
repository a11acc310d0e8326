"""Everything that the author of a provider or a dialect imports, in one module.

`docs/extend.md` shows packages that use nothing else. Every name here stays as it is between
releases, or the changelog says how to change; other modules may move.
"""

from __future__ import annotations

from antiphon.core.capabilities import Capabilities, StrictLimits
from antiphon.core.deltas import (
    Annotation,
    Delta,
    Extra,
    Failure,
    Finish,
    Reasoning,
    ReasoningState,
    Refusal,
    Start,
    Text,
    ToolCall,
    ToolEnd,
    Usage,
    parse_delta,
)
from antiphon.core.faults.classify import classify
from antiphon.core.faults.fault import ProviderFault, protocol_fault
from antiphon.core.history.media import MediaSupport
from antiphon.core.history.steps import (
    AudioPart,
    FilePart,
    ImagePart,
    MessageStep,
    Part,
    ReasoningStep,
    RefusalPart,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.core.stream.source import Framer, StreamDecoder
from antiphon.core.tools.declaration import ToolChoice, ToolDeclaration
from antiphon.dialects.anthropic.quirks import AnthropicQuirks
from antiphon.dialects.bedrock.quirks import BedrockQuirks
from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.dialects.cohere.quirks import CohereQuirks
from antiphon.dialects.defaults import DialectDefaults
from antiphon.dialects.dialect import Dialect
from antiphon.dialects.gemini.quirks import GeminiQuirks
from antiphon.dialects.ollama.quirks import OllamaQuirks
from antiphon.dialects.parameters import ParameterFields
from antiphon.dialects.responses.quirks import ResponsesQuirks
from antiphon.errors import BridgeError
from antiphon.framing.eventstream import EventStreamDecoder
from antiphon.framing.ndjson import NDJSONDecoder
from antiphon.framing.sse import Frame, SSEDecoder
from antiphon.providers.spec import Auth, Model, Spec, parse_efforts

__all__ = [
    "Annotation",
    "AnthropicQuirks",
    "AudioPart",
    "Auth",
    "BedrockQuirks",
    "BridgeError",
    "Capabilities",
    "ChatQuirks",
    "CohereQuirks",
    "Delta",
    "Dialect",
    "DialectDefaults",
    "EventStreamDecoder",
    "Extra",
    "Failure",
    "FilePart",
    "Finish",
    "Frame",
    "Framer",
    "GeminiQuirks",
    "ImagePart",
    "MediaSupport",
    "MessageStep",
    "Model",
    "NDJSONDecoder",
    "OllamaQuirks",
    "Outbound",
    "ParameterFields",
    "Part",
    "Plan",
    "ProviderFault",
    "Reasoning",
    "ReasoningState",
    "ReasoningStep",
    "Refusal",
    "RefusalPart",
    "ResponsesQuirks",
    "SSEDecoder",
    "Spec",
    "Start",
    "Step",
    "StreamDecoder",
    "StrictLimits",
    "Text",
    "TextPart",
    "ToolCall",
    "ToolCallStep",
    "ToolChoice",
    "ToolDeclaration",
    "ToolEnd",
    "ToolResultStep",
    "Usage",
    "classify",
    "parse_delta",
    "parse_efforts",
    "protocol_fault",
]
