"""The formats of tool calls in text: what is a call, and what is not quite one."""

from __future__ import annotations

from antiphon.core.deltas import ToolCall
from tests.support.dialect_samples.leaked_markup import CALL_GUARDS, calls_of, read, text_of
from tests.support.tables import table


def test_several_calls_may_share_a_block() -> None:
    one = "<|tool_call_begin|>{}:{}<|tool_call_argument_begin|>{{}}<|tool_call_end|>"
    both = one.format("functions.f", 0) + "\n" + one.format("g.h", 12)
    section = f"<|tool_calls_section_begin|>\n{both}\n<|tool_calls_section_end|>"
    assert calls_of(read(["kimi"], [section])) == [("f", {}), ("g.h", {})]
    # ggml-org/llama.cpp pull request 17376, thinking-machines-lab/tinker-cookbook 248
    singular = read(["kimi"], [section.replace("tool_calls_section", "tool_call_section")])
    assert (calls_of(singular), text_of(singular)) == ([("f", {}), ("g.h", {})], "")
    array = '[TOOL_CALLS] [{"name": "f"}, {"name": "g", "arguments": "{}", "id": "x"}]'
    assert calls_of(read(["mistral"], [array])) == [("f", {}), ("g", {})]


def test_a_tagged_value_that_parses_as_json_is_that_value() -> None:
    values = {
        "3": 3,
        "1.50": 1.5,
        "007": "007",
        "true": True,
        "True": True,
        "False": False,
        "None": None,
        "null": None,
        " [1, 2] ": [1, 2],
        '{"a": 1}': {"a": 1},
        '"quoted"': '"quoted"',
        "{broken": "{broken",
        "[" * 100_000: "[" * 100_000,
        " plain ": " plain ",
    }
    for text, value in values.items():
        block = f"<tool_call>f<arg_key>k</arg_key><arg_value>{text}</arg_value></tool_call>"
        assert calls_of(read(["glm"], [block])) == [("f", {"k": value})]


def test_a_value_may_hold_its_own_end_tag() -> None:
    value = "x</parameter>\n<y></parameter></function"
    text = f"<function=f>\n<parameter=k>\n{value}\n</parameter>\n</function>"
    for fragments in ([text], list(text)):
        assert calls_of(read(["qwen_xml"], fragments)) == [("f", {"k": value})]


def test_a_parameter_of_deepseek_says_whether_it_is_text() -> None:
    """vllm-project/vllm issue 40801, cline/cline issue 13348: DeepSeek V4 at many hosts."""
    text = (
        '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">\n'
        '<｜DSML｜parameter name="a" string="true">3</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="b" string="false">{"c": [1]}</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="d">3</｜DSML｜parameter>\n'
        '</｜DSML｜invoke>\n<｜DSML｜invoke name="g">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>'
    )
    expected = [("f", {"a": "3", "b": {"c": [1]}, "d": 3}), ("g", {})]
    for written in (text, text.replace("｜", "｜｜"), text.replace("｜", "|")):
        for fragments in ([written], list(written)):
            deltas = read(["dsml"], fragments)
            assert (calls_of(deltas), text_of(deltas)) == (expected, "")


def test_arguments_are_sent_as_they_were_written() -> None:
    written = '{"b":1.0, "a" :1e3,"b":  "\\u00e9"}'
    [call] = read(["hermes"], [f'<tool_call>{{"name":"f","arguments":{written}}}</tool_call>'])
    assert call == ToolCall(0, None, "f", written)


NO_CALLS = [
    "<tool_call>",
    "<tool_call></tool_call>",
    "<tool_call>{}</tool_call>",
    '<tool_call>{"name": "f", "arguments": {"a": 1}</tool_call>',
    '<tool_call>{"name": "f", "arguments": {"a": 1}}}</tool_call>',
    '<tool_call>{"name": "f", "arguments": [1]}</tool_call>',
    '<tool_call>{"name": "f", "arguments": "[1]"}</tool_call>',
    '<tool_call>{"name": "f", "arguments": "{"}</tool_call>',
    '<tool_call>{"name": "f", "arguments": null}</tool_call>',
    '<tool_call>{"name": "f", "parameters": {"a": 1}}</tool_call>',
    '<tool_call>{"name": "", "arguments": {}}</tool_call>',
    '<tool_call>{"name": "a tool", "arguments": {}}</tool_call>',
    '<tool_call>{"name": 1, "arguments": {}}</tool_call>',
    '<tool_call>{"name": "f", "arguments": {"a": "line\nbreak"}}</tool_call>',
    '<tool_call>{"name": "f", "arguments": {"a": ' + "[" * 9999 + "]" * 9999 + "}}</tool_call>",
    '<tool_call>{"name": "f", "arguments": {"a": "\ud800"}}</tool_call>',
    '<tool_call>{"name": "f", arguments: {}}</tool_call>',
    '<tool_call>{"name": "f"} and so on</tool_call>',
    '<tool_call>{"name": <b>}</tool_call>',
    "<tool_call>a b</tool_call>",
    f"<tool_call>{'f' * 129}</tool_call>",
    "<tool_call>f<arg_key>k</arg_key>v</tool_call>",
    "<tool_call>f<arg_key></arg_key><arg_value>v</arg_value></tool_call>",
    "<tool_call>f<arg_key>k</arg_key><arg_value>\ud800</arg_value></tool_call>",
    "<tool_call><function=f></function>",
    "<tool_call><function=f></function> </tool>",
    "<function=>x</function>",
    "<function=f>x</function>",
    "<function=f><parameter=k>1</parameter><parameter=k>2</parameter></function>",
    "<|tool_call_begin|>f<|tool_call_argument_begin|>{}<|tool_call_end|>",
    "<|tool_call_begin|>f:0<|tool_call_argument_begin|>{]<|tool_call_end|>",
    "<|tool_calls_section_begin|><|tool_calls_section_end|>",
    "[TOOL_CALLS]",
    "[TOOL_CALLS][]",
    "[TOOL_CALLS][1]",
    "[TOOL_CALLS][TOOL_CALLS]",
    "[TOOL_CALLS]f[ARGS]x",
    "[TOOL_CALLS]f[ARGS]{x}",
    "<｜DSML｜tool_calls></｜DSML｜tool_calls>",
    "Models write `<｜DSML｜tool_calls>` and `<｜DSML｜invoke name=...>` tags",
    '<｜DSML｜invoke name="f">x</｜DSML｜invoke>',
    '<｜DSML｜invoke name="a tool"></｜DSML｜invoke>',
    '<|DSML|invoke name="f"></｜DSML｜invoke>',
    '<｜DSML｜invoke name="f"><｜DSML｜parameter name="k" string="no">v</｜DSML｜parameter>',
    '<minimax:tool_call><invoke name="f"></invoke>',
    '<invoke name="f"></invoke>',
]


@table("text", NO_CALLS)
def test_a_block_that_is_no_call_is_text_at_any_cut(text: str) -> None:
    for fragments in ([f"a {text} b"], list(f"a {text} b")):
        deltas = read(CALL_GUARDS, fragments)
        assert calls_of(deltas) == []
        assert text_of(deltas) == f"a {text} b"
