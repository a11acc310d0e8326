"""Rules about the test tree: unit tests mirror the source tree, and every test asserts something.

A rule is a function from paths or sources to its offences, one line of text each. The first tests
run every rule over the repository; the others check that each rule detects an offence.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath

import pytest

TESTS = Path(__file__).parent
UNIT = TESTS / "unit"
PACKAGE = TESTS.parent / "src" / "antiphon"

TYPES_ONLY = "types only"
# Modules without a unit test module of their own, and why.
WITHOUT_UNIT_TEST: Mapping[str, str] = {
    "config/schema.py": TYPES_ONLY,
    "config/source.py": "its errors are checked by tests/unit/config/test_load.py",
    "core/plan/follow_up.py": TYPES_ONLY,
    "core/plan/plan.py": TYPES_ONLY,
    "core/web_search/search_call.py": TYPES_ONLY,
    "dialects/chat/quirks.py": TYPES_ONLY,
    "dialects/cohere/quirks.py": TYPES_ONLY,
    "dialects/ollama/quirks.py": TYPES_ONLY,
    "dialects/responses/quirks.py": TYPES_ONLY,
    "providers/claude.py": "data only, checked by tests/contract/test_native_model_requests.py",
    "providers/open_model.py": "data only, checked by tests/contract/test_hosted_model_requests.py",
    "store/admin/tables.py": TYPES_ONLY,
    "store/postgres/conversation_schema.py": "statements only, as store/postgres/schema.py",
    "store/postgres/usage_schema.py": "statements only, as store/postgres/schema.py",
    "store/postgres/schema.py": "statements only, checked by tests/contract/test_store.py",
    "store/sqlite/schema.py": "statements only, checked by tests/contract/test_store.py",
    "store/store.py": TYPES_ONLY,
    "wire/items.py": TYPES_ONLY,
}

TEST_TOOLS = "support"  # the folder of tests/unit whose subject is tests/support
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


def mirrored_test(path: str) -> str:
    """The path below tests/unit of a module's unit tests."""
    module = PurePosixPath(path)
    return str(module.with_name(f"test_{module.name}"))


def missing_test_offences(
    modules: Mapping[str, str], tests: Collection[str], reasons: Mapping[str, str]
) -> list[str]:
    """`modules`: path below the package → source; `tests`: paths below tests/unit."""
    return [
        f"{path}: no tests/unit/{mirrored_test(path)}, and no reason why"
        for path, source in modules.items()
        if mirrored_test(path) not in tests
        and path not in reasons
        and not is_provider_data(path, source)
    ]


def stale_reason_offences(
    modules: Collection[str], tests: Collection[str], reasons: Mapping[str, str]
) -> list[str]:
    missing = [f"{path}: there is no such module" for path in reasons if path not in modules]
    tested = [
        f"{path}: has tests/unit/{mirrored_test(path)}, so its reason is stale"
        for path in reasons
        if path in modules and mirrored_test(path) in tests
    ]
    return missing + tested


def unmirrored_test_offences(modules: Collection[str], tests: Collection[str]) -> list[str]:
    """A unit test module is test_<module>.py or test_<module>_<more>.py in the module's folder."""
    return [
        f"tests/unit/{path}: mirrors no module of src/antiphon"
        for path in tests
        if PurePosixPath(path).parts[0] != TEST_TOOLS
        and not any(candidate in modules for candidate in _mirrored_modules(path))
    ]


def _mirrored_modules(path: str) -> Iterator[str]:
    """The modules that a unit test module may be about, the longest name first."""
    test = PurePosixPath(path)
    words = test.stem.removeprefix("test_").split("_")
    for length in range(len(words), 0, -1):
        yield str(test.with_name("_".join(words[:length]) + ".py"))


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

MODULES = {
    path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.name != "__init__.py"
}
UNIT_TESTS = [path.relative_to(UNIT).as_posix() for path in sorted(UNIT.rglob("test_*.py"))]


def test_both_trees_are_found() -> None:
    assert MODULES
    assert UNIT_TESTS


def test_every_module_has_a_unit_test_module_or_a_stated_reason() -> None:
    assert missing_test_offences(MODULES, UNIT_TESTS, WITHOUT_UNIT_TEST) == []


