"""Mutation testing: which changes are made, and the list of those that no test can notice."""

from __future__ import annotations

from tests.support.mutation import PLACES, SOURCE, find_mutants
from tests.support.mutation_survivors import EQUIVALENT


def test_comparisons_conditions_and_constants_are_changed_one_at_a_time() -> None:
    source = "def f(a: int) -> bool:\n    return a < 1 and not False\n"
    changed = {text.splitlines()[1].strip() for _, text in find_mutants("m.py", source)}
    assert changed == {
        "return (a < 1 or not False)",
        "return (a <= 1) and not False",
        "return a < (2) and not False",
        "return a < 1 and (False)",
        "return a < 1 and not (True)",
    }


def test_options_of_classes_are_known() -> None:
    source = "class A(Struct, frozen=True):\n    size: int = 1\n"
    mutants = [mutant for mutant, _ in find_mutants("m.py", source)]
    assert {mutant.before: mutant.is_class_option for mutant in mutants} == {
        "True": True,
        "1": False,
    }


def test_every_mutant_that_is_listed_as_equivalent_exists() -> None:
    paths = [path for place in PLACES for path in SOURCE.glob(place)]
    named = [path for path in paths if any(path.name in name for name in EQUIVALENT)]
    found = {
        mutant.name
        for path in named
        for mutant, _ in find_mutants(path.relative_to(SOURCE).as_posix(), path.read_text("utf-8"))
    }
    assert EQUIVALENT.keys() - found == set()
