"""Any history is encoded as a valid request, and a longer history only appends."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from antiphon.core.capabilities import ReplayReasoning
from antiphon.core.history.pairing import pair_calls
from antiphon.core.history.read_items import read_items
from antiphon.core.history.steps import HistoryCode, MessageStep, Step, ToolCallStep, ToolResultStep
from antiphon.core.plan.plan import Plan
from antiphon.dialects.chat.encode import encode
from antiphon.dialects.chat.quirks import ChatQuirks
from tests.support.request_validators.chat import problems

Item = dict[str, Any]

SEES = frozenset({"text", "image", "file", "audio"})
READS = frozenset({"text"})

# --- anything a client might send -----------------------------------------------------------------

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
)
junk = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
call_ids = st.sampled_from(["call_1", "name:0", "name:0", ""])  # few, so that they meet
texts = st.sampled_from(["", "hello", "a\nb", "é"])
arguments = st.sampled_from(["", "null", "{}", '{"a": 1}', '{"a": ', "[1]", '"x"', "nope"])


@st.composite
def mangled(draw: st.DrawFn, /, **fields: st.SearchStrategy[Any]) -> Item:
    """A valid object, but for a few fields that are missing, null or invalid."""
    item = draw(st.fixed_dictionaries(fields))
    for name in draw(st.lists(st.sampled_from(sorted(fields)), max_size=2)):
        if draw(st.booleans()):
            item[name] = draw(st.none() | junk)
        else:
            item.pop(name, None)
    return item


parts = st.one_of(
    texts,
    mangled(type=st.sampled_from(["input_text", "output_text", "text"]), text=texts),
    mangled(type=st.just("refusal"), refusal=texts),
    mangled(
        type=st.sampled_from(["input_image", "computer_screenshot"]),
        image_url=st.just("https://images.test/1.png") | mangled(url=texts),
        detail=st.sampled_from(["low", "original"]),
        file_id=st.just("file_1"),
    ),
    mangled(
        type=st.just("input_file"),
        filename=texts,
        file_data=texts,
        file_url=st.just("https://files.test/1.pdf"),
        file_id=st.just("file_1"),
    ),
    mangled(type=st.just("input_audio"), input_audio=mangled(data=texts, format=st.just("wav"))),
    mangled(type=st.sampled_from(["input_video", "hologram"]), video_url=texts),
    junk,
)
contents = texts | st.lists(parts, max_size=3) | junk
types = st.sampled_from(
    """
    message agent_message reasoning function_call function_call_output custom_tool_call
    custom_tool_call_output shell_call shell_call_output local_shell_call local_shell_call_output
    apply_patch_call apply_patch_call_output computer_call computer_call_output tool_search_call
    tool_search_output program program_output mcp_call mcp_approval_request mcp_approval_response
    mcp_list_tools code_interpreter_call file_search_call web_search_call image_generation_call
    additional_tools configuration_update compaction compaction_summary context_compaction
    compaction_trigger item_reference acme:note
    """.split()
)
any_item = mangled(
    type=types,
    id=st.sampled_from(["msg_1", "fc_1"]),
    role=st.sampled_from(["system", "developer", "user", "assistant", "tool"]),
    content=contents,
    summary=contents,
    call_id=call_ids,
    name=st.sampled_from(["look", "näh", "x" * 70]),
    namespace=st.sampled_from(["box", "b.x"]),
    arguments=arguments,
    input=texts,
    output=contents | st.lists(mangled(stdout=texts, outcome=mangled(exit_code=st.just(1)))),
    outputs=st.lists(mangled(type=st.just("logs"), logs=texts), max_size=2),
    action=mangled(commands=st.just(["ls"]), command=st.just(["ls"]), env=st.just({"A": "b"})),
    operation=mangled(type=st.just("delete_file"), path=texts),
    results=st.lists(mangled(filename=texts, text=texts), max_size=2),
    tools=st.lists(mangled(type=st.just("namespace"), name=texts), max_size=2),
    result=texts,
    error=texts,
)
call = st.builds(
    lambda call_id, text: {
        "type": "function_call",
        "call_id": call_id,
        "name": "look",
        "arguments": text,
    },
    call_ids,
    arguments,
)
output = st.builds(
    lambda call_id, text: {"type": "function_call_output", "call_id": call_id, "output": text},
    call_ids,
    st.sampled_from(["one", "two"]) | contents,
)
message = st.builds(
    lambda role, text: {"role": role, "content": text},
    st.sampled_from(["developer", "user", "assistant"]),
    contents,
)
thought = st.builds(lambda text: {"type": "reasoning", "content": [{"text": text}]}, texts)
usual = call | output | message | thought
any_items = st.lists(usual, max_size=12) | st.lists(usual | any_item, max_size=8)


def read(items: Sequence[Any], inputs: frozenset[str] = SEES, images: bool = False) -> list[Step]:
    steps, _ = read_items(items, inputs=inputs, tool_output_images=images)
    return list(pair_calls(steps)[0])


def rendered(steps: Sequence[Step], replay: ReplayReasoning = "always") -> bytes:
    plan = Plan(
        provider="p",
        model="m",
        instructions="Be brief.",
        history=tuple(steps),
        replay_reasoning=replay,
    )
    return encode(plan, stream=True, quirks=ChatQuirks(reasoning_required=True)).body


def is_answered(items: Sequence[Any]) -> bool:
    steps, _ = read_items(items, inputs=SEES, tool_output_images=False)
    return all(note.code != HistoryCode.CALL_UNANSWERED for note in pair_calls(steps)[1])


def is_clients(step: Step) -> bool:
    return isinstance(step, ToolResultStep) or (
        isinstance(step, MessageStep) and step.role != "assistant"
    )


@given(any_items, st.sampled_from([SEES, READS]), st.booleans())
def test_any_history_renders_to_a_valid_request(
    items: list[Any], inputs: frozenset[str], images: bool
) -> None:
    assert problems(rendered(read(items, inputs, images))) == []


@given(st.lists(junk, max_size=4))
def test_a_list_of_anything_at_all_renders_to_a_valid_request(items: list[Any]) -> None:
    assert problems(rendered(read(items))) == []


@given(any_items)
def test_pairing_what_is_paired_changes_nothing(items: list[Any]) -> None:
    steps = read(items)
    again, diagnostics = pair_calls(steps)
    assert list(again) == steps
    assert diagnostics == ()


@given(any_items)
def test_no_part_of_a_tool_result_is_lost(items: list[Any]) -> None:
    steps, _ = read_items(items, inputs=SEES, tool_output_images=False)
    spoken_message = {
        part
        for step in read(items)
        if isinstance(step, ToolResultStep | MessageStep)
        for part in step.parts
    }
    assert all(
        spoken_message.issuperset(step.parts) for step in steps if isinstance(step, ToolResultStep)
    )


@given(any_items, any_items)
def test_a_thread_whose_calls_are_answered_only_grows(past: list[Any], more: list[Any]) -> None:
    assume(is_answered(past))
    steps = read(past)
    assert read([*past, *more])[: len(steps)] == steps


@given(any_items, any_items)
def test_a_body_that_ends_with_a_client_message_is_a_prefix_of_the_next(
    past: list[Any], more: list[Any]
) -> None:
    steps = read(past)
    assume(is_answered(past))
    assume(bool(steps) and is_clients(steps[-1]))  # without any, a placeholder is sent
    body = rendered(steps)
    assert rendered(read([*past, *more])).startswith(body.removesuffix(b"]}"))


# --- threads as agents really lead them -----------------------------------------------------------


@st.composite
def rounds(draw: st.DrawFn) -> list[Item]:
    """An assistant's turn that calls tools, and the answers in any order, interrupted or not."""
    ids = draw(st.lists(st.sampled_from(["a", "b", "look:0"]), min_size=1, unique=True))
    own: list[Item] = draw(st.lists(thought, max_size=1))
    own += [draw(call) | {"call_id": call_id} for call_id in ids]
    if draw(st.booleans()):
        own.append({"role": "assistant", "content": "Let me look."})
    answers = [draw(output) | {"call_id": call_id} for call_id in draw(st.permutations(ids))]
    for note in draw(st.lists(st.sampled_from(["developer", "user"]), max_size=2)):
        index = draw(st.integers(0, len(answers)))
        answers.insert(index, {"role": note, "content": "By the way."})
    return own + answers


