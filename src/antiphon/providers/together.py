"""Together: hosted open models."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.providers.open_model import HOSTED, gpt_oss
from antiphon.providers.spec import Model, Spec

SPEC = Spec(
    name="together",
    title="Together",
    as_of="2026-09",
    base_url="https://api.together.xyz/v1",
    api_key_env=("TOGETHER_API_KEY",),
    capabilities=HOSTED,
    models=(
        *gpt_oss(HOSTED),
        Model(id="deepseek-r1", capabilities=replace(HOSTED, guards=("think",)), family=True),
    ),
    quirks=ChatQuirks(content_beside_calls=True),
)
