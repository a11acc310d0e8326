"""Patches as models write them: valid, wrapped and broken ones, and a validator.

`GRAMMAR` is what a client declares for its patch tool; `is_sound` says the same by other means.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping

from antiphon.core.deltas import Delta, Finish, Text, ToolCall, ToolEnd, ToolRevision
from antiphon.core.tools.identity import Grammar, ToolIdentity, ToolIdentityMap
from tests.support.filters import DrivenFilter

GRAMMAR = Grammar(
    "lark",
    r"""
    start: "*** Begin Patch\n" file+ "*** End Patch" "\n"?
    file: added | deleted | changed
    added: "*** Add File: " path ("+" rest)+
    deleted: "*** Delete File: " path
    changed: "*** Update File: " path ("*** Move to: " path)? (("@@" rest | mark rest)+ ending?)?
    ending: "*** End of File\n"
    mark: "+" | "-" | " "
    path: /[^\n]+\n/
    rest: /[^\n]*\n/
    """,
)
PATCH = ToolIdentity("apply_patch", "apply_patch", "custom", grammar=GRAMMAR)
SCRIPT = ToolIdentity("exec", "exec", "custom", grammar=Grammar("regex", r"[\s\S]+"))
SHELL = ToolIdentity("shell", "shell")
TOOLS = ToolIdentityMap([PATCH, SCRIPT, SHELL, ToolIdentity("exec_command", "exec_command")])

_VALID = re.compile(
    r"""\*\*\*\ Begin\ Patch\n
    (?: \*\*\*\ Add\ File:\ .+\n (?: \+.*\n )+
      | \*\*\*\ Delete\ File:\ .+\n
      | \*\*\*\ Update\ File:\ .+\n (?: \*\*\*\ Move\ to:\ .+\n )?
        (?: (?: @@.*\n | [-+\ ].*\n )+ (?: \*\*\*\ End\ of\ File\n )? )?
    )+ \*\*\*\ End\ Patch\s*""",
    re.VERBOSE,
)


def is_valid_patch(text: str) -> bool:
    return _VALID.fullmatch(text) is not None


def patch(*files: str) -> str:
    return "*** Begin Patch\n" + "".join(files) + "*** End Patch\n"


# What models change

FILES: Mapping[str, str] = {
    "text": "*** Add File: notes.txt\n+one\n+\n+two words\n",
    "code": '*** Update File: src/a.py\n@@ def f():\n-    return "x"\n+    return {"x": [1]}\n',
    "markdown": "*** Update File: README.md\n@@\n ```sh\n-make\n+make all\n ```\n",
    "shell": "*** Add File: run.sh\n+cat <<EOF\n+$HOME \\\\ `date`\n+EOF\n",
    "gone": "*** Delete File: old name.txt\n",
    "moved": "*** Update File: a\n*** Move to: b\n@@\n-1\n+2\n*** End of File\n",
    "json": '*** Add File: p.json\n+{"input": "y", "patch": ["\\n"]}\n',
    "foreign": "*** Update File: grüße/日本.txt\n@@\n-é\n+😀 \\u00e9\n \n",
    "blank": "*** Update File: b.txt\n@@\n \n-\n+\n",
    "markers": "*** Add File: m\n+*** End Patch\n+*** Begin Patch\n+EOF\n+```\n",
}


def valid_patches() -> Iterator[str]:
    names = list(FILES)
    for start, name in enumerate(names):
        yield patch(FILES[name])
        yield patch(FILES[name], FILES[names[(start + 3) % len(names)]])
    yield patch(*FILES.values())


# What models put around it

WRAPPERS: Mapping[str, Callable[[str], str]] = {
    "nothing": lambda text: text,
    "no last line break": lambda text: text.removesuffix("\n"),
    "more line breaks": lambda text: text + "\n\n",
    "fence": lambda text: f"```\n{text}```",
    "patch fence": lambda text: f"```patch\n{text}```\n",
    "diff fence": lambda text: f"\n```diff\n{text}```\n\n",
    "long fence": lambda text: f"````text\n{text}````",
    "open fence": lambda text: f"```patch\n{text}",
    "quoted heredoc": lambda text: f"apply_patch <<'EOF'\n{text}EOF\n",
    "plain heredoc": lambda text: f"apply_patch << PATCH\n{text}PATCH",
    "bare heredoc": lambda text: f'<<"EOF"\n{text}EOF\n',
    "piped heredoc": lambda text: f"cat <<'EOF' | apply_patch\n{text}EOF\n",
    "command": lambda text: f"apply_patch {text}",
    "command line": lambda text: f"apply_patch\n{text}",
    "patch object": lambda text: json.dumps({"patch": text}),
    "input object": lambda text: json.dumps({"input": text}, ensure_ascii=False, indent=1),
    "command list": lambda text: json.dumps({"command": ["apply_patch", text]}),
    "shell list": lambda text: json.dumps(
        {"cmd": ["bash", "-lc", f"apply_patch <<'EOF'\n{text}EOF"]}
    ),
    "nested object": lambda text: json.dumps({"arguments": {"input": text}}),
    "late field": lambda text: json.dumps({"explanation": "a change", "patch": text}),
    "JSON string": lambda text: json.dumps(text),
    "fenced heredoc": lambda text: f"```bash\napply_patch <<'EOF'\n{text}EOF\n```\n",
    "fenced object": lambda text: f"```json\n{json.dumps({'patch': text})}\n```",
}


# What models get wrong

DAMAGES: Mapping[str, Callable[[str], str]] = {
    "no begin": lambda text: text.partition("\n")[2],
    "no end": lambda text: text.removesuffix("*** End Patch\n"),
    "cut in the middle": lambda text: text[: len(text) // 2],
    "only the end": lambda text: text[len(text) // 2 :],
    "unmarked line": lambda text: text.replace("\n*** End Patch", "\nplain\n*** End Patch"),
    "wrong verb": lambda text: text.replace("*** Update", "*** Change").replace("Add F", "New F"),
    "two stars": lambda text: text.replace("*** ", "** "),
    "git header": lambda text: "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "chatter before": lambda text: f"Here is the patch:\n\n{text}",
    "chatter after": lambda text: f"{text}\nThis should fix it.",
    "twice": lambda text: text + text,
    "empty": lambda text: "",
    "indented": lambda text: "".join(f"  {line}\n" for line in text.splitlines()),
    "blank lines": lambda text: text.replace("\n", "\n\n"),
    "escaped": lambda text: text.replace("\n", "\\n"),
    "no hunks": lambda text: "*** Begin Patch\n*** End Patch\n",
}


# Calls as the filter for freeform input gets them


def called(
    text: str, *, index: int = 0, call_id: str = "c1", name: str = "apply_patch", size: int = 7
) -> list[Delta]:
    """A call as providers stream them: id and name, then pieces of arguments."""
    pieces = (text[start : start + size] for start in range(0, len(text), size))
    return [
        ToolCall(index, call_id, name),
        *(ToolCall(index, arguments=piece) for piece in pieces),
    ]


def arguments(text: str) -> str:
    return json.dumps({"input": text})


def run_round(
    subject: DrivenFilter, deltas: list[Delta], reason: str | None = "tool_calls"
) -> list[Delta]:
    """The deltas of one round behind the filter."""
    deltas = [out for delta in [*deltas, Finish(reason)] for out in subject.feed(delta)]
    return deltas + subject.close(final=True)


def inputs(deltas: list[Delta]) -> dict[int, str]:
    """The input of each custom call that has ended, as a machine would have it."""
    texts: dict[int, str] = {}
    ended: set[int] = set()
    for delta in deltas:
        match delta:
            case ToolCall(kind="custom"):
                assert delta.index not in ended, "a call went on after its end"
                texts[delta.index] = texts.get(delta.index, "") + delta.arguments
            case ToolRevision():
                texts[delta.index] = delta.text
            case ToolEnd():
                ended.add(delta.index)
            case _:
                assert isinstance(delta, Finish | Text | ToolCall)
    return {index: text for index, text in texts.items() if index in ended}


def final_input(subject: DrivenFilter, first: list[Delta], second: str) -> str:
    """The input that one call ends with, where the model would write this if asked again."""
    deltas = run_round(subject, first)
    if subject.follow_up is not None:
        deltas += run_round(subject, called(arguments(second), call_id="c2"))
    (text,) = inputs(deltas).values()
    return text
