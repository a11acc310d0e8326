"""Reading of items: every item becomes steps or a diagnostic, never an error."""

from __future__ import annotations

from typing import Any

from antiphon.core.diagnostic import Decision, Diagnostic
from antiphon.core.history.read_items import (
    UNREADABLE_COMPACTION,
    OpenedCompaction,
    image_urls,
    read_items,
    read_plain_messages,
)
from antiphon.core.history.steps import (
    HistoryCode,
    ImagePart,
    MessageStep,
    ReasoningStep,
    RefusalPart,
    Role,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)
from tests.support.tables import table

SEES = frozenset({"text", "image"})
PICTURE = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}


def read(*items: Any, inputs: frozenset[str] = SEES) -> tuple[list[Step], list[Diagnostic]]:
    steps, diagnostics = read_items(items, inputs=inputs, tool_output_images=False)
    return list(steps), list(diagnostics)


def steps_of(*items: Any) -> list[Step]:
    steps, diagnostics = read(*items)
    assert diagnostics == []
    return steps


def said(role: Role, *texts: str) -> MessageStep:
    return MessageStep(role, tuple(map(TextPart, texts)))


# --- messages -------------------------------------------------------------------------------------


@table("role", ["system", "developer", "user", "assistant"])
def test_a_message_keeps_its_role_and_its_place(role: Role) -> None:
    easy = {"role": role, "content": "one"}
    typed = {"type": "message", "role": role, "content": [{"type": "input_text", "text": "two"}]}
    unlabelled = {"type": None, "role": role, "content": "three"}
    assert steps_of(easy, typed, unlabelled) == [
        said(role, "one"),
        said(role, "two"),
        said(role, "three"),
    ]


def test_an_answer_in_output_shape_is_read_with_its_refusal() -> None:
    message = {
        "type": "message",
        "id": "msg_1",
        "status": "completed",
        "role": "assistant",
        "phase": "final_answer",
        "content": [
            {"type": "output_text", "text": "Well, ", "annotations": [], "logprobs": []},
            {"type": "refusal", "refusal": "no."},
        ],
    }
    parts = (TextPart("Well, "), RefusalPart("no."))
    assert steps_of(message) == [MessageStep("assistant", parts, "final_answer")]


@table(
    ("role", "phase", "kept"),
    [
        ("assistant", "commentary", "commentary"),
        ("assistant", "partial_answer", "partial_answer"),
        ("assistant", "aside", None),
        ("assistant", None, None),
        ("user", "commentary", None),
    ],
)
def test_only_an_assistant_message_has_a_phase_and_only_a_known_one(
    role: Any, phase: Any, kept: str | None
) -> None:
    item = {"role": role, "content": "hi", "phase": phase}
    assert steps_of(item) == [MessageStep(role, (TextPart("hi"),), kept)]


@table("content", [None, "", [], [{"type": "input_text", "text": None}]])
def test_an_empty_message_is_ignored_with_a_diagnostic(content: Any) -> None:
    steps, [diagnostic] = read({"role": "user", "content": content})
    assert steps == []
    assert diagnostic == Diagnostic(
        code=HistoryCode.ITEM_IGNORED,
        decision=Decision.IGNORED,
        param="input[0]",
        message="Item of type 'message' is ignored: it is empty.",
        subject="message",
    )


@table("role", ["tool", None, ["user"], ""])
def test_an_unknown_role_is_read_as_the_user(role: Any) -> None:
    steps, [diagnostic] = read({"type": "message", "role": role, "content": "hi"})
    assert steps == [said("user", "hi")]
    assert diagnostic.code == HistoryCode.ROLE_REPLACED


def test_a_users_image_stays_in_its_message() -> None:
    [step] = steps_of({"role": "user", "content": ["look", PICTURE]})
    assert step == MessageStep("user", (TextPart("look"), ImagePart("data:image/png;base64,AA==")))


@table("role", ["developer", "assistant"])
def test_an_image_of_another_role_follows_in_a_user_message(role: Role) -> None:
    steps, [diagnostic] = read({"role": role, "content": ["look", PICTURE]})
    assert steps == [
        said(role, "look", "[image: see the next message]"),
        MessageStep("user", (ImagePart("data:image/png;base64,AA=="),)),
    ]
    assert diagnostic.code == HistoryCode.IMAGE_MOVED


def test_an_image_for_a_text_only_model_becomes_a_marker() -> None:
    steps, [diagnostic] = read({"role": "user", "content": [PICTURE]}, inputs=frozenset({"text"}))
    assert steps == [said("user", "[image omitted: this model takes no images]")]
    assert (diagnostic.code, diagnostic.param) == (HistoryCode.IMAGE_REPLACED, "input[0]")