asked = st.builds(lambda text: [{"role": "user", "content": text}], texts.filter(bool))
answer = st.builds(
    lambda before: [*before, {"role": "assistant", "content": "Done."}],
    st.lists(thought, max_size=1),
)


@st.composite
def threads(draw: st.DrawFn) -> list[list[Item]]:
    """The additions to a thread, one for each request, each ending with a client message."""
    requests: list[list[Item]] = [draw(asked)]
    follow_up = rounds() | st.builds(list.__add__, answer, asked)
    return requests + draw(st.lists(follow_up, min_size=1, max_size=4))


@given(threads(), st.sampled_from(["never", "tool_turns", "always"]))
def test_the_body_of_each_turn_is_a_prefix_of_the_body_of_the_next(
    requests: list[list[Item]], replay: ReplayReasoning
) -> None:
    histories = accumulate(requests)
    bodies = [rendered(read(history), replay) for history in histories]
    assert all(problems(body) == [] for body in bodies)
    for body, following in pairwise(bodies):
        assert following.startswith(body.removesuffix(b"]}"))


@given(threads())
def test_a_well_formed_thread_makes_no_diagnostics(requests: list[list[Item]]) -> None:
    items = [item for request in requests for item in request]
    steps, _ = read_items(items, inputs=SEES, tool_output_images=False)
    mended, diagnostics = pair_calls(steps)
    assert {note.code for note in diagnostics} <= {HistoryCode.REASONING_ORPHANED}
    assert sum(isinstance(step, ToolCallStep) for step in mended) == sum(
        item.get("type") == "function_call" for item in items
    )


@given(any_items)
def test_rendering_twice_gives_the_same_bytes(items: list[Any]) -> None:
    assert rendered(read(items)) == rendered(read(items))
