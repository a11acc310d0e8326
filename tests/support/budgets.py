"""Budgets of the source tree: what makes code hard to follow, counted over all modules.

A rule is a function from modules to what it counts, one line of text each. `python -m
tests.support.budgets` prints the number of each rule; with the beginning of a rule's name, it
prints what was counted. `tests/test_structure.py` has the limits.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations
from pathlib import PurePosixPath

from tests.support.source_modules import Function, Module, function_lines, read_modules

Rule = Callable[[Sequence[Module]], list[str]]

FILE_LINES = 600
FUNCTION_LINES = 50
TYPICAL_FUNCTION_LINES = 20
SMALLEST_PACKAGE = 3
LARGEST_PACKAGE = 25
TINY_MODULE_LINES = 60
CLASS_METHODS = 20
CLASS_ATTRIBUTES = 12

PROVIDERS = {"providers", "search"}  # data: a module for each provider
FACADE = "dialects/*/dialect.py"
MACHINE = PurePosixPath("core/stream")  # the state machine and its blocks
CONSTRUCTORS = {"__init__", "__new__", "__post_init__"}
DATA_CLASSES = {"Struct", "NamedTuple", "TypedDict", "Enum", "Protocol"}
RETIRED_WORDS = (
    *("whoever", "nobody", "meanwhile", "inside of"),
    "(?:whole|streamed|http|upstream|this|one) answers?",  # a response
)
WHAT_AS_A_NOUN = r"what is (?:not )?[a-z]+"


# --- sizes ----------------------------------------------------------------------------------------


def long_files(modules: Sequence[Module]) -> list[str]:
    return [f"{each.path}: {each.lines} lines" for each in modules if each.lines > FILE_LINES]


def long_functions(modules: Sequence[Module]) -> list[str]:
    return [
        f"{module.path}:{node.lineno}: {node.name} has {function_lines(node)} lines"
        for module in modules
        for node in module.functions
        if function_lines(node) > FUNCTION_LINES
    ]


def typical_function_lines(modules: Sequence[Module]) -> int:
    """Nineteen of twenty functions have at most this many lines."""
    lengths = sorted(function_lines(node) for module in modules for node in module.functions)
    return lengths[int(len(lengths) * 0.95)]


def odd_packages(modules: Sequence[Module]) -> list[str]:
    """Packages with fewer than 3 or more than 25 modules; a package of packages is no offence."""
    count = Counter(
        str(module.path.parent) for module in modules if module.path.name != "__init__.py"
    )
    del count["."]
    return [
        f"{package}: {number} modules"
        for package, number in sorted(count.items())
        if number < SMALLEST_PACKAGE or (number > LARGEST_PACKAGE and package not in PROVIDERS)
    ]


def tiny_modules(modules: Sequence[Module]) -> list[str]:
    """Modules of at most 60 lines that one other module imports. Providers are data, and the facade
    of a dialect is the entry of its package, which only the registry of dialects imports."""
    names = {module.name: module for module in modules}
    importers: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for _, name in module.imports():
            imported = name if name in names else name.rpartition(".")[0]
            importers[imported].add(str(module.path))
    return [
        f"{module.path}: {module.lines} lines, imported by {importer}"
        for module in modules
        if module.lines <= TINY_MODULE_LINES
        and module.path.name != "__init__.py"
        and module.layer not in PROVIDERS
        and not module.path.match(FACADE)
        and len(importers[module.name]) == 1
        for importer in importers[module.name]
    ]


# --- classes --------------------------------------------------------------------------------------


def large_classes(modules: Sequence[Module]) -> list[str]:
    """Classes with more than 20 methods, the machine and its blocks aside."""
    return [
        f"{module.path}:{each.lineno}: {each.name} has {len(methods)} methods"
        for module, each in _classes(modules)
        if len(methods := {method.name for method in _methods(each)}) > CLASS_METHODS
    ]


def wide_classes(modules: Sequence[Module]) -> list[str]:
    """Classes whose methods set more than 12 attributes, the machine and its blocks aside."""
    return [
        f"{module.path}:{each.lineno}: {each.name} has {len(attributes)} attributes"
        for module, each in _classes(modules)
        if len(attributes := {name for name, _, _ in _set_attributes(each)}) > CLASS_ATTRIBUTES
    ]


def late_attributes(modules: Sequence[Module]) -> list[str]:
    """Attributes that a method other than the constructor sets first."""
    known = {each.name: each for module in modules for each in module.classes}
    return [
        f"{module.path}:{line}: {each.name}.{name} is first set in {method}"
        for module in modules
        for each in module.classes
        for name, method, line in _first_set(each)
        if name not in _born(each, known)
    ]


def _classes(modules: Sequence[Module]) -> Iterator[tuple[Module, ast.ClassDef]]:
    for module in modules:
        if not module.path.is_relative_to(MACHINE):
            yield from ((module, each) for each in module.classes)


def _methods(node: ast.ClassDef) -> list[Function]:
    return [each for each in node.body if isinstance(each, Function)]


def _set_attributes(node: ast.ClassDef) -> Iterator[tuple[str, str, int]]:
    """Name, method and line of each attribute of `self` that a method sets."""
    for method in _methods(node):
        for target in _targets(method):
            if isinstance(target, ast.Attribute) and _is_self(target.value):
                yield target.attr, method.name, target.lineno


def _first_set(node: ast.ClassDef) -> Iterator[tuple[str, str, int]]:
    seen: set[str] = set()
    for name, method, line in _set_attributes(node):
        if method not in CONSTRUCTORS and name not in seen:
            seen.add(name)
            yield name, method, line


def _born(node: ast.ClassDef, known: Mapping[str, ast.ClassDef]) -> set[str]:
    """What exists after the construction: set by the constructor, a field, or a property; of the
    class and of those that it is derived from."""
    names = {name for name, method, _ in _set_attributes(node) if method in CONSTRUCTORS}
    names |= {method.name for method in _methods(node)}  # of a property with a setter
    is_data = bool(node.decorator_list) or bool(DATA_CLASSES & _base_names(node))
    for statement in node.body:
        if isinstance(statement, ast.Assign):
            names |= {each.id for each in statement.targets if isinstance(each, ast.Name)}
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            names |= {statement.target.id} if is_data or statement.value is not None else set()
    for base in _base_names(node) - {node.name}:
        if base in known:
            names |= _born(known[base], known)
    return names


def _base_names(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases}


# --- assignments ----------------------------------------------------------------------------------


def foreign_attributes(modules: Sequence[Module]) -> list[str]:
    """Attributes of another object that are set. A function may complete what it has just
    constructed (a builder), and the CLI may set what its parser reads."""
    return [
        f"{module.path}:{target.lineno}: {ast.unparse(target)}"
        for module in modules
        if module.layer != "cli"
        for target, scope in _scoped_targets(module)
        if isinstance(target, ast.Attribute)
        and not _is_self(target.value)
        and not (isinstance(target.value, ast.Name) and target.value.id in _constructed(scope))
    ]


def late_callables(modules: Sequence[Module]) -> list[str]:
    """Functions that are assigned to an attribute of an object after its construction, the machine
    and its blocks aside."""
    aliases = _callable_aliases(modules)
    return [
        f"{module.path}:{target.lineno}: {ast.unparse(target)}"
        for module in modules
        if not module.path.is_relative_to(MACHINE)
        for function in module.functions
        if function.name not in CONSTRUCTORS
        for target, value in _assignments(function)
        if isinstance(target, ast.Attribute)
        and _is_callable(value, _callable_names(module, function, aliases), module)
    ]


def paired_assignments(modules: Sequence[Module]) -> list[str]:
    """`a, b = x, y` of unrelated values. A swap, or taking a value while resetting it, is not one:
    a target stands in the value of another."""
    return [
        f"{module.path}:{node.lineno}: {ast.unparse(node)}"
        for module in modules
        for node in module.nodes
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Tuple)
        and isinstance(node.targets[0], ast.Tuple)
        and not _depend_on_each_other(node.targets[0].elts, node.value.elts)
    ]


def unpacked_tuples(modules: Sequence[Module]) -> list[str]:
    """`made = a, b` and `X(*made)`: an object constructed from what was a tuple first."""
    return [
        f"{module.path}:{node.lineno}: {ast.unparse(node)[:80]}"
        for module in modules
        for function in module.functions
        for node in _own_nodes(function)
        if isinstance(node, ast.Call)
        and _is_class(node.func)
        and any(
            isinstance(each, ast.Starred)
            and isinstance(each.value, ast.Name)
            and each.value.id in _tuples(function)
            for each in node.args
        )
    ]


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in {"self", "cls"}


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions in it."""
    for node in ast.iter_child_nodes(function):
        yield node
        if not isinstance(node, Function | ast.Lambda):
            yield from _own_nodes(node)


