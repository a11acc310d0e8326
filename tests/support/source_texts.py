"""Resolution of texts in source code: variables, tables, conditions, functions, parameters.

`Texts.resolve` returns every template that an expression may have. It follows local and module
variables, attributes, tables (also in loops), conditional expressions, string methods and the
return values of functions; a parameter of the function around stays one, for the callers to fill.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeAlias

from tests.support.message_templates import (
    Bindings,
    Hole,
    Param,
    Template,
    fill,
    has_param,
    is_text,
    name_of,
    product,
)

PACKAGE = Path(__file__).parents[2] / "src" / "antiphon"

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Found: TypeAlias = list[Template] | None
"""None if nothing is known of an expression, [] if it has no text."""

WRAPPERS = {"str", "Text", "cast", "dedent"}
TRANSPARENT = {"strip", "rstrip", "lstrip", "capitalize", "removesuffix", "removeprefix", "format"}
TABLE_METHODS = {"get", "items", "values"}
PASSED_ON = {"message", "strerror", "description"}  # attributes that hold another message
DEEPEST = 30  # nested expressions that are followed


class Source:
    """One module with its functions, constants and imports."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.tree = ast.parse(text, path)
        self.nodes = list(ast.walk(self.tree))
        self.parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    @cached_property
    def functions(self) -> dict[str, list[Function]]:
        found: dict[str, list[Function]] = {}
        for node in self.nodes:
            if isinstance(node, Function):
                found.setdefault(node.name, []).append(node)
        return found

    @cached_property
    def constants(self) -> dict[str, list[ast.expr]]:
        """Values of module variables, attributes, and fields of the rows of module tables."""
        found: dict[str, list[ast.expr]] = {}
        for name, value in itertools.chain(
            _assigned_names(self.tree.body), self._attributes(), self._row_fields()
        ):
            found.setdefault(name, []).append(value)
        return found

    def _attributes(self) -> Iterator[tuple[str, ast.expr]]:
        for node in self.nodes:
            if isinstance(node, ast.ClassDef):
                yield from _assigned_names(node.body)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                for target, value in _assigned(node):
                    if isinstance(target, ast.Attribute):
                        yield target.attr, value

    def _row_fields(self) -> Iterator[tuple[str, ast.expr]]:
        for statement in self.tree.body:
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                for node in ast.walk(statement):
                    if isinstance(node, ast.keyword) and node.arg is not None:
                        yield node.arg, node.value

    @cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """Local name → module path below the package and the name there."""
        return {
            alias.asname or alias.name: (
                (node.module or "").removeprefix("antiphon.").replace(".", "/") + ".py",
                alias.name,
            )
            for node in self.nodes
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("antiphon.")
            for alias in node.names
        }

    def function_around(self, node: ast.AST) -> Function | None:
        while (parent := self.parents.get(node)) is not None:
            if isinstance(parent, Function):
                return parent
            node = parent
        return None


