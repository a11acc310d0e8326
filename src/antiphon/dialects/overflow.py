"""How long a context is, and may be, as providers say it: clients compact a thread by it."""

from __future__ import annotations

import re
from typing import NamedTuple


class Overflow(NamedTuple):
    """Numbers of tokens."""

    sent: str
    most: str


_N = r"(?P<%s>\d[\d,]*)"
_SENT, _MOST = _N % "sent", _N % "most"
_REPORTS = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        rf"{_SENT} tokens > {_MOST}",  # Anthropic
        rf"maximum context length is {_MOST} tokens.*?{_SENT} tokens",  # OpenAI, DeepSeek, vLLM
        rf"token count (?:is )?\(?{_SENT}\)? (?:exceeds|but).*?{_MOST}",  # Gemini
        rf"token limit ?: ?{_MOST} \(requested: {_SENT}\)",  # Kimi
        rf"maximum prompt length is {_MOST} but the request contains {_SENT} tokens",  # xAI
        rf"\({_SENT} tokens\) exceeds the available context size \({_MOST} tokens\)",  # llama.cpp
        rf"contains {_SENT} tokens.*?with {_MOST} maximum context length",  # Mistral
        rf"\({_SENT} tokens\) is longer than .*? context length \({_MOST} tokens\)",  # Together
        rf"token count of {_SENT} exceeds the limit of {_MOST}",  # Copilot
        rf"is too long: {_SENT}, model maximum context length: {_MOST}",  # Fireworks, Ollama Cloud
        rf"maximum context length of \S+ is {_MOST}\. .*? take {_SENT} tokens",  # SambaNova
        rf"Requested tokens \({_SENT}\) exceed context window of {_MOST}",  # llama-cpp-python
        rf"passed {_SENT} input tokens.*?context length is only {_MOST} tokens",  # vLLM
    )
)


def read_overflow(message: str) -> Overflow | None:
    """Read the numbers in a provider's message; None if it names none."""
    for report in _REPORTS:
        if (found := report.search(message)) is not None:
            return Overflow(*(found[name].replace(",", "") for name in Overflow._fields))
    return None