def _targets(scope: ast.AST) -> Iterator[ast.expr]:
    """What is assigned to in a function or in a module, one by one."""
    for node in _own_nodes(scope):
        for target in _written(node):
            yield from _flat(target)


def _written(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Assign(targets=targets):
            return targets
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            return [target]
        case ast.For(target=target) | ast.AsyncFor(target=target):
            return [target]
        case ast.withitem(optional_vars=ast.expr() as target):
            return [target]
    return []


def _flat(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        for each in target.elts:
            yield from _flat(each)
    else:
        yield target.value if isinstance(target, ast.Starred) else target


def _scoped_targets(module: Module) -> Iterator[tuple[ast.expr, ast.AST]]:
    for scope in (module.tree, *module.functions):
        yield from ((target, scope) for target in _targets(scope))


def _constructed(scope: ast.AST) -> set[str]:
    """Local names of objects that a function has constructed itself."""
    return {
        node.targets[0].id
        for node in _own_nodes(scope)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
        and _is_class(node.value.func)
    }


def _is_class(called: ast.expr) -> bool:
    return re.match(r"_?[A-Z]|cls\b", ast.unparse(called).split(".")[-1]) is not None


def _assignments(function: Function) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets with their values, also those of a pair."""
    for node in _own_nodes(function):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                yield from zip(target.elts, node.value.elts, strict=False)
            else:
                yield target, node.value


def _callable_aliases(modules: Sequence[Module]) -> set[str]:
    """Names of types that are functions: `Write = Callable[[bytes], None]`."""
    return {
        node.targets[0].id
        for module in modules
        for node in module.tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and ast.unparse(node.value).startswith("Callable[")
    }


def _callable_names(module: Module, function: Function, aliases: set[str]) -> set[str]:
    """Names of functions that this one may use: of the module, its own, and its parameters."""
    defined = {node.name for node in module.tree.body if isinstance(node, Function)}
    nested = {node.name for node in _own_nodes(function) if isinstance(node, Function)}
    parameters = {
        each.arg
        for each in [*function.args.args, *function.args.kwonlyargs]
        if each.annotation is not None
        and {"Callable", *aliases} & set(re.findall(r"\w+", ast.unparse(each.annotation)))
    }
    return defined | nested | parameters


def _is_callable(value: ast.expr, names: set[str], module: Module) -> bool:
    match value:
        case ast.Lambda() | ast.Call(func=ast.Name(id="partial")):
            return True
        case ast.Name(id=name):
            return name in names
        case ast.Attribute(value=owner, attr=name):
            return _is_self(owner) and any(
                method.name == name and not method.decorator_list
                for node in module.classes
                for method in _methods(node)
            )
    return False


def _depend_on_each_other(targets: Sequence[ast.expr], values: Sequence[ast.expr]) -> bool:
    written = [ast.unparse(target) for target in targets]
    read = [
        {ast.unparse(each) for each in ast.walk(value) if isinstance(each, ast.expr)}
        for value in values
    ]
    pairs = permutations(range(min(len(written), len(read))), 2)
    return any(written[first] in read[second] for first, second in pairs)


def _tuples(function: Function) -> set[str]:
    return {
        node.targets[0].id
        for node in _own_nodes(function)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Tuple)
    }


# --- words ----------------------------------------------------------------------------------------


def retired_words(modules: Sequence[Module]) -> list[str]:
    """Words of a translated cadence: write the sentence that you would say to a colleague."""
    return _find_words(modules, "|".join(RETIRED_WORDS))


def what_as_a_noun(modules: Sequence[Module]) -> list[str]:
    """Phrases such as `what is queued`: name the thing."""
    return _find_words(modules, WHAT_AS_A_NOUN)


def _find_words(modules: Sequence[Module], words: str) -> list[str]:
    pattern = re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
    return [
        f"{module.path}:{number}: {found[0]}"
        for module in modules
        for number, line in enumerate(module.source.splitlines(), 1)
        for found in pattern.finditer(line)
    ]


RULES: Mapping[str, Rule] = {
    "files of more than 600 lines": long_files,
    "functions of more than 50 lines": long_functions,
    "packages with fewer than 3 or more than 25 modules": odd_packages,
    "modules of at most 60 lines with one importer": tiny_modules,
    "classes with more than 20 methods": large_classes,
    "classes with more than 12 attributes": wide_classes,
    "attributes first set outside __init__": late_attributes,
    "attributes of another object that are set": foreign_attributes,
    "callables assigned after the construction": late_callables,
    "assignments that pair unrelated values": paired_assignments,
    "tuples unpacked into a constructor": unpacked_tuples,
    "retired words": retired_words,
    "what is … as a noun": what_as_a_noun,
}


if __name__ == "__main__":
    tree = read_modules()
    for title, rule in RULES.items():
        counted = rule(tree)
        print(f"{len(counted):5} {title}")
        if len(sys.argv) > 1 and title.startswith(sys.argv[1]):
            print("\n".join(f"        {line}" for line in counted))
    print(f"{typical_function_lines(tree):5} lines of a function at most, in nineteen of twenty")
