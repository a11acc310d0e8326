"""Templates of messages: literal text, placeholders and parameters of the function around it."""

from __future__ import annotations

import ast
import itertools
from dataclasses import dataclass
from typing import TypeAlias

FEW, SHORT = 4, 50  # more alternatives than that share a row, if each is short


@dataclass(frozen=True)
class Hole:
    """A part of a message that is known only at run time."""

    name: str


@dataclass(frozen=True)
class Param:
    """A part of a message that the caller of a function gives."""

    name: str


Part: TypeAlias = str | Hole | Param
Template: TypeAlias = tuple[Part, ...]
Bindings: TypeAlias = dict[str, list[Template]]
"""The texts that a call gives for parameters, by name."""


def is_text(template: Template) -> bool:
    """Whether a template has words of its own, not only a name or a key."""
    return any(isinstance(part, str) and " " in part.strip() for part in template)


def has_param(template: Template) -> bool:
    return any(isinstance(part, Param) for part in template)


def is_unknown(template: Template) -> bool:
    """Whether nothing of the text is known."""
    return bool(template) and all(isinstance(part, Hole) for part in template)


def close(template: Template) -> Template:
    """Make placeholders of all parameters."""
    return tuple(Hole(part.name) if isinstance(part, Param) else part for part in template)


def fill(template: Template, bound: Bindings, *, keep: bool = False) -> list[Template]:
    """Put texts in the place of parameters. Others become placeholders, or are kept."""
    pieces: list[list[Template]] = [
        bound.get(part.name, [(part if keep else Hole(part.name),)])
        if isinstance(part, Param)
        else [(part,)]
        for part in template
    ]
    return product(pieces)


def product(pieces: list[list[Template]]) -> list[Template]:
    """Every combination of the pieces; many short alternatives stay in one text."""
    pieces = [
        [(alternatives(piece),)] if len(piece) > FEW and all(map(is_short, piece)) else piece
        for piece in pieces
    ]
    return [
        tuple(itertools.chain.from_iterable(each))
        for each in itertools.product(*[piece or [()] for piece in pieces])
    ]


def is_short(template: Template) -> bool:
    return not has_param(template) and len(render(template)) <= SHORT


def short_bindings(bindings: list[Bindings]) -> Bindings:
    """Parameters for which every caller gives a few words: one row can hold them all."""
    found: Bindings = {}
    for name in {name for bound in bindings for name in bound}:
        given = [each for bound in bindings for each in bound.get(name, ())]
        if all(map(is_short, given)):
            given += [(Hole(name),)] if any(name not in bound for bound in bindings) else []
            found[name] = [(alternatives(list(dict.fromkeys(given))),)]
    return found


def render(template: Template) -> str:
    return "".join(part if isinstance(part, str) else "{" + part.name + "}" for part in template)


def alternatives(piece: list[Template]) -> str:
    text = " | ".join(map(render, piece))
    return f"({text})" if len(piece) > 1 else text


def name_of(node: ast.expr) -> str:
    """A short name for the value of an expression."""
    match node:
        case ast.Name(id=name):
            return name.strip("_")
        case ast.Attribute(value=ast.Call(func=ast.Name(id="type")), attr="__name__"):
            return "type"
        case ast.Attribute(value=ast.Name(id="self" | "cls" | "capabilities"), attr=attr):
            return attr.strip("_")
        case ast.Attribute(value=value, attr=attr):
            return f"{name_of(value)}.{attr}"
        case ast.Call(func=ast.Name(id="len"), args=[value]):
            return f"number of {name_of(value)}"
        case ast.Call(func=ast.Attribute(attr="sub"), args=[_, text, *_]):
            return name_of(text)
    inner = _inner(node)
    return ast.unparse(node) if inner is None else name_of(inner)


def _inner(node: ast.expr) -> ast.expr | None:
    """The part of an expression that names its value."""
    match node:
        case (
            ast.Subscript(value=inner)
            | ast.Call(args=[inner, *_])
            | ast.Call(func=ast.Attribute(value=inner))
            | ast.BinOp(left=inner)
            | ast.IfExp(body=inner)
            | ast.BoolOp(values=[inner, *_])
            | ast.NamedExpr(target=inner)
        ):
            return inner
        case ast.GeneratorExp(generators=[first, *_]) | ast.ListComp(generators=[first, *_]):
            return first.iter
    return None
