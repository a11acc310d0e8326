"""The names of aiohttp that are not documented: each exists in the installed release, and the list
of them is complete."""

from __future__ import annotations

import ast
import asyncio
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.client_proto import ResponseHandler

from antiphon.engine.aiohttp_names import PRIVATE_NAMES, UNDOCUMENTED_NAMES, PrivateName
from tests.support.tables import table

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "antiphon"


async def _answer(request: web.BaseRequest) -> web.Response:
    return web.Response()


async def _make(owner: str) -> Any:
    """Make an object of a class in the table."""
    loop = asyncio.get_running_loop()
    if owner == "RequestHandler":
        return web.RequestHandler(web.Server(_answer), loop=loop)
    if owner == "TCPConnector":
        connector = aiohttp.TCPConnector()
        await connector.close()
        return connector
    if owner == "ResponseHandler":
        return ResponseHandler(loop)
    assert owner == "StreamReader", f"the test cannot make a {owner}"
    return aiohttp.StreamReader(ResponseHandler(loop), 2**16, loop=loop)


@table("private", PRIVATE_NAMES, ids=lambda each: f"{each.owner}.{each.name}")
async def test_the_installed_aiohttp_has_the_private_name(private: PrivateName) -> None:
    made = await _make(private.owner)
    owner = getattr(import_module(private.module), private.owner, None)
    assert owner is not None, f"{private.module} has no {private.owner}"
    assert isinstance(made, owner)
    missing = f"{private.owner} of aiohttp {aiohttp.__version__} has no {private.name}"
    assert hasattr(made, private.name), f"{missing}, which is used to: {private.purpose}"


def test_the_installed_aiohttp_has_the_undocumented_names() -> None:
    missing = [
        f"{module}.{name}"
        for module, names in UNDOCUMENTED_NAMES
        for name in names
        if not hasattr(import_module(module), name)
    ]
    assert missing == []


async def test_the_source_uses_no_private_name_that_is_not_in_the_table() -> None:
    owners = {each.owner for each in PRIVATE_NAMES}
    aiohttps = {name for owner in owners for name in dir(await _make(owner))}
    used = {name for path in SOURCE.rglob("*.py") for name in _private_names(path)}
    assert used & aiohttps == {each.name for each in PRIVATE_NAMES}


def _private_names(path: Path) -> Iterator[str]:
    """Private attributes that a module uses of other objects, or in a subclass of aiohttp's."""
    tree = ast.parse(path.read_text())
    imported = {name for node in ast.walk(tree) for name in _imported_from_aiohttp(node)}
    if not imported:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not _is_self(node.value):
            yield from _if_private(node.attr)
        if isinstance(node, ast.ClassDef) and imported & {_root(base) for base in node.bases}:
            for each in ast.walk(node):
                if isinstance(each, ast.Attribute):
                    yield from _if_private(each.attr)


def _if_private(name: str) -> Iterator[str]:
    if name.startswith("_") and not name.startswith("__"):
        yield name


def _imported_from_aiohttp(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "aiohttp":
        yield from (each.asname or each.name for each in node.names)
    elif isinstance(node, ast.Import):
        names = [each.name.partition(".")[0] for each in node.names]
        yield from (name for name in names if name == "aiohttp")


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _root(node: ast.expr) -> str:
    """The first name of an expression such as `web.Server`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def test_aiohttp_is_bounded_to_the_release_line_whose_names_were_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [bound] = [each for each in project["dependencies"] if each.startswith("aiohttp")]
    major, minor = map(int, aiohttp.__version__.split(".")[:2])
    assert bound == f"aiohttp>={major}.{minor},<{major}.{minor + 1}"
