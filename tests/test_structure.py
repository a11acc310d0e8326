"""Rules about the structure of the source tree and of the test tree.

The source tree has budgets (`tests/support/budgets.py`, with a command that prints what each of
them counts). `CEILINGS` has the target of each, and the number of today: it may only fall. In the
test tree, a unit test imports every module, and every test asserts something.

A rule is a function from sources to its offences, one line of text each. The first tests run every
rule over the repository; the others check that each rule detects an offence.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath

from tests.support import budgets
from tests.support.source_modules import Module, read_modules
from tests.support.tables import table

# Rule of `budgets.RULES` → its target, and the number of today, which may only fall.
CEILINGS: Mapping[str, tuple[int, int]] = {
    "files of more than 600 lines": (0, 0),
    "functions of more than 50 lines": (0, 0),
    "packages with fewer than 3 or more than 25 modules": (0, 0),
    "modules of at most 60 lines with one importer": (10, 10),
    "classes with more than 20 methods": (0, 0),
    "classes with more than 12 attributes": (0, 0),
    "attributes first set outside __init__": (0, 0),
    "attributes of another object that are set": (20, 20),
    "callables assigned after the construction": (0, 0),
    "assignments that pair unrelated values": (30, 30),
    "tuples unpacked into a constructor": (0, 0),
    "retired words": (0, 0),
    "what is … as a noun": (10, 10),
}

TESTS = Path(__file__).parent
UNIT = TESTS / "unit"

# Modules that no unit test of their layer imports, and why.
WITHOUT_UNIT_TEST: Mapping[str, str] = {
    "config/schema.py": "types only, imported through the package",
    "config/source.py": "its errors are checked by tests/unit/config/test_load.py",
    "providers/claude.py": "data only, checked by tests/contract/test_native_model_requests.py",
    "providers/open_model.py": "data only, checked by tests/contract/test_hosted_model_requests.py",
    "store/admin/tables.py": "types only",
    "store/call_states.py": "types only",
    "store/postgres/call_states.py": "checked by tests/contract/test_store_call_states.py",
    "store/sqlite/call_states.py": "checked by tests/contract/test_store_call_states.py",
    "store/postgres/conversation_schema.py": "statements, run by tests/contract/test_store.py",
}

ROOT_MODULES = {"__init__.py", "conftest.py"}
ASSERTING_PREFIXES = ("assert", "check", "expect", "judge", "validate")
ASSERTING_PYTEST = {"fail", "raises", "warns"}


def is_provider_data(path: str, source: str) -> bool:
    """Whether a module is the data of one provider, which tests/contract/test_providers.py checks
    for every provider in the same way."""
    if PurePosixPath(path).parent != PurePosixPath("providers"):
        return False
    return any(
        isinstance(target, ast.Name) and target.id == "SPEC"
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign)
        for target in node.targets
    )


def module_name(path: str) -> str:
    """`core/stream/machine.py` → `antiphon.core.stream.machine`."""
    return ".".join(("antiphon", *PurePosixPath(path).with_suffix("").parts))


def imported_names(source: str) -> Iterator[str]:
    """The dotted name of everything that a source imports, and of what it imports it from."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def named_module(path: str) -> str:
    """The module that a unit test module is named after: it may be tested through a command."""
    test = PurePosixPath(path)
    return module_name(str(test.with_name(test.name.removeprefix("test_"))))


def untested_offences(
    modules: Mapping[str, str], imported: Mapping[str, Collection[str]], reasons: Mapping[str, str]
) -> list[str]:
    """`modules`: path below the package → source; `imported`: layer → names that the unit tests of
    this layer import."""
    return [
        f"{path}: no test in tests/unit/{layer} imports it, and no reason is stated"
        for path, source in modules.items()
        if module_name(path) not in imported.get(layer := _layer(path), ())
        and path not in reasons
        and not is_provider_data(path, source)
    ]


def stale_reason_offences(
    modules: Collection[str], imported: Mapping[str, Collection[str]], reasons: Mapping[str, str]
) -> list[str]:
    missing = [f"{path}: there is no such module" for path in reasons if path not in modules]
    tested = [
        f"{path}: a unit test imports it, so its reason is stale"
        for path in reasons
        if path in modules and module_name(path) in imported.get(_layer(path), ())
    ]
    return missing + tested


