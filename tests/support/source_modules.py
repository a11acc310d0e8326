"""The source tree as rules about it read it: modules with their syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath

PACKAGE = Path(__file__).parents[2] / "src" / "antiphon"

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module:
    """One source file, by its path below the package and its text."""

    def __init__(self, path: str, source: str) -> None:
        self.path = PurePosixPath(path)
        self.source = source

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source, str(self.path))

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree, in the order of `ast.walk`: every rule reads them."""
        return [*ast.walk(self.tree)]

    @property
    def layer(self) -> str:
        return (
            "antiphon"
            if str(self.path) == "__init__.py"
            else self.path.parts[0].removesuffix(".py")
        )

    @property
    def name(self) -> str:
        """`core/stream/machine.py` → `antiphon.core.stream.machine`."""
        parts = ["antiphon", *self.path.with_suffix("").parts]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def lines(self) -> int:
        return len(self.source.splitlines())

    @cached_property
    def classes(self) -> list[ast.ClassDef]:
        return [node for node in self.nodes if isinstance(node, ast.ClassDef)]

    @cached_property
    def functions(self) -> list[Function]:
        return [node for node in self.nodes if isinstance(node, Function)]

    def imports(self) -> Iterator[tuple[int, str]]:
        """Line and full dotted name of everything imported, at any depth, for types or not."""
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                origin = self._origin(node)
                yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)

    @property
    def type_checking_lines(self) -> set[int]:
        """Lines below `if TYPE_CHECKING:`."""
        return {
            line
            for node in self.nodes
            if isinstance(node, ast.If)
            and isinstance(node.test, ast.Name)
            and node.test.id == "TYPE_CHECKING"
            for statement in node.body
            for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
        }

    def _origin(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = ["antiphon", *self.path.parent.parts]
        parents = package[: len(package) - node.level + 1]
        return ".".join([*parents, *filter(None, [node.module])])


def read_modules() -> list[Module]:
    """Every module of the source tree."""
    return [
        Module(path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    ]


def function_lines(node: Function) -> int:
    """From its `def` to its last line; nested functions count in both."""
    return (node.end_lineno or node.lineno) - node.lineno + 1