@table(
    ("item", "title"),
    [
        ({"author": "/root/a", "recipient": "/root"}, "[message from /root/a to /root]"),
        ({"author": "/root/a"}, "[message from /root/a]"),
        ({"author": None}, "[message from another agent]"),
    ],
)
def test_an_agent_message_becomes_a_user_message_with_its_author(item: Any, title: str) -> None:
    item = {"type": "agent_message", "content": [{"type": "input_text", "text": "Ready."}], **item}
    assert steps_of(item) == [said("user", title, "Ready.")]


# --- reasoning ------------------------------------------------------------------------------------


def test_reasoning_keeps_text_summary_and_encrypted_content() -> None:
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Plan"}, {"text": "Act"}, {"text": None}],
        "content": [{"type": "reasoning_text", "text": "First"}, {"type": "text", "text": " then"}],
        "encrypted_content": "sealed",
    }
    assert steps_of(item) == [ReasoningStep("First then", "Plan\n\nAct", "sealed")]


def test_reasoning_with_null_fields_keeps_the_rest() -> None:
    sealed = {"type": "reasoning", "summary": None, "content": None, "encrypted_content": "sealed"}
    assert steps_of(sealed) == [ReasoningStep(encrypted="sealed")]
    assert steps_of({"type": "reasoning", "content": "plain"}) == [ReasoningStep("plain")]
    assert steps_of({"type": "reasoning", "summary": [], "encrypted_content": None}) == []


# --- items kept as text ---------------------------------------------------------------------------


@table(
    ("item", "step"),
    [
        (
            {"type": "image_generation_call", "result": "AA==", "revised_prompt": "a red square"},
            said("assistant", "[image generated: a red square]"),
        ),
        (
            {"type": "image_generation_call", "status": "completed", "result": "AA=="},
            said("assistant", "[image generated]"),
        ),
        (
            {"type": "image_generation_call", "status": "failed", "result": None},
            said("assistant", "[image generation failed]"),
        ),
        (
            {"type": "mcp_approval_request", "name": "rm", "arguments": '{"path":"/"}'},
            said("assistant", '[approval asked for calling rm with {"path":"/"}]'),
        ),
        (
            {"type": "mcp_approval_request", "name": None, "arguments": None},
            said("assistant", "[approval asked for calling unknown with {}]"),
        ),
        ({"type": "mcp_approval_response", "approve": True}, said("user", "[approved]")),
        (
            {"type": "mcp_approval_response", "approve": False, "reason": "too risky"},
            said("user", "[not approved: too risky]"),
        ),
        ({"type": "acme:note", "content": "psst"}, said("user", "[acme:note]", "psst")),
    ],
)
def test_items_without_an_equivalent_upstream_are_kept_as_text(
    item: Any, step: MessageStep
) -> None:
    steps, [diagnostic] = read(item)
    assert steps == [step]
    assert (diagnostic.code, diagnostic.decision) == (HistoryCode.ITEM_DEGRADED, Decision.DEGRADED)
    assert diagnostic.subject == item["type"]


@table(
    ("item", "code"),
    [
        ({"type": "web_search_call", "id": "ws_1", "action": {}}, HistoryCode.ITEM_IGNORED),
        ({"type": "mcp_list_tools", "tools": []}, HistoryCode.ITEM_IGNORED),
        ({"type": "file_search_call", "queries": ["q"]}, HistoryCode.ITEM_IGNORED),
        ({"type": "item_reference", "id": "msg_1"}, HistoryCode.REFERENCE_UNRESOLVED),
        ({"id": "msg_1", "type": None}, HistoryCode.REFERENCE_UNRESOLVED),
        ({"type": "acme:unheard_of", "data": 1}, HistoryCode.ITEM_IGNORED),
        ({"type": ["message"]}, HistoryCode.ITEM_IGNORED),
        ({}, HistoryCode.ITEM_IGNORED),
        ("not an item", HistoryCode.ITEM_IGNORED),
        (None, HistoryCode.ITEM_IGNORED),
    ],
)
def test_items_without_meaning_upstream_are_ignored_with_a_diagnostic(item: Any, code: str) -> None:
    steps, [diagnostic] = read({"role": "user", "content": "hi"}, item)
    assert steps == [said("user", "hi")]
    assert (diagnostic.code, diagnostic.decision) == (code, Decision.IGNORED)
    assert diagnostic.param == "input[1]"


def test_tools_settings_and_triggers_in_the_input_make_no_steps() -> None:
    tools = {"type": "additional_tools", "role": "developer", "tools": []}
    settings = {"type": "configuration_update", "reasoning": {"effort": "low"}}
    assert steps_of(tools, settings, {"type": "compaction_trigger"}) == []