def _layer(path: str) -> str:
    """The first folder of a path; the root of the tree for a module that is in none."""
    parts = PurePosixPath(path).parts
    return parts[0] if len(parts) > 1 else "."


def root_module_offences(names: Collection[str]) -> list[str]:
    return [
        f"tests/{name}: move it to tests/support"
        for name in names
        if name not in ROOT_MODULES and not name.startswith("test_")
    ]


def no_assertion_offences(path: str, source: str) -> list[str]:
    return [
        f"{path}:{node.lineno}: {node.name} asserts nothing"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not any(map(_is_assertion, ast.walk(node)))
    ]


def _is_assertion(node: ast.AST) -> bool:
    """An `assert`, `pytest.raises` and the like, or a call of a function named `check_…`."""
    if isinstance(node, ast.Assert):
        return True
    match node:
        case ast.Call(ast.Name(name)):
            return name.startswith(ASSERTING_PREFIXES)
        case ast.Call(ast.Attribute(owner, name)):
            is_pytest = isinstance(owner, ast.Name) and owner.id == "pytest"
            return name.startswith(ASSERTING_PREFIXES) or (is_pytest and name in ASSERTING_PYTEST)
    return False


# --- the rules over the repository ----------------------------------------------------------------

TREE = read_modules()
MODULES = {str(each.path): each.source for each in TREE if each.path.name != "__init__.py"}


@table("title", budgets.RULES)
def test_the_source_tree_stays_below_its_ceiling(title: str) -> None:
    target, ceiling = CEILINGS[title]
    counted = budgets.RULES[title](TREE)
    assert target <= ceiling
    assert len(counted) <= ceiling, "\n".join([f"{title}: {len(counted)}", *counted])


def test_nineteen_of_twenty_functions_have_at_most_twenty_lines() -> None:
    assert budgets.typical_function_lines(TREE) <= budgets.TYPICAL_FUNCTION_LINES


def test_no_other_rule_has_a_ceiling() -> None:
    assert CEILINGS.keys() == budgets.RULES.keys()


def imported_by_layer() -> dict[str, set[str]]:
    imported: dict[str, set[str]] = {}
    for path in sorted(UNIT.rglob("test_*.py")):
        layer = imported.setdefault(_layer(path.relative_to(UNIT).as_posix()), set())
        layer.update(imported_names(path.read_text(encoding="utf-8")))
        layer.add(named_module(path.relative_to(UNIT).as_posix()))
    return imported


def test_both_trees_are_found() -> None:
    assert MODULES
    assert imported_by_layer()["core"]


def test_every_module_is_imported_by_a_unit_test_of_its_layer() -> None:
    assert untested_offences(MODULES, imported_by_layer(), WITHOUT_UNIT_TEST) == []


def test_no_stated_reason_is_stale() -> None:
    assert stale_reason_offences(MODULES, imported_by_layer(), WITHOUT_UNIT_TEST) == []


def test_nothing_but_tests_is_at_the_root_of_the_test_tree() -> None:
    assert root_module_offences([path.name for path in TESTS.glob("*.py")]) == []


def test_every_test_function_asserts_something() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in sorted(TESTS.rglob("test_*.py"))}
    assert [
        offence
        for path, source in sources.items()
        for offence in no_assertion_offences(path.relative_to(TESTS).as_posix(), source)
    ] == []


# --- the budgets themselves -----------------------------------------------------------------------

LONG_FUNCTION = "def long():\n" + "    x = 1\n" * budgets.FUNCTION_LINES
FULL_FUNCTION = "def full():\n" + "    x = 1\n" * (budgets.FUNCTION_LINES - 1)
METHODS = "".join(f"    def m{number}(self): ...\n" for number in range(21))
ATTRIBUTES = "".join(f"        self.a{number} = 1\n" for number in range(13))
CONSTRUCTOR = "class A:\n    def __init__(self, f: Callable[[], int]):\n        self.f = f\n"
METHOD = f"{CONSTRUCTOR}    def use(self, other, f: Callable[[], int]):\n        "


