"""Which waiting pods are repairs, against a brute force that follows the words of docs/roles.md."""

from collections.abc import Sequence
from itertools import combinations, permutations
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.actions.demands.demand import Stage
from phalanx.model.names import NodeName, PodUid
from phalanx.model.pods import PodPhase
from phalanx.model.reasons import Objection

from tests.builders import Scenario, demands_of, recorded
from tests.examples import holds


class Kind(NamedTuple):
    """A role and a number of GPUs."""

    role: str
    gpu: int


KINDS = st.builds(Kind, st.sampled_from("ab"), st.integers(0, 2))


class Case(NamedTuple):
    """Members that were bound, how many of the first of them are left, waiting pods, and the minimum."""

    had: list[Kind]
    left: int
    waiting: list[Kind]
    minimum: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    had = draw(st.lists(KINDS, min_size=1, max_size=4))
    left = draw(st.integers(0, len(had)))
    return Case(had, left, draw(st.lists(KINDS, max_size=4)), draw(st.integers(1, 5)))


def scenario_of(case: Case) -> Scenario:
    scenario = Scenario().nodes("n", 1, gpu=99, cpu=999)
    first, *others = case.had
    scenario.gang("g", 1, gpu=first.gpu, role=first.role, on=["n-0"], started=True)
    for each in [*others, *case.waiting]:
        scenario.role("g", 1, gpu=each.gpu, role=each.role, on=["n-0"])
    count = len(case.had)
    members = scenario.members("g")
    scenario.change("g", members=members[:count])
    record = recorded(scenario.snapshot().gangs["gang-g"])  # type: ignore[index]
    waiting = [
        replace(pod, uid=PodUid(f"w{index}"), node=None, phase=PodPhase.PENDING)
        for index, pod in enumerate(members[count:])
    ]
    there = tuple(replace(pod, node=NodeName("n-0")) for pod in members[: case.left])
    return scenario.change(
        "g", members=(*there, *waiting), min_member=case.minimum, started=True, record=record
    )


# --- the words ----------------------------------------------------------------------------------------------


def use_up(pods: Sequence[Kind], losses: Sequence[Kind]) -> bool:
    """Whether each pod can use up a loss of its own."""
    return any(
        all(pod.role == loss.role and pod.gpu <= loss.gpu for pod, loss in zip(pods, some, strict=True))
        for some in permutations(losses, len(pods))
    )


def first_that_use_up(case: Case, most: int) -> tuple[int, ...]:
    """As many waiting pods as possible that use up losses, at most so many; the first ones."""
    losses = case.had[case.left :]
    for size in range(min(most, len(losses), len(case.waiting)), 0, -1):
        for some in combinations(range(len(case.waiting)), size):
            if use_up([case.waiting[index] for index in some], losses):
                return some
    return ()


def expected(case: Case) -> tuple[set[int], set[int]] | None:
    """The waiting pods that are repairs, and those that are a start; None if members are missing."""
    lacking = max(0, case.minimum - case.left)
    if case.left:
        repairs = first_that_use_up(case, lacking)
        others = [index for index in range(len(case.waiting)) if index not in repairs]
        return set(repairs), set(others[: lacking - len(repairs)])
    again = first_that_use_up(case, lacking)
    if len(again) == lacking:
        return set(again), set()
    return (set(), set(range(lacking))) if len(case.waiting) >= lacking else None


# --- the comparison -----------------------------------------------------------------------------------------


@given(cases())
@holds(200)
def test_repairs_are_exactly_the_waiting_pods_that_use_up_losses(case: Case) -> None:
    gang = scenario_of(case).snapshot().gangs["gang-g"]  # type: ignore[index]
    found = demands_of(gang)
    wanted = expected(case)
    if not case.waiting:
        return
    if wanted is None:
        assert isinstance(found, Objection)
        return
    assert not isinstance(found, Objection), found
    by_stage: dict[Stage, set[int]] = {}
    for demand in found:
        pods = {int(pod.uid[1:]) for batch in demand.batches for pod in batch.pods}
        by_stage.setdefault(demand.stage, set()).update(pods)
        assert demand.stage is not Stage.START or demand.is_whole
    repairs, starts = wanted
    assert by_stage.get(Stage.REPAIR, set()) == repairs
    assert by_stage.get(Stage.START, set()) == starts
    rest = set(range(len(case.waiting))) - repairs - starts
    assert by_stage.get(Stage.SURPLUS, set()) == rest
