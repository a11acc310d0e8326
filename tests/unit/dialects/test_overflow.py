"""How many tokens a provider says that a context has, and may have."""

from __future__ import annotations

from antiphon.dialects.overflow import Overflow, read_overflow
from tests.support.tables import table

READ = Overflow("9000", "8192")


@table(
    ("reported", "read"),
    [
        ("prompt is too long: 9,000 tokens > 8192 maximum", READ),  # Anthropic
        (  # OpenAI, DeepSeek, vLLM
            "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens"
            " (8000 in the messages, 1000 in the completion).",
            READ,
        ),
        (  # Gemini
            "The input token count (9000) exceeds the maximum number of tokens allowed (8192).",
            READ,
        ),
        ("The input token count is 9000 but the model supports up to 8192 tokens.", READ),
        ("Your request exceeded model token limit : 8192 (requested: 9000)", READ),  # Kimi
        (  # xAI
            "This model's maximum prompt length is 8192 but the request contains 9000 tokens.",
            READ,
        ),
        (  # llama.cpp
            "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing"
            " it",
            READ,
        ),
        (  # Mistral
            "Prompt contains 9000 tokens and 0 draft tokens, too large for model with 8192 maximum"
            " context length",
            READ,
        ),
        (  # Together
            "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
            READ,
        ),
        ("prompt token count of 9000 exceeds the limit of 8192", READ),  # Copilot
        ("The prompt is too long: 9000, model maximum context length: 8192", READ),  # Fireworks
        (  # SambaNova: OpenHands/OpenHands pull request 9252
            "The maximum context length of DeepSeek-V3-0324 is 8192. However, answering your"
            " request will take 9000 tokens. Please reduce the length of the messages.",
            READ,
        ),
        ("Requested tokens (9000) exceed context window of 8192", READ),  # llama-cpp-python
        (  # vLLM
            "You passed 9000 input tokens and requested 500 output tokens. However, the model's"
            " context length is only 8192 tokens, resulting in a maximum input length of 7692"
            " tokens.",
            READ,
        ),
        ("prompt too long; exceeded max context length by 1000 tokens", None),  # Ollama
        ("Input is too long for requested model.", None),  # Bedrock
    ],
)
def test_the_numbers_of_a_provider_are_read(reported: str, read: Overflow | None) -> None:
    assert read_overflow(reported) == read
