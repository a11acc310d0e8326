"""Rules of docs/architecture.md about the source tree: layers, purity and names.

A rule is a function from a module to its offences, one line of text each. The first tests run every
rule over the source tree; the others check that each rule detects an offence.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from antiphon import errors
from tests.support.source_modules import Module, read_modules
from tests.support.tables import table

# From the lowest to the highest: a module imports from its own layer or a lower one.
LAYERS = """
    errors config framing core dialects search mcp providers stages store engine runs observe
    server library cli
""".split()
PURE = {"errors", "framing", "core", "dialects", "stages"}
ALLOWED = {layer: set(LAYERS[: rank + 1]) for rank, layer in enumerate(LAYERS)}
ALLOWED |= {layer: ALLOWED[layer] & PURE for layer in PURE}  # a pure module imports only pure ones
ALLOWED["antiphon"] = set(LAYERS) - {"cli"}  # what it exports, imported when it is first used
ALLOWED["dialect"] = {"errors", "framing", "core", "dialects", "providers"}  # for other packages
ALLOWED["stage"] = {"core", "stages"}  # for other packages, too
ALLOWED["types"] = set()  # for users of the library, and their type checkers
ALLOWED["library"] |= {"types"}
ALLOWED["server"] |= {"antiphon"}
ALLOWED["cli"] |= {"antiphon"}
ALLOWED["__main__"] = {"cli"}

# errors.py is the lowest layer, but `UpstreamError` carries a fault: for the type checker alone, it
# names the class of core that describes one. At run time it imports nothing.
TYPE_ONLY = {("errors", "antiphon.core.faults.fault.ProviderFault")}

# Packages of core, from the lowest to the highest: a package imports from itself or a lower one.
CORE_PACKAGES = """
    lru items diagnostic faults deltas response request events client_profile tools stream history
    capabilities filters structured_output freeform web_search mcp compaction plan translation
""".split()

IMPURE = set(
    """
    asyncio atexit concurrent contextvars ctypes datetime fcntl fileinput getpass glob http
    importlib io locale logging mmap multiprocessing os pathlib pickle platform queue random
    runpy sched secrets select selectors shelve shutil signal site socket socketserver sqlite3
    ssl subprocess sys tempfile threading time tomllib tracemalloc urllib uuid warnings
    webbrowser zoneinfo _thread
    """.split()
)
IMPURE_CALLS = {"__import__", "breakpoint", "eval", "exec", "input", "open", "print"}
PURE_LIBRARIES = {"antiphon", "cryptography", "jsonschema_rs", "llguidance", "msgspec"}

NAMELESS = {"core", "framing", "stages"}
NAMED = {
    # Markup formats are named after the model families that write them, as their vendors do.
    PurePosixPath("core/filters/text_tools/formats.py"),
    # Clients are named by their vendors: a table of user agents.
    PurePosixPath("core/client_profile.py"),
}
PROVIDER = re.compile(
    "anthropic|bedrock|cerebras|claude|dashscope|deepseek|fireworks|gemini|groq|kimi|minimax|mistral"
    "|moonshot|ollama|openrouter|perplexity|qwen|sambanova|siliconflow|vllm|volcengine|xiaomi|zhipu",
    re.IGNORECASE,
)

FORMATLESS = {"framing", "core", "search", "stages", "store", "engine", "runs", "observe"}
CLIENT_FORMATS = {"responses", "messages", "chat"}

METAPHORS = set(
    """
    air desk desks errand errands gear gears heard journey journeys lesson lessons rim shelf shelves
    told course courses
    """.split()
)
EMPTY_WORDS = {"base", "common", "handler", "helper", "impl", "manager", "misc", "util"}


Rule = Callable[[Module], list[str]]


def _layer_of(name: str) -> str:
    """The layer of a dotted name inside the package; a name of the package itself is `antiphon`."""
    part = name.split(".")[1] if "." in name else ""
    return part if part in ALLOWED else "antiphon"


def layer_offences(module: Module) -> list[str]:
    if module.layer not in ALLOWED:
        return [f"{module.path}: belongs to no layer"]
    return [
        f"{module.path}:{line}: {module.layer} imports {name}"
        for line, name in module.imports()
        if name.split(".")[0] == "antiphon"
        and _layer_of(name) not in ALLOWED[module.layer]
        and not ((module.layer, name) in TYPE_ONLY and line in module.type_checking_lines)
    ]


def core_order_offences(module: Module) -> list[str]:
    if module.layer != "core" or len(module.path.parts) < 2 or module.path.name == "__init__.py":
        return []
    own = module.path.parts[1].removesuffix(".py")
    if own not in CORE_PACKAGES:
        return [f"{module.path}: {own!r} is missing in CORE_PACKAGES"]
    allowed = CORE_PACKAGES[: CORE_PACKAGES.index(own) + 1]
    return [
        f"{module.path}:{line}: core.{own} imports {name}"
        for line, name in module.imports()
        if name.startswith("antiphon.core.") and name.split(".")[2] not in allowed
    ]


def purity_offences(module: Module) -> list[str]:
    if module.layer not in PURE:
        return []
    imported = [
        f"{module.path}:{line}: imports {name}"
        for line, name in module.imports()
        if (root := name.split(".")[0]) in IMPURE
        or root not in sys.stdlib_module_names | PURE_LIBRARIES
    ]
    called = [
        f"{module.path}:{node.lineno}: calls {node.func.id}()"
        for node in module.nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in IMPURE_CALLS
    ]
    return imported + called


def _words(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every identifier and literal with its line. A bare string is documentation, not code."""
    documentation = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if node not in documentation:
            for _, value in ast.iter_fields(node):
                if isinstance(value, str | bytes):
                    yield getattr(node, "lineno", 0), str(value)


