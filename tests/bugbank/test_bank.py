"""Every bug in the bank is caught, and what catches it sees nothing in the code as it is.

What takes more than two seconds is left to `python -m tests.bugbank`, or to PHALANX_SOAK=1.
"""

import os
from collections.abc import Iterator

import pytest

from tests.bugbank.bank import Mutant
from tests.bugbank.children import Children
from tests.bugbank.mutants import MUTANTS
from tests.bugbank.run import one_per_catcher

QUICK = [one for one in MUTANTS if not one.slow or os.environ.get("PHALANX_SOAK")]


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    with Children() as started:
        yield started


def name_of(mutant: Mutant) -> str:
    return mutant.name.replace(" ", "-")


def test_the_bank_is_large_and_its_names_are_unique() -> None:
    assert len(MUTANTS) >= 60
    assert len({one.name for one in MUTANTS}) == len(MUTANTS)
    assert all(one.issues for one in MUTANTS)


@pytest.mark.parametrize("mutant", QUICK, ids=name_of)
def test_a_bug_is_caught(mutant: Mutant, children: Children) -> None:
    answer = children.ask(mutant.name)
    assert answer.code == 0, answer.said


@pytest.mark.parametrize("mutant", one_per_catcher(QUICK), ids=name_of)
def test_the_code_as_it_is_is_not(mutant: Mutant, children: Children) -> None:
    answer = children.ask(mutant.name, sound=True)
    assert answer.code == 1, answer.said
