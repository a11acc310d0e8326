"""Gemini (AI Studio): thinking by level or token budget, and signatures that must be replayed."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.core.capabilities import Capabilities
from antiphon.dialects.gemini.media import ACCEPTED_MEDIA
from antiphon.dialects.gemini.quirks import GeminiQuirks
from antiphon.providers.spec import Auth, Model, Spec, parse_efforts

PLAIN = Capabilities(
    parameters=frozenset(
        """
        temperature top_p top_k max_output_tokens presence_penalty frequency_penalty seed stop
        """.split()
    ),
    ranges={"temperature": (0, 2), "seed": (-(2**31), 2**31 - 1), "stop": (0, 5)},
    formats_beside_tools=False,
    search_beside_tools=False,
    inputs=frozenset({"text", "image", "file", "file_url", "audio"}),
    media=ACCEPTED_MEDIA,
    strict_tools=False,
    tool_errors=True,
    web_search="native",
    context_window=1_048_576,
    max_output_tokens=65_536,
)
_GEMINI = replace(
    PLAIN, formats_beside_tools=True, search_beside_tools=True, tool_output_images=True
)
_FLASH_3 = replace(_GEMINI, efforts=parse_efforts("- low low medium high high high"))
_FLASH_MINIMAL = replace(_FLASH_3, efforts=parse_efforts("- minimal low medium high high high"))
_PRO_3 = replace(_FLASH_3, efforts=parse_efforts("- low low high high high high"))
_FLASH_2_5 = replace(
    PLAIN,
    efforts=parse_efforts("0 512 2048 8192 16384 24576 24576"),
    max_thinking_budget=24_576,
)
_PRO_2_5 = replace(
    PLAIN,
    efforts=parse_efforts("- 512 2048 8192 16384 24576 32768"),
    max_thinking_budget=32_768,
)
_GEMMA = replace(
    PLAIN,
    formats=frozenset({"text"}),
    inputs=frozenset({"text", "image"}),
    tools=False,
    web_search="none",
    context_window=131_072,
    max_output_tokens=8_192,
)

MODELS = (
    Model(id="gemini-3.8-flash", capabilities=_FLASH_3),
    Model(id="gemini-3.5-flash", capabilities=_FLASH_MINIMAL),
    Model(id="gemini-3.1-pro-preview", capabilities=_FLASH_3),
    Model(id="gemini-3-pro-preview", capabilities=_PRO_3),
    Model(id="gemini-3-flash-preview", capabilities=_FLASH_MINIMAL),
    Model(id="gemini-3", capabilities=_FLASH_3, family=True),
    Model(id="gemini-2.5-pro", capabilities=_PRO_2_5),
    Model(id="gemini-2.5-flash", capabilities=_FLASH_2_5),
    Model(id="gemma-3", capabilities=_GEMMA, family=True),
)
_GEMINI_3 = GeminiQuirks(
    effort="level", json_beside_tools=True, sentinel=True, media_in_answers=True
)
QUIRKS = GeminiQuirks(
    models=(
        ("gemini-3", _GEMINI_3),
        ("gemini-2.5", GeminiQuirks(effort="budget")),
        ("gemma-3", GeminiQuirks(system_instruction=False)),
    )
)

SPEC = Spec(
    name="gemini",
    title="Google Gemini (AI Studio)",
    as_of="2026-10",
    base_url="https://generativelanguage.googleapis.com/v1beta",
    api_key_env=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    auth=Auth(header="x-goog-api-key", scheme="plain"),
    dialect="gemini",
    capabilities=PLAIN,
    models=MODELS,
    quirks=QUIRKS,
)