def provider_name_offences(module: Module) -> list[str]:
    if module.layer not in NAMELESS or module.path in NAMED:
        return []
    words = [(0, str(module.path)), *_words(module.tree)]
    return [
        f"{module.path}:{line}: names {found[0]}"
        for line, word in words
        if (found := PROVIDER.search(word))
    ]


def format_branch_offences(module: Module) -> list[str]:
    """What is between parser and renderer compares nothing with the name of a client format."""
    if module.layer not in FORMATLESS:
        return []
    compared: list[ast.expr] = []
    for node in module.nodes:
        match node:
            case ast.Compare():
                compared += [node.left, *node.comparators]
            case ast.MatchValue():
                compared.append(node.value)
            case ast.Subscript():
                compared.append(node.slice)
            case ast.Call(func=ast.Attribute(attr="get"), args=[first, *_]):
                compared.append(first)
    named = [each for node in compared for each in ast.walk(node) if isinstance(each, ast.Constant)]
    return [
        f"{module.path}:{each.lineno}: compares with the client format {each.value!r}"
        for each in named
        if each.value in CLIENT_FORMATS
    ]


def empty_name_offences(module: Module) -> list[str]:
    words = re.split(r"[/_]+", str(module.path.with_suffix("")))
    return [
        f"{module.path}: {word!r} does not describe its content"
        for word in words
        if {word, word.removesuffix("s")} & EMPTY_WORDS
    ]


def metaphor_offences(module: Module) -> list[str]:
    """Names of modules, classes, functions, arguments, attributes and variables are plain."""
    names = [(0, part) for part in module.path.with_suffix("").parts]
    names += [(getattr(node, "lineno", 0), name) for node, name in _names(module.tree)]
    return [
        f"{module.path}:{line}: {name} is named by a metaphor"
        for line, name in dict.fromkeys(names)
        if METAPHORS & set(re.findall("[a-z]+", _split_words(name)))
    ]


