"""Hugging Face: a router to many hosts of open models."""

from __future__ import annotations

from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.providers.open_model import HOSTED, gpt_oss
from antiphon.providers.spec import Spec

SPEC = Spec(
    name="huggingface",
    title="Hugging Face",
    as_of="2026-09",
    base_url="https://router.huggingface.co/v1",
    api_key_env=("HF_TOKEN",),
    ambient_key=True,
    capabilities=HOSTED,
    models=gpt_oss(HOSTED),
    quirks=ChatQuirks(content_beside_calls=True),
)
