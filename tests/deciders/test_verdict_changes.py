"""Verdicts are sent between processes as changes of the last ones."""

import pickle

from hypothesis import given
from hypothesis import strategies as st
from phalanx.deciders.process import apply_changes, changes_of
from phalanx.model.names import GangId
from phalanx.model.reasons import Reason, Verdict

from tests.examples import holds

POOL = [Verdict(GangId(f"g{i}"), f"team/g{i}", Reason.NOT_TRIED_YET, "m") for i in range(6)]


@holds(50)
@given(st.lists(st.lists(st.sampled_from(POOL), max_size=6), max_size=5))
def test_both_sides_have_the_same_verdicts(cycles: list[list[Verdict]]) -> None:
    before: tuple[Verdict, ...] = ()
    received: tuple[Verdict, ...] = ()
    for cycle in cycles:
        changes = changes_of(before, tuple(cycle))
        assert len(changes.new) == sum(verdict not in before for verdict in cycle)
        before, received = tuple(cycle), apply_changes(received, pickle.loads(pickle.dumps(changes)))
        assert received == before


def test_verdicts_that_stay_cost_nothing() -> None:
    assert changes_of(tuple(POOL), tuple(POOL)).positions is None