def _names(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield node, name
            case ast.AsyncFunctionDef(name=name) | ast.arg(arg=name) | ast.Name(id=name):
                yield node, name
            case (
                ast.Attribute(attr=name) | ast.keyword(arg=str(name)) | ast.alias(asname=str(name))
            ):
                yield node, name


def _split_words(name: str) -> str:
    """`onTheAir`, `ON_THE_AIR`, `OnTheAir` → `on the air`, `on_the_air`, `on the air`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).lower()


def error_class_offences(module: Module) -> list[str]:
    """An exception is a class derived from a builtin one, from one of errors.py, or named so."""
    if str(module.path) == "errors.py":
        return []
    return [
        f"{module.path}:{node.lineno}: move the error class {node.name} to errors.py"
        for node in module.nodes
        if isinstance(node, ast.ClassDef)
        and any(_is_exception(ast.unparse(parent).split(".")[-1]) for parent in node.bases)
    ]


def document_alias_offences(module: Module) -> list[str]:
    """`Document` is one alias: `antiphon.core.items.Document`."""
    if module.path == PurePosixPath("core/items.py"):
        return []
    return [
        f"{module.path}:{node.lineno}: defines {name.id} again; import it from antiphon.core.items"
        for node in module.nodes
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for name in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(name, ast.Name) and name.id == "Document"
    ]


def _is_exception(name: str) -> bool:
    found = getattr(builtins, name, None) or getattr(errors, name, None)
    if isinstance(found, type):
        return issubclass(found, BaseException)
    return name.endswith(("Error", "Exception"))


# --- the rules over the source tree ---------------------------------------------------------------

MODULES = read_modules()


def offences(rule: Rule) -> list[str]:
    return [offence for module in MODULES for offence in rule(module)]


def test_the_source_tree_is_found() -> None:
    assert MODULES


def test_a_module_imports_only_its_own_or_a_lower_layer() -> None:
    assert offences(layer_offences) == []


def test_a_core_package_imports_only_itself_or_a_lower_one() -> None:
    assert offences(core_order_offences) == []


def test_only_the_routes_and_the_library_know_which_formats_clients_speak() -> None:
    """No plan, filter, stage, store, run or limit depends on the format of the client."""
    client_half = re.compile(r"antiphon\.dialects\.(chat|anthropic)\.(client|parse\w*|render\w*)\.")
    known = {
        str(module.path)
        for module in MODULES
        if module.path.parts[0] != "dialects"
        for _, name in module.imports()
        if client_half.match(name)
    }
    assert known == {"library/formats.py", "server/routes.py"}


def test_nothing_between_parser_and_renderer_branches_on_the_format() -> None:
    assert offences(format_branch_offences) == []


def test_pure_layers_do_no_io_and_read_no_clock() -> None:
    assert offences(purity_offences) == []


def test_core_framing_and_stages_name_no_provider() -> None:
    assert offences(provider_name_offences) == []


def test_no_name_is_a_metaphor() -> None:
    assert offences(metaphor_offences) == []


def test_every_error_class_is_defined_in_errors_py() -> None:
    assert offences(error_class_offences) == []


def test_document_is_one_type_alias() -> None:
    assert offences(document_alias_offences) == []


def test_no_module_has_a_meaningless_name() -> None:
    assert offences(empty_name_offences) == []


# --- the rules themselves -------------------------------------------------------------------------

FAULT = "from antiphon.core.faults.fault import ProviderFault"


@table(
    ("rule", "path", "source", "offence"),
    [
        (
            layer_offences,
            "core/a.py",
            "import antiphon.dialects.chat",
            "core imports antiphon.dialects",
        ),
        (
            layer_offences,
            "core/a.py",
            "from antiphon import engine",
            "core imports antiphon.engine",
        ),
        (
            layer_offences,
            "core/a.py",
            "from antiphon import __version__",
            "core imports antiphon.__v",
        ),
        (
            layer_offences,
            "core/a.py",
            "from ..dialects import chat",
            "core imports antiphon.dialects.chat",
        ),
        (layer_offences, "core/__init__.py", "from .. import store", "core imports antiphon.store"),
        (
            layer_offences,
            "core/a.py",
            "from antiphon.config import C",
            "core imports antiphon.config.C",
        ),
        (layer_offences, "stages/a.py", "import antiphon.providers", "stages imports"),
        (
            layer_offences,
            "framing/a.py",
            "def f():\n    import antiphon.core",
            "framing/a.py:2: framing imports",
        ),
        (layer_offences, "library/a.py", "import antiphon.cli", "library imports antiphon.cli"),
        (
            layer_offences,
            "engine/a.py",
            "import antiphon.library.a",
            "engine imports antiphon.library.a",
        ),
        (
            layer_offences,
            "__init__.py",
            "from .cli import main",
            "antiphon imports antiphon.cli.main",
        ),
        (layer_offences, "extra/a.py", "", "extra/a.py: belongs to no layer"),
        (
            core_order_offences,
            "core/stream/a.py",
            "from antiphon.core.plan.plan import Plan",
            "core.stream imports antiphon.core.plan.plan.Plan",
        ),
        (
            core_order_offences,
            "core/lru.py",
            "from antiphon.core import faults",
            "core.lru imports antiphon.core.faults",
        ),
        (core_order_offences, "core/extra/a.py", "", "'extra' is missing in CORE_PACKAGES"),
        (purity_offences, "core/a.py", "import asyncio", "imports asyncio"),
        (purity_offences, "framing/a.py", "from os import path", "imports os.path"),
        (purity_offences, "stages/a.py", "import time as t", "imports time"),
        (
            purity_offences,
            "dialects/a.py",
            "def f():\n    from uuid import uuid4",
            "a.py:2: imports uuid",
        ),
        (purity_offences, "dialects/a.py", "import aiohttp.web", "imports aiohttp.web"),
        (purity_offences, "core/a.py", "x = open('x')", "calls open()"),
        (provider_name_offences, "core/a.py", "def is_deepseek(): ...", "names deepseek"),
        (provider_name_offences, "framing/a.py", "x = y.QwenChunk", "names Qwen"),
        (provider_name_offences, "framing/a.py", "x = f(zhipu=1)", "names zhipu"),
        (
            provider_name_offences,
            "stages/a.py",
            "if name == 'openrouter': ...",
            "names openrouter",
        ),
        (provider_name_offences, "stages/a.py", "x = f'{y} on Groq'", "names Groq"),
        (provider_name_offences, "core/a.py", "x = b'gemini'", "names gemini"),
        (provider_name_offences, "core/mistral.py", "", "names mistral"),
        (layer_offences, "errors.py", f"{FAULT}\n", "errors imports antiphon.core.faults.fault"),
        (
            layer_offences,
            "errors.py",
            "if TYPE_CHECKING:\n    from antiphon.core.items import Item",
            "errors.py:2: errors imports antiphon.core.items.Item",
        ),
        (metaphor_offences, "core/desk.py", "", "desk is named by a metaphor"),
        (metaphor_offences, "core/a.py", "class OnAir: ...", "a.py:1: OnAir is named"),
        (metaphor_offences, "core/a.py", "def was_told(): ...", "was_told is named"),
        (metaphor_offences, "core/a.py", "async def hear(*, heard): ...", "heard is named"),
        (metaphor_offences, "core/a.py", "self._shelf = 1", "_shelf is named"),
        (metaphor_offences, "core/a.py", "LESSONS = 1", "LESSONS is named"),
        (error_class_offences, "cli/a.py", "class Lost(Exception): ...", "error class Lost"),
        (error_class_offences, "framing/a.py", "class _Lost(ValueError): ...", "error class _Lost"),
        (error_class_offences, "cli/a.py", "class Lost(errors.AntiphonError): ...", "class Lost"),
        (error_class_offences, "core/a.py", "class Lost(InvalidRequest): ...", "error class Lost"),
        (
            error_class_offences,
            "core/a.py",
            "def f():\n    class Lost(msgspec.DecodeError): ...",
            "a.py:2: move the error class Lost",
        ),
        (format_branch_offences, "stages/a.py", "if f == 'chat': ...", "client format 'chat'"),
        (format_branch_offences, "engine/a.py", "x = f in ('a', 'messages')", "'messages'"),
        (format_branch_offences, "store/a.py", "match f:\n    case 'chat': ...", "'chat'"),
        (format_branch_offences, "runs/a.py", "x = TABLE['messages']", "'messages'"),
        (format_branch_offences, "core/a.py", "x = table.get('chat', 1)", "'chat'"),
        (document_alias_offences, "core/a.py", "Document = dict", "a.py:1: defines Document"),
        (document_alias_offences, "store/a.py", "Document: TypeAlias = dict", "defines Document"),
        (empty_name_offences, "core/utils.py", "", "'utils' does not describe its content"),
        (
            empty_name_offences,
            "core/stream_handler.py",
            "",
            "'handler' does not describe its content",
        ),
        (empty_name_offences, "core/helpers/a.py", "", "'helpers' does not describe its content"),
    ],
)
def test_an_offence_is_detected(rule: Rule, path: str, source: str, offence: str) -> None:
    [found] = rule(Module(path, source))
    assert offence in found


@table(
    ("rule", "path", "source"),
    [
        (
            layer_offences,
            "core/a.py",
            "from antiphon.framing.sse import Frame\nfrom . import b",
        ),
        (
            layer_offences,
            "cli/a.py",
            "from antiphon import __version__, replay\nimport antiphon.engine",
        ),
        (
            layer_offences,
            "library/replay.py",
            "from antiphon.stages.pipeline import Stage",
        ),
        (layer_offences, "__init__.py", "from .library.replay import replay\n__version__ = '1'"),
        (layer_offences, "core/a.py", "import antiphonal.engine"),
        (
            core_order_offences,
            "core/plan/a.py",
            "from antiphon.core.deltas import Delta\nimport antiphon.core.plan.plan",
        ),
        (purity_offences, "core/a.py", "import json\nimport msgspec\nfrom typing import Any"),
        (purity_offences, "engine/a.py", "import asyncio\nimport aiohttp\nopen('x')"),
        (purity_offences, "core/a.py", "x = reader.open()"),
        (provider_name_offences, "core/a.py", '"""Seen at DeepSeek."""\n# and Groq\nx = 1'),
        (provider_name_offences, "core/a.py", "x: int\n'Mistral sends none.'"),
        (provider_name_offences, "dialects/anthropic.py", "x = 'anthropic'"),
        (layer_offences, "errors.py", f"if TYPE_CHECKING:\n    {FAULT}"),
        (metaphor_offences, "core/repair.py", "def pair(hair): return hair.trim"),
        (metaphor_offences, "core/a.py", "x = 'of course' # on the air"),
        (error_class_offences, "errors.py", "class Lost(Exception): ..."),
        (error_class_offences, "framing/a.py", "class ResponseError(Struct, frozen=True): ..."),
        (document_alias_offences, "core/items.py", "Document: TypeAlias = dict[str, Any]"),
        (document_alias_offences, "core/a.py", "from antiphon.core.items import Document"),
        (empty_name_offences, "core/database.py", ""),
        (format_branch_offences, "server/a.py", "if dialect.name == 'messages': ..."),
        (format_branch_offences, "core/a.py", "message('messages', f)"),
    ],
)
def test_allowed_code_has_no_offences(rule: Rule, path: str, source: str) -> None:
    assert rule(Module(path, source)) == []