def read_sources(package: Path = PACKAGE) -> list[Source]:
    return [
        Source(path.relative_to(package).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted(package.rglob("*.py"))
    ]


class Texts:
    """The texts of expressions in some modules."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self.sources = {source.path: source for source in sources}
        self._resolving: list[ast.expr] = []
        self._resolved: dict[ast.expr, Found] = {}
        self._calls: dict[str, list[tuple[Source, ast.Call]]] = {}
        for source in self.sources.values():
            for node in source.nodes:
                if isinstance(node, ast.Call):
                    self._calls.setdefault(called_name(node), []).append((source, node))

    def calls_of(self, source: Source, function: Function) -> Iterator[tuple[Source, ast.Call]]:
        """Calls of a function: by its name in its module, by its import or as a method outside."""
        is_method = isinstance(source.parents.get(function), ast.ClassDef)
        namesakes = [each.functions.get(function.name, ()) for each in self.sources.values()]
        is_unique = sum(map(len, namesakes)) == 1
        own = (source.path, function.name)
        for place, node in self._calls.get(function.name, ()):
            by_name = place is source or place.imports.get(function.name) == own
            on_object = isinstance(node.func, ast.Attribute)
            if by_name or (is_method and is_unique and on_object):
                yield place, node

    def bind(
        self, source: Source, call: ast.Call, function: Function, names: Iterable[str]
    ) -> Bindings:
        """The texts that a call gives for some parameters of a function."""
        bound: Bindings = {}
        for name in names:
            given = argument_of(call, function, name)
            found = self.resolve(source, given) if given is not None else None
            texts = [each for each in found or () if is_text(each) or has_param(each)]
            if texts:
                bound[name] = texts
        return bound

    def resolve(self, source: Source, node: ast.expr) -> Found:
        """Every text that an expression may have."""
        if node in self._resolved:
            return self._resolved[node]
        if node in self._resolving or len(self._resolving) > DEEPEST:
            return []
        self._resolving.append(node)
        read = _READERS.get(type(node))
        try:
            found = read(self, source, node) if read is not None else None
        finally:
            self._resolving.pop()
        self._resolved[node] = found
        return found

    def _constant(self, source: Source, node: ast.Constant) -> Found:
        if not isinstance(node.value, str):
            return []
        return [(node.value,)] if node.value else [()]

    def _concatenation(self, source: Source, node: ast.JoinedStr | ast.BinOp) -> Found:
        if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.Add):
            return None
        parts = node.values if isinstance(node, ast.JoinedStr) else [node.left, node.right]
        return product([self._piece(source, part) for part in parts])

    def _any_of(self, source: Source, node: ast.expr) -> Found:
        return self._union(source, _choices(node))

    def _union(self, source: Source, nodes: Iterable[ast.expr]) -> Found:
        nodes = list(nodes)
        found = [self.resolve(source, node) for node in nodes]
        known = [each for each in found if each is not None]
        if not nodes or (not any(known) and None in found):
            return None
        if any(is_text(each) for texts in known for each in texts):
            unknown = [node for node, each in zip(nodes, found, strict=True) if each is None]
            known += [[(Hole(name_of(node)),)] for node in unknown]
        return list(dict.fromkeys(itertools.chain.from_iterable(known)))

    def _piece(self, source: Source, node: ast.expr) -> list[Template]:
        """One part of a longer text: its texts, or a placeholder."""
        if isinstance(node, ast.Constant):
            return self.resolve(source, node) or []
        quoted = isinstance(node, ast.FormattedValue) and node.conversion == ord("r")
        value = node.value if isinstance(node, ast.FormattedValue) else node
        found = self.resolve(source, value) or []
        is_param = len(found) == 1 and len(found[0]) == 1 and has_param(found[0])
        is_suffix = any(found) and () in found
        if any(map(is_text, found)) or ((is_param or is_suffix) and not quoted):
            return found
        hole = Hole(name_of(value))
        return [("'", hole, "'")] if quoted else [(hole,)]

    def _item(self, source: Source, node: ast.Subscript) -> Found:
        if (index := _column(node)) is None:
            return self.resolve(source, node.value)
        cells = list(self._cells(source, node.value, index))
        return self._union(source, cells) if cells else None

    def _cells(self, source: Source, table: ast.expr, index: int) -> Iterator[ast.expr]:
        for row in self._rows(source, table):
            if isinstance(row, ast.Tuple) and index < len(row.elts):
                yield row.elts[index]

    def _rows(self, source: Source, node: ast.expr) -> list[ast.expr]:
        """The rows of a table that a loop runs over: of a tuple, or of a dict's `items()`."""
        match node:
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                return elts
            case ast.Call(func=ast.Attribute(value=table, attr="items")):
                rows = self._rows(source, table)
                pairs = [pair for row in rows for pair in _pairs(row)]
                return [ast.Tuple([key, value], ast.Load()) for key, value in pairs]
            case ast.Dict() | ast.DictComp():
                return [node]
            case ast.Name(id=name):
                function = source.function_around(self._place(source, node))
                local = _local_values(function).get(name, []) if function else []
                values = local or source.constants.get(name, [])
                return [row for value in values for row in self._rows(source, value)]
            case ast.Subscript(value=value) if (index := _column(node)) is not None:
                return list(self._cells(source, value, index))
        return []

    def _name(self, source: Source, node: ast.Name) -> Found:
        function = source.function_around(self._place(source, node))
        while function is not None:
            local = _local_values(function).get(node.id, [])
            found = self._union(source, local) if local else None
            if node.id in _parameters(function):
                return [*(found or ()), (Param(node.id),)]
            if local:
                return found
            function = source.function_around(function)
        origin, name = self._origin(source, node.id)
        return self._union(origin, origin.constants[name]) if name in origin.constants else None

    def _origin(self, source: Source, name: str) -> tuple[Source, str]:
        """Where a module-level name is defined."""
        path, original = source.imports.get(name, ("", name))
        return self.sources.get(path, source), original

    def _place(self, source: Source, node: ast.expr) -> ast.expr:
        """The node, or the nearest one being resolved that stands in the source."""
        if node in source.parents:
            return node
        return next((each for each in reversed(self._resolving) if each in source.parents), node)

    def _attribute(self, source: Source, node: ast.Attribute) -> Found:
        if node.attr in PASSED_ON:
            return []
        found = self._union(source, source.constants.get(node.attr, []))
        return None if found is None else [each for each in found if each]

    def _call(self, source: Source, node: ast.Call) -> Found:
        name = called_name(node)
        if name in WRAPPERS and node.args:
            return self.resolve(source, node.args[0])
        if name == "next":
            return self._union(source, node.args)
        if isinstance(node.func, ast.Attribute):
            if name in TRANSPARENT:
                return self.resolve(source, node.func.value)
            if name in TABLE_METHODS:
                return self._union(source, [node.func.value, *node.args[1:]])
            if name == "assemble":
                return product([self._piece(source, _first(each)) for each in node.args])
        if name[:1].isupper():
            return []  # an object, not a text
        return self._returned(source, node, name)

    def _returned(self, source: Source, call: ast.Call, name: str) -> Found:
        origin, original = self._origin(source, name)
        functions = origin.functions.get(original, [])
        if not functions:
            return None
        function = functions[0]
        found = self.returned_by(origin, function)
        if found is None:
            return None
        names = {part.name for each in found for part in each if isinstance(part, Param)}
        bound = self.bind(source, call, function, names)
        return [filled for each in found for filled in fill(each, bound)]

    def _inside(self, source: Source, node: Any) -> Found:
        return self.resolve(source, node.value)

    def _element(self, source: Source, node: ast.GeneratorExp | ast.ListComp) -> Found:
        return self.resolve(source, node.elt)

    def returned_by(self, source: Source, function: Function) -> Found:
        """The texts that a function returns or yields."""
        values = [
            each.value
            for each in ast.walk(function)
            if isinstance(each, ast.Return | ast.Yield)
            and each.value is not None
            and source.function_around(each) is function
        ]
        return self._union(source, values)


Reader: TypeAlias = Callable[[Texts, Source, Any], Found]
_READERS: dict[type[ast.expr], Reader] = {
    ast.Constant: Texts._constant,
    ast.JoinedStr: Texts._concatenation,
    ast.BinOp: Texts._concatenation,
    ast.IfExp: Texts._any_of,
    ast.BoolOp: Texts._any_of,
    ast.Dict: Texts._any_of,
    ast.Tuple: Texts._any_of,
    ast.List: Texts._any_of,
    ast.DictComp: Texts._inside,
    ast.GeneratorExp: Texts._element,
    ast.ListComp: Texts._element,
    ast.NamedExpr: Texts._inside,
    ast.Await: Texts._inside,
    ast.Starred: Texts._inside,
    ast.Subscript: Texts._item,
    ast.Name: Texts._name,
    ast.Attribute: Texts._attribute,
    ast.Call: Texts._call,
}


def called_name(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def argument(call: ast.Call, position: int | None, keyword: str) -> ast.expr | None:
    for given in call.keywords:
        if given.arg == keyword:
            return given.value
    return call.args[position] if position is not None and position < len(call.args) else None


def argument_of(call: ast.Call, function: Function, name: str) -> ast.expr | None:
    """The argument for a parameter; None if the call gives none."""
    positional = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    positional = [each for each in positional if each not in {"self", "cls"}]
    return argument(call, positional.index(name) if name in positional else None, name)


def _parameters(function: Function) -> list[str]:
    given = function.args
    return [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def _choices(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.IfExp(body=body, orelse=orelse):
            return [body, orelse]
        case ast.BoolOp(values=values) | ast.Dict(values=values):
            return values
        case ast.Tuple(elts=values) | ast.List(elts=values):
            return values
    return []


def _assigned(node: ast.Assign | ast.AnnAssign) -> Iterator[tuple[ast.expr, ast.expr]]:
    if node.value is not None:
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield target, node.value


def _assigned_names(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for node in body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            for target, value in _assigned(node):
                if isinstance(target, ast.Name):
                    yield target.id, value


@cache
def _local_values(function: Function) -> dict[str, list[ast.expr]]:
    """Every expression that a local name is bound to. A loop binds to what it loops over."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        pairs: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.Assign | ast.AnnAssign):
            pairs = list(_assigned(node))
        elif isinstance(node, ast.NamedExpr):
            pairs = [(node.target, node.value)]
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            earlier = ast.BoolOp(ast.Or(), list(found.get(node.target.id, [])))
            longer = ast.copy_location(ast.BinOp(earlier, ast.Add(), node.value), node)
            pairs = [(node.target, longer)]
        elif isinstance(node, ast.For | ast.comprehension):
            pairs = [(node.target, node.iter)]
        for target, value in pairs:
            for name, part in _unpack(target, value):
                found.setdefault(name, []).append(part)
    return found


def _unpack(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple):
        for index, each in enumerate(target.elts):
            if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
                yield from _unpack(each, value.elts[index])
            else:
                column = ast.Subscript(value, ast.Constant(~index), ast.Load())
                yield from _unpack(each, ast.copy_location(column, value))


def _column(node: ast.Subscript) -> int | None:
    """The column of a table, where a loop unpacks its rows (see `_unpack`).

    It is a negative constant, which no source has: `-1` is an operation there.
    """
    match node.slice:
        case ast.Constant(value=int(index)) if index < 0:
            return ~index
    return None


def _pairs(node: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None:
                yield key, value
    elif isinstance(node, ast.DictComp):
        yield node.key, node.value


def _first(node: ast.expr) -> ast.expr:
    return node.elts[0] if isinstance(node, ast.Tuple) else node
