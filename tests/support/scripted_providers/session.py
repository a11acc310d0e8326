"""A session of six turns for every provider: reasoning, text, parallel calls, results.

The first turn has two parallel calls, the second a call of a custom tool, the fourth two calls
without text. Each scripted provider sends it in its own format.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

Document = dict[str, Any]

INSTRUCTIONS = "Answer in one line."
TOOLS: list[Document] = [
    {
        "type": "function",
        "name": "get_weather",
        "description": "Looks up the weather.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "at": {"type": "number"}},
            "required": ["city"],
        },
    },
    {"type": "custom", "name": "note", "description": "Writes something down."},
]


@dataclass(frozen=True)
class Call:
    """A call as a model writes it: JSON without whitespace, as most do."""

    name: str
    arguments: str
    result: str


@dataclass(frozen=True)
class Turn:
    """A user message, or the results of the turn before, and the response."""

    number: int
    user: str = ""
    thought: str = ""
    text: str = ""
    calls: tuple[Call, ...] = ()


def weather(city: str, at: float, result: str) -> Call:
    arguments = json.dumps({"city": city, "at": at}, ensure_ascii=False, separators=(",", ":"))
    return Call("get_weather", arguments, result)


SESSION = (
    Turn(
        1,
        user="Ulm and Zürich today?",
        thought="Two cities.\nI look both up.",
        text="One moment.",
        calls=(weather("Ulm", 12.5, "rain"), weather("Zürich", 13.25, "☀ 20°")),
    ),
    Turn(
        2,
        thought="That is worth a note.",
        calls=(Call("note", '{"input":"Ulm: rain\\nZürich: \\"sun\\""}', "written"),),
    ),
    Turn(3, thought="Both are there.", text="Rain in Ulm, sun in Zürich."),
    Turn(
        4,
        user="And tomorrow?",
        thought="Again, a day later.",
        calls=(weather("Ulm", 36.5, "snow"), weather("Zürich", 37.25, "fog")),
    ),
    Turn(5, text="Snow in Ulm, fog in Zürich."),
    Turn(6, user="Thank you!", thought="Be polite.", text="You are welcome."),
)


def result_items(items: list[Document], turn: Turn) -> list[Document]:
    """The results that a client sends for all calls among the items of a turn."""
    calls = [item for item in items if item["type"] in ("function_call", "custom_tool_call")]
    assert [item["name"] for item in calls] == [call.name for call in turn.calls]
    return [
        {"type": f"{item['type']}_output", "call_id": item["call_id"], "output": call.result}
        for item, call in zip(calls, turn.calls, strict=True)
    ]


def user_items(turn: Turn) -> list[Document]:
    return [{"type": "message", "role": "user", "content": turn.user}] if turn.user else []


def echo_items(items: list[Document]) -> list[Document]:
    """Items as a stateless client sends them back: without ids, reasoning only encrypted."""
    return [_echo(item) for item in items]


def _echo(item: Document) -> Document:
    dropped = {"id", "status", *(["content"] if item["type"] == "reasoning" else [])}
    return {name: value for name, value in item.items() if name not in dropped}


def request_body(model: str, items: list[Document], **more: Any) -> Document:
    """The request of a client with this history."""
    return {
        "model": model,
        "instructions": INSTRUCTIONS,
        "tools": TOOLS,
        "reasoning": {"effort": "high"},
        "include": ["reasoning.encrypted_content"],
        "stream": True,
        "input": items,
        **more,
    }
