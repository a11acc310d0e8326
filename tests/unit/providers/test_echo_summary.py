"""The summary of the echo model: the same for the same conversation, and bounded."""

from __future__ import annotations

from antiphon.providers.echo_summary import summarize

ASKED = ("user", "Summarize this.")


def test_the_summary_repeats_what_was_said() -> None:
    said = [
        ("user", "The port is 8123."),
        ("assistant", "Noted."),
        ("tool", "src/main.py: 3 lines"),
    ]
    assert summarize([*said, ("user", "And README.md?"), ASKED]) == {
        "goal": "The port is 8123.",
        "decisions": [],
        "open_work": ["And README.md?"],
        "files_touched": ["src/main.py", "README.md"],
        "facts": [
            "user: The port is 8123.",
            "assistant: Noted.",
            "tool: src/main.py: 3 lines",
            "user: And README.md?",
        ],
        "last_user_wishes": ["The port is 8123.", "And README.md?"],
    }


def test_a_conversation_without_user_messages_has_no_goal() -> None:
    summary = summarize([("system", ""), ASKED])
    assert (summary["goal"], summary["open_work"], summary["facts"]) == ("", [], [])


def test_a_long_conversation_keeps_the_newest_messages() -> None:
    summary = summarize(
        [*(("user", f"Fact {number} " + "x" * 500) for number in range(900)), ASKED]
    )
    facts = summary["facts"]
    assert facts[-1].startswith("user: Fact 899 ")
    assert 50 < len(facts) < 900
    assert len("".join(facts)) <= 24_000
