"""Random problems of the solver benchmarks are such as the scheduler builds: no answer is refused."""

import pytest
from phalanx.rules.levels import FewestDomains, SameDomain
from phalanx.solver.answer import Placed
from phalanx.solver.engine import place

from bench.sweep import drawn


@pytest.mark.parametrize("seed", [200, 32, 8, 29])
def test_all_nodes_of_a_domain_state_the_same_capacity(seed: int) -> None:
    _, problem = drawn(seed)
    named = [rule.level for rule in problem.rules if isinstance(rule, SameDomain | FewestDomains)]
    depth = max([problem.levels.index(level) + 1 for level in named], default=0)
    stated: dict[tuple[str, ...], set[int]] = {}
    for each in problem.classes:
        stated.setdefault(each.path[:depth], set()).add(each.domain_capacity)
    assert [path for path, capacities in stated.items() if len(capacities) > 1] == []
    assert depth or not problem.prefers_tightness


@pytest.mark.parametrize("seed", [200, 32])
def test_the_answer_passes_its_check(seed: int) -> None:
    _, problem = drawn(seed)
    answer = place(problem)
    assert isinstance(answer, Placed)
    assert answer.errors == ()
