"""The number of pods that a refusal says to fit is the largest possible one, by trying all placements."""

from functools import cache

import pytest
from msgspec import Struct
from phalanx.model.reasons import Category, Reason

from tests.advice.fitting import Case, Stated, manifests, most_that_fit, random_case, stated
from tests.advice.reading import advice_of
from tests.advice.refusals import decided, is_helped, verdict_of
from tests.examples import examples

SEEDS = range(examples(80))

pytestmark = [pytest.mark.properties, pytest.mark.xdist_group("fitting")]


class Answer(Struct, frozen=True):
    seed: int
    case: Case
    reason: Reason
    stated: Stated | None
    """None if the message names no number."""
    most: int
    lower_to: tuple[int, ...]
    """Minimums of the whole gang that the next step advises."""


@cache
def refusals() -> list[Answer]:
    return [answer for seed in SEEDS if (answer := answer_of(seed)) is not None]


def answers() -> list[tuple[Answer, Stated]]:
    return [(each, each.stated) for each in refusals() if each.stated is not None]


def answer_of(seed: int) -> Answer | None:
    """None if some pods of the gang start."""
    case = random_case(seed)
    results = decided(manifests(case))
    verdict = None if any(result.placements for result in results) else verdict_of(results)
    if verdict is None:
        return None
    found = stated(verdict.message.partition(";")[0])
    lower = tuple(
        each.count for each in advice_of(verdict.next_step) if each.kind == "lower" and not each.parts
    )
    most = most_that_fit(case, when_empty=found.when_empty) if found is not None else 0
    return Answer(seed, case, verdict.reason, found, most, lower)


def test_no_message_names_too_many_pods() -> None:
    assert answers()
    assert [each.seed for each, said in answers() if said.count > each.most] == []
    assert [each.seed for each, said in answers() if said.needed != each.case.needed] == []


def test_a_number_is_exact_unless_it_says_at_least() -> None:
    assert [each.seed for each, said in answers() if said.is_exact and said.count != each.most] == []
    exact = [each for each, said in answers() if said.is_exact]
    assert len(exact) >= 0.95 * len(answers())


@pytest.mark.parametrize("seed", [4_115, 4_312, 6_167])
def test_members_of_other_shapes_count_where_the_first_ones_do_not_fit(seed: int) -> None:
    answer = answer_of(seed)
    assert answer is not None
    assert answer.stated is not None
    assert (answer.stated.count, answer.stated.is_exact) == (answer.most, True)


def test_the_minimum_that_is_advised_is_the_number_and_is_sufficient() -> None:
    lowered = [(each, said, count) for each, said in answers() for count in each.lower_to]
    assert lowered
    for each, said, count in lowered:
        assert count == said.count, each.seed
        if not said.when_empty:
            assert is_helped(manifests(each.case, needed=count)), each.seed


def test_a_gang_is_impossible_only_if_it_does_not_fit_the_empty_cluster_with_all_nodes() -> None:
    assert any(each.reason is Reason.NODES_UNAVAILABLE for each in refusals()) or len(SEEDS) < 80
    for each in refusals():
        case = each.case
        fits_all = most_that_fit(case, when_empty=True, with_all_nodes=True) >= case.needed
        fits_empty = most_that_fit(case, when_empty=True) >= case.needed
        assert (each.reason.category is Category.IMPOSSIBLE) == (not fits_all), each.seed
        assert (each.reason is Reason.NODES_UNAVAILABLE) == (fits_all and not fits_empty), each.seed