@table(
    ("rule", "source", "counted"),
    [
        (budgets.long_files, "x = 1\n" * 601, "601 lines"),
        (budgets.long_functions, LONG_FUNCTION, "long has 51 lines"),
        (budgets.long_functions, f"async {LONG_FUNCTION}", "long has 51 lines"),
        (budgets.large_classes, f"class A:\n{METHODS}", "A has 21 methods"),
        (
            budgets.wide_classes,
            f"class A:\n    def __init__(self):\n{ATTRIBUTES}",
            "A has 13 attributes",
        ),
        (budgets.late_attributes, f"{METHOD}self.x = 1", "A.x is first set in use"),
        (budgets.late_attributes, f"{METHOD}self.x, y = 1, 2", "A.x is first set in use"),
        (budgets.late_attributes, f"{METHOD}with f() as self.x: ...", "A.x is first set in use"),
        (
            budgets.late_attributes,
            "class A:\n    x: int\n    def use(self):\n        self.x = 1",
            "A.x is first set in use",
        ),
        (budgets.foreign_attributes, f"{METHOD}other.x = 1", "a.py:5: other.x"),
        (budgets.foreign_attributes, f"{METHOD}other.x += 1", "other.x"),
        (budgets.foreign_attributes, f"{METHOD}self.part.x = 1", "self.part.x"),
        (budgets.foreign_attributes, f"{METHOD}a, other.list[0].x = f()", "other.list[0].x"),
        (budgets.foreign_attributes, f"{METHOD}made = other.make()\n        made.x = 1", "made.x"),
        (budgets.late_callables, f"{METHOD}other.x = lambda: 1", "other.x"),
        (budgets.late_callables, f"{METHOD}self.x = f", "self.x"),
        (budgets.late_callables, f"{METHOD}other.x = self.use", "other.x"),
        (budgets.late_callables, f"{METHOD}other.x = partial(f, 1)", "other.x"),
        (budgets.late_callables, f"{METHOD}self.y, other.x = 1, f", "other.x"),
        (budgets.late_callables, f"{METHOD}other.x = g\ndef g(): ...", "other.x"),
        (
            budgets.late_callables,
            "Write = Callable[[bytes], None]\ndef use(a, write: Write | None):\n    a.x = write",
            "a.x",
        ),
        (budgets.paired_assignments, "a, b = x, y", "a.py:1: a, b = (x, y)"),
        (budgets.paired_assignments, "self.a, self.b = a, b", "self.a, self.b"),
        (budgets.paired_assignments, "a, b = a + 1, b + 1", "a + 1"),
        (budgets.paired_assignments, "def f():\n    a, b, c = 1, 2, 3", "a.py:2: a, b, c"),
        (
            budgets.unpacked_tuples,
            "def f():\n    made = 1, 2\n    return Thing(0, *made)",
            "Thing(0, *made)",
        ),
        (budgets.retired_words, "# Whoever reads this.", "a.py:1: Whoever"),
        (budgets.retired_words, "x = 'meanwhile'", "a.py:1: meanwhile"),
        (budgets.retired_words, '"""A field inside of a frame."""', "inside of"),
        (budgets.what_as_a_noun, '"""Return what is queued."""', "what is queued"),
        (budgets.what_as_a_noun, "# What is not known stays.", "What is not known"),
    ],
)
def test_a_budget_counts(rule: budgets.Rule, source: str, counted: str) -> None:
    [found] = rule([Module("engine/a.py", source)])
    assert counted in found


