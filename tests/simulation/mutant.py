"""Mutant: one planted defect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

Patch = Callable[[Any], Any]
"""Makes the mutated attribute from the original one."""


@dataclass(frozen=True)
class Mutant:
    name: str
    owner: Any
    attribute: str
    patch: Patch

    @contextmanager
    def planted(self) -> Iterator[None]:
        original = self.owner.__dict__[self.attribute]
        setattr(self.owner, self.attribute, self.patch(original))
        try:
            yield
        finally:
            setattr(self.owner, self.attribute, original)


def do_nothing(_: Any) -> Callable[..., None]:
    return lambda *arguments, **options: None
