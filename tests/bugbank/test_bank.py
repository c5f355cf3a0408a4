"""Every bug in the bank is caught, and its catcher finds nothing in the unchanged code.

By default one bug of each catcher is tried. All bugs, and most seeds, run with `python -m tests.bugbank` or
PHALANX_SOAK=1.
"""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.bugbank.bank import Mutant, Played
from tests.bugbank.children import Children
from tests.bugbank.mutants import MUTANTS
from tests.bugbank.run import one_per_catcher
from tests.bugbank.seeds import AMONG_TESTS, SEEDS

pytestmark = pytest.mark.xdist_group("bug bank")
"""One process imports everything from which the children are forked."""

CHOSEN = (
    MUTANTS if os.environ.get("PHALANX_SOAK") else one_per_catcher(one for one in MUTANTS if not one.slow)
)


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    with Children() as started:
        yield started


SEEDED = SEEDS if os.environ.get("PHALANX_SOAK") else AMONG_TESTS


def name_of(mutant: Mutant) -> str:
    return mutant.name.replace(" ", "-")


def test_the_bank_is_large_and_its_names_are_unique() -> None:
    assert len(MUTANTS) >= 60
    assert len({one.name for one in MUTANTS}) == len(MUTANTS)
    assert all(one.issues for one in MUTANTS)


def test_every_edit_fits_the_code() -> None:
    assert [misfit for mutant in MUTANTS for misfit in misfits(mutant)] == []


def misfits(mutant: Mutant) -> Iterator[str]:
    """The edits whose old text does not occur exactly once in the module, when they are applied in order."""
    found = find_spec(mutant.module)
    assert found is not None, mutant.module
    assert found.origin is not None
    source = Path(found.origin).read_text()
    for old, new in mutant.edits.items():
        if source.count(old) != 1:
            yield f"{mutant.name}: {mutant.module}: {source.count(old)} times: {old}"
        source = source.replace(old, new)


@pytest.mark.parametrize("mutant", CHOSEN, ids=name_of)
def test_a_bug_is_caught(mutant: Mutant, children: Children) -> None:
    answer = children.ask(mutant.name)
    assert answer.code == 0, answer.said


def test_seeds_are_of_mutants_of_the_bank() -> None:
    assert {one.name for one in MUTANTS} >= SEEDS.keys() >= set(AMONG_TESTS)


@pytest.mark.parametrize("name", SEEDED)
def test_a_bug_is_caught_by_simulated_runs(name: str, children: Children) -> None:
    answer = children.ask(name, seeds=True)
    assert answer.code == 0, answer.said


def test_simulated_runs_find_nothing_in_the_unchanged_code(children: Children) -> None:
    ranges = {SEEDS[name]: name for name in SEEDED}
    answer = children.ask(*ranges.values(), sound=True, seeds=True)
    assert answer.code == 1, answer.said


def catchers() -> dict[str, list[str]]:
    """For each file of plays, one mutant for each catcher; those without a play separately.

    The plays of `named` have a separate test.
    """
    found: dict[str, list[str]] = {}
    for mutant in one_per_catcher(CHOSEN):
        by = mutant.caught_by
        file = by.play.partition(":")[0] if isinstance(by, Played) else name_of(mutant)
        found.setdefault(file, []).append(mutant.name)
    found.pop("named", None)
    return found


@pytest.mark.parametrize(("file", "mutants"), catchers().items(), ids=catchers())
def test_the_unchanged_code_has_none_of_these_bugs(file: str, mutants: list[str], children: Children) -> None:
    answer = children.ask(*mutants, sound=True)
    assert answer.code == 1, answer.said