@table(
    ("rule", "path", "source"),
    [
        (budgets.long_files, "engine/a.py", "x = 1\n" * 600),
        (budgets.long_functions, "engine/a.py", FULL_FUNCTION),
        (budgets.long_functions, "engine/a.py", "TABLE = {\n" + "    1: 1,\n" * 100 + "}\n"),
        (budgets.large_classes, "engine/a.py", f"class A:\n{METHODS}".replace("m20", "m19")),
        (budgets.large_classes, "core/stream/a.py", f"class A:\n{METHODS}"),
        (budgets.wide_classes, "engine/a.py", f"class A:\n    def f(self):\n{ATTRIBUTES[:-20]}"),
        (
            budgets.late_attributes,
            "engine/a.py",
            "class B:\n    def __init__(self):\n        self.x = 0\n"
            "class A(B):\n    def f(self):\n        self.x = 1",
        ),
        (
            budgets.late_attributes,
            "engine/a.py",
            "class A(Struct):\n    x: int\n    def f(self):\n        self.x = 1",
        ),
        (
            budgets.late_attributes,
            "engine/a.py",
            "@dataclass\nclass A:\n    x: int\n    def f(self):\n        self.x = 1",
        ),
        (budgets.foreign_attributes, "engine/a.py", f"{METHOD}self.x = 1"),
        (budgets.foreign_attributes, "engine/a.py", f"{METHOD}made = A()\n        made.x = 1"),
        (budgets.foreign_attributes, "engine/a.py", f"{METHOD}other['x'] = 1"),
        (budgets.foreign_attributes, "cli/a.py", f"{METHOD}other.x = 1"),
        (
            budgets.late_callables,
            "engine/a.py",
            CONSTRUCTOR,
        ),
        (budgets.late_callables, "engine/a.py", f"{METHOD}self.x = f()"),
        (budgets.late_callables, "core/stream/a.py", f"{METHOD}self.x = f"),
        (budgets.paired_assignments, "engine/a.py", "a, b = b, a"),
        (budgets.paired_assignments, "engine/a.py", "value, self.x = self.x, None"),
        (budgets.paired_assignments, "engine/a.py", "first, second = second, first + second"),
        (budgets.paired_assignments, "engine/a.py", "a, b = f()"),
        (budgets.paired_assignments, "engine/a.py", "for a, b in pairs: ..."),
        (budgets.unpacked_tuples, "engine/a.py", "def f(*rest):\n    return Thing(*rest)"),
        (budgets.unpacked_tuples, "engine/a.py", "def f():\n    key = 1, 2\n    run(SQL, *key)"),
        (budgets.retired_words, "engine/a.py", "# inside offset, nobodys"),
        (budgets.what_as_a_noun, "engine/a.py", "# what was queued, somewhat is"),
    ],
)
def test_a_budget_does_not_count(rule: budgets.Rule, path: str, source: str) -> None:
    assert rule([Module(path, source)]) == []


def test_packages_have_three_to_twenty_five_modules() -> None:
    names = [f"core/filters/m{number}.py" for number in range(26)]
    assert budgets.odd_packages([Module(name, "") for name in names]) == [
        "core/filters: 26 modules"
    ]
    assert budgets.odd_packages([Module(name, "") for name in names[1:]]) == []
    assert budgets.odd_packages([Module(name, "") for name in names[:2]]) == [
        "core/filters: 2 modules"
    ]
    assert budgets.odd_packages([Module(f"providers/m{n}.py", "") for n in range(26)]) == []


def test_a_small_module_with_one_importer_is_counted() -> None:
    small = Module("engine/small.py", "x = 1\n" * 60)
    user = Module("engine/user.py", "from antiphon.engine.small import x\n" * 61)
    other = Module("engine/other.py", "from antiphon.engine import small\n" * 61)
    long = Module("engine/small.py", "x = 1\n" * 61)
    data = Module("providers/small.py", "x = 1\n")
    reader = Module("engine/reader.py", "import antiphon.providers.small\n" * 61)
    assert budgets.tiny_modules([small, user]) == [
        "engine/small.py: 60 lines, imported by engine/user.py"
    ]
    assert budgets.tiny_modules([small, other]) == [
        "engine/small.py: 60 lines, imported by engine/other.py"
    ]
    assert budgets.tiny_modules([small, user, other]) == []
    assert budgets.tiny_modules([long, user]) == []
    assert budgets.tiny_modules([data, reader]) == []


def test_the_facade_of_a_dialect_may_be_small() -> None:
    facade = Module("dialects/chat/dialect.py", "x = 1\n")
    inner = Module("dialects/chat/encode.py", "x = 1\n")
    imports = "from antiphon.dialects.chat import dialect, encode\n" * 61
    assert budgets.tiny_modules([facade, inner, Module("dialects/dialect.py", imports)]) == [
        "dialects/chat/encode.py: 1 lines, imported by dialects/dialect.py"
    ]


