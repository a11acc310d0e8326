"""System prompts in the model catalog."""

from __future__ import annotations

from antiphon.server.agent_prompts import ADVISOR_PROMPT, AGENT_PROMPT


def test_only_the_prompt_of_agents_with_tools_names_tools() -> None:
    assert "apply_patch" in AGENT_PROMPT
    assert "no tools" in ADVISOR_PROMPT
    assert "apply_patch" not in ADVISOR_PROMPT


def test_lines_are_joined_as_they_were_written() -> None:
    for prompt in (AGENT_PROMPT, ADVISOR_PROMPT):
        assert prompt.endswith("\n")
        assert "\\" not in prompt
        assert "  " not in prompt
