"""The affinity states of members, which sessions share while the terms are the same."""

from msgspec.structs import replace
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.pods import SpreadConstraint

from tests.builders import Scenario, term

EACH_HOST = SpreadConstraint(replace(term(app="x"), for_spread=True), max_skew=1)


def test_a_member_that_runs_and_one_that_waits_keep_their_own_states() -> None:
    """Their shapes have the same key: a spread constraint is a state of members that wait only."""
    scenario = Scenario().nodes("n", 2, cpu=4)
    scenario.gang("g", 2, min=1, cpu=1, bound=1, labels={"app": "x"}, spread=[EACH_HOST])
    session = Session(scenario.snapshot(), SchedulerConfig())
    running, waiting = session.gangs[next(iter(session.gangs))].members
    states = [pod.shape.affinity_state for pod in (running, waiting)]
    assert [state is not None and bool(state.spread) for state in states] == [False, True]
