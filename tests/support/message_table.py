"""Every message of Antiphon, as templates with {placeholders}, extracted from its source.

A sink is a call whose argument a client or an operator can read: an error class of errors.py, a
diagnostic, a fault, an HTTP error, a log event, a help text. A parameter in such a text is
completed by the callers. What cannot be resolved is reported, never skipped.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from antiphon import errors
from antiphon.core.faults.messages import TEXTS
from tests.support.message_templates import (
    Hole,
    Param,
    Template,
    close,
    fill,
    has_param,
    is_text,
    is_unknown,
    render,
    short_bindings,
)
from tests.support.source_texts import (
    Found,
    Function,
    Source,
    Texts,
    argument,
    argument_of,
    called_name,
    read_sources,
)

INVALID = "Invalid requests (the message of an HTTP error response)"
HTTP = "Other HTTP errors"
DESCRIPTIONS = "Descriptions of faults for clients, by locale"
STREAM = "Errors and faults that the gateway detects itself (in failed responses or the log)"
VIOLATION = "Violations of a requested format (quoted in other messages)"
DIAGNOSTIC = "Diagnostics (in the response, the log and the trace)"
CONFIG = "Configuration errors"
STORE = "Store errors"
SEARCH = "Search errors"
REASON = "Reasons that other messages quote"
COMMAND = "Command line: errors and answers to prompts"
HELP = "Command line: help texts"
OUTPUT = "Command line: output"
LOG = "Log events"
ORDER = (
    *(INVALID, HTTP, DESCRIPTIONS, STREAM, VIOLATION, DIAGNOSTIC, CONFIG, STORE, SEARCH, REASON),
    *(COMMAND, HELP, OUTPUT, LOG),
)


def _error_sinks() -> Iterator[tuple[str, tuple[str, int | None, str]]]:
    """Every error class that takes its message from the caller, with its section."""
    sections = {"ConfigError": CONFIG, "StoreError": STORE, "SearchError": SEARCH}
    for name, kind in vars(errors).items():
        if not (isinstance(kind, type) and issubclass(kind, errors.AntiphonError)):
            continue
        if "message" in kind.__init__.__code__.co_varnames[:2]:
            section = COMMAND if kind.code.startswith("cli.") else STREAM
            section = INVALID if issubclass(kind, errors.InvalidRequest) else section
            for parent in kind.__mro__:
                section = sections.get(parent.__name__, section)
            yield name, (section, 0, "message")


# Call → section, position and keyword of the message.
SINKS: dict[str, tuple[str, int | None, str]] = {
    "Diagnostic": (DIAGNOSTIC, None, "message"),
    "failed": (STREAM, None, "message"),
    "fault_of_kind": (STREAM, 1, "message"),
    "ProviderFault": (STREAM, None, "message"),
    "SchemaViolation": (VIOLATION, 2, "message"),
    "GrammarViolation": (VIOLATION, 1, "message"),
    "Problem": (HTTP, None, "message"),
    "error_at": (CONFIG, 1, "problem"),
    "ValueError": (REASON, 0, ""),
    "TypeError": (REASON, 0, ""),
    "BrokenEventStream": (REASON, 0, ""),
    "BrokenResponse": (REASON, 0, ""),
    "ConnectionFailure": (REASON, 0, ""),
    "RejectedMedia": (REASON, 0, "reason"),
    "SearchOutcome": (REASON, None, "problem"),
    "print_error": (COMMAND, 0, "message"),
    "ProbeResult": (COMMAND, None, "message"),
    "Entry": (LOG, 0, "event"),
    **dict(_error_sinks()),
}
# Functions that return a message which reaches its reader through an object.
MESSAGE_FUNCTIONS = {("providers/plugin.py", "_describe_problem"): CONFIG}
HELP_CALLS = {"add_argument", "add_parser", "add_subparsers", "ArgumentParser"}
HELP_KEYWORDS = ("help", "description", "epilog")
DEEPEST_CALLS = 4  # callers of callers that are followed


@dataclass(frozen=True)
class Message:
    section: str
    module: str
    text: str


@dataclass
class Site:
    """An argument that is a message: where it stands, and to which section and module it goes."""

    source: Source
    node: ast.expr
    section: str = ""
    owner: str = ""
    depth: int = 0

    def __post_init__(self) -> None:
        self.owner = self.owner or self.source.path


class Extraction:
    """All messages of some modules, and the sinks whose text could not be resolved."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self.messages: dict[Message, None] = {}
        self.unresolved: dict[str, None] = {}
        self._texts = Texts(sources)
        self.sinks: set[str] = set()
        self._placed: set[tuple[Function, str, Template]] = set()
        for source in self._texts.sources.values():
            for node in source.nodes:
                if isinstance(node, ast.Call):
                    self._read_call(source, node)
                elif isinstance(node, Function):
                    self._read_function(source, node)

    def _read_function(self, source: Source, function: Function) -> None:
        section = MESSAGE_FUNCTIONS.get((source.path, function.name))
        if section is not None:
            self.sinks.add(function.name)
            for template in self._texts.returned_by(source, function) or ():
                self._add(section, source.path, close(template))

    def _read_call(self, source: Source, call: ast.Call) -> None:
        name = called_name(call)
        if name in SINKS:
            self._read_sink(source, call, name)
        elif name == "__init__" and source.path == "errors.py":
            self._read_error_class(source, call)
        elif source.path.startswith("cli/") and name in HELP_CALLS:
            for given in call.keywords:
                if given.arg in HELP_KEYWORDS:
                    site = Site(source, given.value, HELP)
                    self._place(site, self._texts.resolve(source, given.value))
        elif source.path.startswith("cli/") and name == "print":
            for shown in call.args:  # tables and panels are not messages
                for template in filter(is_text, self._texts.resolve(source, shown) or ()):
                    self._add(OUTPUT, source.path, template)

    def _read_sink(self, source: Source, call: ast.Call, name: str) -> None:
        section, position, keyword = SINKS[name]
        node = argument(call, position, keyword)
        if node is None:
            return
        self.sinks.add(name)
        texts = self._texts.resolve(source, node)
        if name == "error_at" and texts:  # it puts the file, the line and the key first
            texts = [
                each if is_unknown(each) else (Hole("key"), ": ", *each) for each in texts if each
            ]
        self._place(Site(source, node, section), texts)

    def _read_error_class(self, source: Source, call: ast.Call) -> None:
        """The text of an error class itself, as it is in `super().__init__(...)`."""
        owner = source.parents[source.function_around(call) or call]
        kind = getattr(errors, getattr(owner, "name", ""), None)
        section = INVALID if kind and issubclass(kind, errors.InvalidRequest) else STREAM
        for node in call.args[:1]:
            for template in filter(is_text, self._texts.resolve(source, node) or ()):
                self._add(section, source.path, template)

    def _place(self, site: Site, templates: Found) -> None:
        """Record templates. Those that depend on a parameter are completed by the callers."""
        function = site.source.function_around(site.node)
        where = f"{function.name}: " if function else ""
        if templates is None or any(map(is_unknown, templates)):
            self.unresolved[f"{site.source.path}: {where}{ast.unparse(site.node)}"] = None
        for template in templates or ():
            if is_unknown(template):
                continue
            if not has_param(template) or function is None:
                self._add(site.section, site.owner, close(template))
            elif (function, site.section, template) not in self._placed:
                self._placed.add((function, site.section, template))
                self._place_at_callers(site, function, template)

    def _place_at_callers(self, site: Site, function: Function, template: Template) -> None:
        names = {part.name for part in template if isinstance(part, Param)}
        texts = self._texts
        calls = list(texts.calls_of(site.source, function)) if site.depth < DEEPEST_CALLS else []
        bindings = [texts.bind(place, call, function, names) for place, call in calls]
        if is_text(template) and (short := short_bindings(bindings)):
            [template] = fill(template, short, keep=True)
            bindings = [
                {name: bound[name] for name in bound if name not in short} for bound in bindings
            ]
        has_own_text = any(isinstance(part, str) for part in template)
        if has_own_text and (function.name in SINKS or not any(bindings)):
            self._add(site.section, site.owner, close(template))
        elif function.name not in SINKS:
            for (place, call), bound in zip(calls, bindings, strict=True):
                has_text = any(is_text(each) for given in bound.values() for each in given)
                owner = place.path if has_text else site.owner
                caller = Site(place, call, site.section, owner, site.depth + 1)
                for filled in fill(template, bound):
                    if is_unknown(filled):
                        self._check_passed_on(place, call, function, names)
                    else:
                        self._place(caller, [filled])

    def _check_passed_on(
        self, source: Source, call: ast.Call, function: Function, names: set[str]
    ) -> None:
        """A whole message that the caller gives must be resolved, or be another message."""
        for name in names:
            given = argument_of(call, function, name)
            if given is not None and self._texts.resolve(source, given) is None:
                self._place(Site(source, given), None)

    def _add(self, section: str, owner: str, template: Template) -> None:
        text = re.sub(r"\s*\n\s*", " / ", render(template).strip())
        if text:
            self.messages[Message(section, owner, text)] = None


def extract() -> Extraction:
    """Everything that clients and operators can read, with the descriptions of faults."""
    found = Extraction(read_sources())
    for locale, texts in TEXTS.items():
        for key, text in texts.items():
            found.messages[Message(DESCRIPTIONS, locale, f"{key}: {text.strip()}")] = None
    return found


HEADER = """\
Every message that a client or an operator can read, by kind and by the module that writes it.
`{name}` stands for a value, `(a | b)` for one of several texts, ` / ` for a new line.

tests/test_messages.py compares this table with the source. After a change of a message:
pytest tests/test_messages.py --update-golden, and read the difference.
"""


def render_table(messages: Iterable[Message]) -> str:
    lines = [HEADER.rstrip()]
    rows = sorted(set(messages), key=lambda each: (ORDER.index(each.section), each.module))
    for section, members in itertools.groupby(rows, key=lambda each: each.section):
        lines += ["", "", section, "=" * len(section)]
        for module, texts in itertools.groupby(members, key=lambda each: each.module):
            lines += ["", module]
            lines += sorted(f"  {each.text}" for each in texts)
    return "\n".join(lines) + "\n"