@table("kind", ["compaction", "compaction_summary", "context_compaction"])
def test_a_compaction_that_nobody_has_opened_becomes_a_note(kind: str) -> None:
    steps, [diagnostic] = read({"type": kind, "encrypted_content": "x"})
    assert steps == [said("user", f"[{UNREADABLE_COMPACTION}]")]
    assert diagnostic.code == HistoryCode.COMPACTION_IGNORED


def test_an_opened_compaction_keeps_the_item_of_its_provider() -> None:
    item = OpenedCompaction(type="compaction", encrypted_content="x")
    [step] = steps_of(item)
    assert isinstance(step, MessageStep)
    assert step.native == {"type": "compaction", "encrypted_content": "x"}


def test_the_path_of_a_diagnostic_begins_where_the_caller_says() -> None:
    _, [diagnostic] = read_items(
        [{}], inputs=SEES, tool_output_images=False, param="previous_response"
    )
    assert diagnostic.param == "previous_response[0]"


def test_an_image_in_a_tools_answer_follows_it_where_the_tool_role_takes_text() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "view", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": [PICTURE]}
    steps, [diagnostic] = read(call, output)
    picture = ImagePart("data:image/png;base64,AA==")
    assert steps == [
        ToolCallStep("c", "view", "{}"),
        ToolResultStep("c", (TextPart("[image: see the next message]"),)),
        MessageStep("user", (picture,)),
    ]
    assert diagnostic.code == HistoryCode.IMAGE_MOVED
    kept, _ = read_items([call, output], inputs=SEES, tool_output_images=True)
    assert kept == (ToolCallStep("c", "view", "{}"), ToolResultStep("c", (picture,)))


def test_images_are_found_wherever_a_model_would_see_them_and_each_once() -> None:
    far = {"type": "input_image", "image_url": "https://x.test/a.png"}
    items: list[Any] = [
        {"role": "user", "content": [PICTURE, "and", far, {"type": "input_file", "file_id": "f"}]},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "c", "name": "view", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": [PICTURE]},
        {
            "role": "developer",
            "content": [{"type": "input_image", "image_url": "https://x.test/b"}],
        },
        {"role": "user", "content": [{"type": "input_image", "file_id": "file_1"}]},
    ]
    assert image_urls(items) == [
        "data:image/png;base64,AA==",
        "https://x.test/a.png",
        "https://x.test/b",
    ]
    assert image_urls([]) == []


def test_a_described_image_stays_in_its_place_in_a_tools_answer() -> None:
    output = {"type": "function_call_output", "call_id": "c", "output": [PICTURE]}
    seen = {"data:image/png;base64,AA==": "A red door."}
    [answered], [diagnostic] = read_items(
        [output], inputs=frozenset({"text"}), tool_output_images=False, descriptions=seen
    )
    text = "[image: not shown, but described by another model: A red door.]"
    assert answered == ToolResultStep("c", (TextPart(text),))
    assert diagnostic.code == HistoryCode.IMAGE_DESCRIBED


# --- messages of text alone -----------------------------------------------------------------------

WORDS = {"type": "input_text", "text": "Hello"}


PLAIN_ITEMS = {
    "a text": {"role": "user", "content": "Hello"},
    "parts": {
        "type": "message",
        "role": "user",
        "content": [WORDS, {"type": "text", "text": "you"}],
    },
    "a system message": {"type": None, "role": "system", "content": "Be brief."},
    "output": {
        "id": "msg_1",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hi"}],
    },
}


@table("item", PLAIN_ITEMS.values(), ids=PLAIN_ITEMS)
def test_messages_of_text_alone_are_read_at_once(item: Any) -> None:
    steps, diagnostics = read(item)
    assert read_plain_messages([item]) == tuple(steps)
    assert diagnostics == []


OTHER_ITEMS = {
    "a call": {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    "no role": {"type": "message", "content": "Hello"},
    "a strange role": {"role": ["user"], "content": "Hello"},
    "a phase": {"role": "assistant", "content": "Hello", "phase": "commentary"},
    "a place": {"role": "user", "content": "Hello", "place": [0, 0]},
    "nothing": {"role": "user", "content": ""},
    "no content": {"role": "user", "content": None},
    "no parts": {"role": "user", "content": []},
    "a text as part": {"role": "user", "content": ["Hello"]},
    "a picture": {"role": "user", "content": [WORDS, PICTURE]},
    "more members": {"role": "user", "content": [{**WORDS, "cache_control": {}}]},
    "an empty part": {"role": "user", "content": [WORDS, {"type": "input_text", "text": ""}]},
    "a number": {"role": "user", "content": [{"type": "input_text", "text": 1}]},
    "another type": {"role": "user", "content": [{"type": "summary_text", "text": "Hello"}]},
}


@table("item", OTHER_ITEMS.values(), ids=OTHER_ITEMS)
def test_every_other_item_is_read_by_its_type(item: Any) -> None:
    assert read_plain_messages([{"role": "user", "content": "First"}, item]) is None