def test_no_stated_reason_is_stale() -> None:
    assert stale_reason_offences(MODULES, UNIT_TESTS, WITHOUT_UNIT_TEST) == []


def test_every_unit_test_module_mirrors_a_source_module() -> None:
    assert unmirrored_test_offences(MODULES, UNIT_TESTS) == []


def test_nothing_but_tests_is_at_the_root_of_the_test_tree() -> None:
    assert root_module_offences([path.name for path in TESTS.glob("*.py")]) == []


def test_every_test_function_asserts_something() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in sorted(TESTS.rglob("test_*.py"))}
    assert [
        offence
        for path, source in sources.items()
        for offence in no_assertion_offences(path.relative_to(TESTS).as_posix(), source)
    ] == []


# --- the rules themselves -------------------------------------------------------------------------

MACHINE = "core/stream/machine.py"
MACHINE_TEST = "core/stream/test_machine.py"


@pytest.mark.parametrize(
    ("path", "source", "tests"),
    [
        (MACHINE, "", []),
        (MACHINE, "", ["core/stream/test_machine_output.py", "stream/test_machine.py"]),
        ("providers/registry.py", "SPECS = ()", []),
        ("search/brave.py", "SPEC = Spec()", []),
    ],
)
def test_a_module_without_a_unit_test_is_an_offence(
    path: str, source: str, tests: list[str]
) -> None:
    [offence] = missing_test_offences({path: source}, tests, {})
    assert offence == f"{path}: no tests/unit/{mirrored_test(path)}, and no reason why"


@pytest.mark.parametrize(
    ("path", "source", "tests", "reasons"),
    [
        (MACHINE, "", [MACHINE_TEST], {}),
        (MACHINE, "", [], {MACHINE: TYPES_ONLY}),
        ("providers/groq.py", "SPEC = Spec(name='groq')", [], {}),
        ("config.py", "", ["test_config.py"], {}),
    ],
)
def test_a_tested_or_explained_module_is_no_offence(
    path: str, source: str, tests: list[str], reasons: dict[str, str]
) -> None:
    assert missing_test_offences({path: source}, tests, reasons) == []


@pytest.mark.parametrize(
    ("modules", "tests", "offence"),
    [
        ([], [], f"{MACHINE}: there is no such module"),
        ([MACHINE], [MACHINE_TEST], f"{MACHINE}: has tests/unit/{MACHINE_TEST}, so its reason is"),
    ],
)
def test_a_stale_reason_is_an_offence(modules: list[str], tests: list[str], offence: str) -> None:
    [found] = stale_reason_offences(modules, tests, {MACHINE: TYPES_ONLY})
    assert found.startswith(offence)
    assert stale_reason_offences([MACHINE], [], {MACHINE: TYPES_ONLY}) == []


@pytest.mark.parametrize(
    "path",
    ["core/stream/test_machinery.py", "core/test_machine.py", "core/stream/test_output_machine.py"],
)
def test_a_unit_test_module_of_no_source_module_is_an_offence(path: str) -> None:
    [offence] = unmirrored_test_offences([MACHINE], [path])
    assert offence == f"tests/unit/{path}: mirrors no module of src/antiphon"


@pytest.mark.parametrize(
    "path", [MACHINE_TEST, "core/stream/test_machine_raw_item.py", "support/test_anything.py"]
)
def test_a_unit_test_module_beside_its_source_module_is_no_offence(path: str) -> None:
    assert unmirrored_test_offences([MACHINE], [path]) == []


def test_a_tool_at_the_root_of_the_test_tree_is_an_offence() -> None:
    names = ["__init__.py", "conftest.py", "test_layers.py", "gateways.py"]
    assert root_module_offences(names) == ["tests/gateways.py: move it to tests/support"]


@pytest.mark.parametrize(
    "body",
    ["run()", "raises(ValueError)", "x = assertion", "mock.fail()", "pytest.skip('why')"],
)
def test_a_test_function_without_an_assertion_is_an_offence(body: str) -> None:
    source = f"class Test:\n    async def test_x(self):\n        {body}\n"
    assert no_assertion_offences("a.py", source) == ["a.py:2: test_x asserts nothing"]


@pytest.mark.parametrize(
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