def test_the_typical_length_is_that_of_nineteen_of_twenty_functions() -> None:
    functions = [*["def short(): ..."] * 19, LONG_FUNCTION]
    assert budgets.typical_function_lines([Module("a.py", "\n".join(functions))]) == 51
    functions.insert(0, "def short(): ...")
    assert budgets.typical_function_lines([Module("a.py", "\n".join(functions))]) == 1


# --- the rules of the test tree themselves --------------------------------------------------------

MACHINE = "core/stream/machine.py"
MACHINE_NAME = "antiphon.core.stream.machine"


@table(
    ("path", "source", "imported"),
    [
        (MACHINE, "", {}),
        (MACHINE, "", {"core": {"antiphon.core.stream"}, "engine": {MACHINE_NAME}}),
        ("providers/registry.py", "SPECS = ()", {}),
        ("search/brave.py", "SPEC = Spec()", {}),
    ],
)
def test_a_module_that_no_unit_test_imports_is_an_offence(
    path: str, source: str, imported: dict[str, set[str]]
) -> None:
    [offence] = untested_offences({path: source}, imported, {})
    assert offence.startswith(f"{path}: no test in tests/unit/{path.split('/')[0]} imports it")


@table(
    ("path", "source", "imported", "reasons"),
    [
        (MACHINE, "", {"core": {MACHINE_NAME}}, {}),
        (MACHINE, "", {}, {MACHINE: "types only"}),
        ("providers/groq.py", "SPEC = Spec(name='groq')", {}, {}),
        ("config.py", "", {".": {"antiphon.config"}}, {}),
    ],
)
def test_a_tested_or_explained_module_is_no_offence(
    path: str, source: str, imported: dict[str, set[str]], reasons: dict[str, str]
) -> None:
    assert untested_offences({path: source}, imported, reasons) == []


@table(
    ("modules", "imported", "offence"),
    [
        ([], {}, f"{MACHINE}: there is no such module"),
        ([MACHINE], {"core": {MACHINE_NAME}}, f"{MACHINE}: a unit test imports it, so its reason"),
    ],
)
def test_a_stale_reason_is_an_offence(
    modules: list[str], imported: dict[str, set[str]], offence: str
) -> None:
    [found] = stale_reason_offences(modules, imported, {MACHINE: "types only"})
    assert found.startswith(offence)
    assert stale_reason_offences([MACHINE], {}, {MACHINE: "types only"}) == []


@table(
    "source",
    [
        f"import {MACHINE_NAME}",
        f"from {MACHINE_NAME} import A",
        "from antiphon.core.stream import machine",
    ],
)
def test_every_form_of_an_import_is_read(source: str) -> None:
    assert MACHINE_NAME in imported_names(source)
    assert named_module("core/stream/test_machine.py") == MACHINE_NAME


def test_a_tool_at_the_root_of_the_test_tree_is_an_offence() -> None:
    names = ["__init__.py", "conftest.py", "test_layers.py", "gateways.py"]
    assert root_module_offences(names) == ["tests/gateways.py: move it to tests/support"]


@table(
    "body",
    ["run()", "raises(ValueError)", "x = assertion", "mock.fail()", "pytest.skip('why')"],
)
def test_a_test_function_without_an_assertion_is_an_offence(body: str) -> None:
    source = f"class Test:\n    async def test_x(self):\n        {body}\n"
    assert no_assertion_offences("a.py", source) == ["a.py:2: test_x asserts nothing"]


@table(
    "body",
    [
        "assert run()",
        "with pytest.raises(ValueError): run()",
        "pytest.fail('no')",
        "check(events)",
        "await gateway.expect_status(200)",
        "self.validate_stream()",
    ],
)
def test_a_test_function_with_an_assertion_is_no_offence(body: str) -> None:
    assert no_assertion_offences("a.py", f"async def test_x():\n    {body}\n") == []
    assert no_assertion_offences("a.py", "def run(): ...") == []
