"""Which members start: any that satisfy the minimums and fit, the first ones in the order of the gang."""

from random import Random

import msgspec
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.member_sets import next_sets
from phalanx.framework.minimum_members import MissingMembers
from phalanx.framework.session import Session
from phalanx.model.gangs import RoleSpec, SubgroupSpec
from phalanx.model.names import QueueName
from phalanx.model.reasons import Reason
from phalanx.model.resources import CPU, GPU

from tests.actions.member_cases import described, disagreements, member_case
from tests.builders import Decided, Scenario
from tests.examples import holds

NOWHERE = {"kind": "none"}


@given(st.randoms(use_true_random=False))
@holds(120)
def test_a_gang_starts_if_and_only_if_some_sufficient_set_of_members_fits(chance: Random) -> None:
    case = member_case(chance)
    note(described(case))
    assert disagreements(case) == []


def started(decided: Decided) -> list[str]:
    """The names of the members of gang g that the first placement binds."""
    return sorted(bind.name for bind in decided.placements("g")[0].binds)


def named(decided: Decided) -> dict[str, str]:
    """The members that can run on no node, with the causes."""
    return {
        each.subject: each.finding
        for each in decided.verdict("g").evidence
        if each.finding.startswith("can run on no node")
    }


def test_a_member_that_no_node_can_take_does_not_keep_the_others_from_starting() -> None:
    scenario = Scenario().nodes("n", 2, gpu=1)
    scenario.gang("g", 1, min=1, gpu=1, selector=NOWHERE).role("g", 1, gpu=1)
    decided = scenario.decide()
    assert started(decided) == ["g-1"]
    assert decided.reasons() == {"g": Reason.NO_ELIGIBLE_NODE}
    assert named(decided) == {"pod team/g-0": "can run on no node: 2 node selector does not match"}
    scenario.take(decided)
    assert named(scenario.decide()) == named(decided)


def test_a_verdict_about_capacity_names_the_members_that_can_run_nowhere() -> None:
    scenario = Scenario().nodes("n", 2, gpu=8, used={GPU: 8})
    scenario.gang("g", 2, min=2, gpu=8).role("g", 10, gpu=9).role("g", 2, gpu=1)
    decided = scenario.decide()
    assert decided.reasons()["g"] is Reason.INSUFFICIENT_CAPACITY
    ((subject, finding),) = named(decided).items()
    assert subject.startswith("pods team/g-2, team/g-3, ")
    assert subject.endswith(" and 2 more")
    assert (
        finding
        == "can run on no node: requests 9 nvidia.com/gpu, and the largest eligible node has 8 nvidia.com/gpu"
    )


def test_members_that_fit_alone_but_not_together_are_not_chosen_together() -> None:
    scenario = Scenario().nodes("n", gpu=3)
    scenario.gang("g", 2, min=2, gpu=2).role("g", 1, gpu=1)
    assert started(scenario.decide()) == ["g-0", "g-2"]


def test_of_the_sets_that_fit_the_first_one_in_order_starts() -> None:
    scenario = Scenario().nodes("n", gpu=4)
    scenario.gang("g", 1, min=2, gpu=4).role("g", 1, gpu=1).role("g", 1, gpu=3).role("g", 3, gpu=1)
    assert started(scenario.decide()) == ["g-1", "g-2"]


def test_an_earlier_member_without_a_role_is_in_the_first_set() -> None:
    """Pod 2 has the role and the subgroup that the gang needs, so pod 0 goes before pod 1."""
    scenario = Scenario().nodes("n", gpu=2).gang("g", 1, min=2, gpu=1, started=False)
    scenario.role("g", 1, gpu=1, role="ps").role("g", 1, gpu=1, role="ps")
    *others, last = scenario.members("g")
    scenario.change(
        "g",
        members=(*others, replace(last, subgroup="left")),
        roles=(RoleSpec("ps", 2, 1),),
        subgroups=(SubgroupSpec("left", 1),),
    )
    assert started(scenario.decide()) == ["g-0", "g-2"]


def test_an_earlier_member_is_in_the_first_set_although_a_smaller_set_has_a_later_one() -> None:
    """Pods 0 and 2 would do. Pods 0, 1 and 3 go before: none is one too many, and pod 1 is earlier."""
    scenario = Scenario().nodes("n", gpu=4).gang("g", 2, min=2, gpu=1, started=False)
    scenario.role("g", 2, gpu=1, role="ps")
    pods = [replace(pod, subgroup=name) for pod, name in zip(scenario.members("g"), "sss ", strict=True)]
    pods[3] = replace(pods[3], subgroup="")
    roles, parts = (RoleSpec("ps", 2, 1),), (SubgroupSpec("s", 2),)
    scenario.change("g", members=tuple(pods), roles=roles, subgroups=parts)
    assert started(scenario.decide()) == ["g-0", "g-1", "g-3"]


def test_a_role_takes_another_of_its_members() -> None:
    scenario = Scenario().nodes("n", gpu=4)
    scenario.gang("g", 0, min=2, started=False).role("g", 1, role="ps", gpu=4).role("g", 1, role="ps", gpu=1)
    scenario.role("g", 1, role="worker", gpu=2)
    scenario.change("g", roles=(RoleSpec("ps", 2, 1), RoleSpec("worker", 1, 1)))
    assert started(scenario.decide()) == ["g-1", "g-2"]


def test_more_sets_than_are_tried_one_by_one() -> None:
    """A hundred pods of 2 GPUs and a hundred of 1 GPU: none of the first sets fits, some later one does."""
    scenario = Scenario().nodes("n", 15, gpu=8)
    scenario.gang("g", 100, min=100, gpu=2, cpu=0.1, memory=0).role("g", 100, gpu=1, cpu=0.1, memory=0)
    decided = scenario.decide()
    assert len(started(decided)) == 100
    assert decided.nodes("g")


def test_a_gang_with_segments_starts_with_more_members_where_fewer_do_not_fill_a_segment() -> None:
    scenario = Scenario("rack").nodes("n", gpu=4, within="a")
    scenario.gang("g", 4, min=3, gpu=1)
    pods = tuple(replace(pod, subgroup="s") for pod in scenario.members("g"))
    part = {"name": "s", "min_member": 2, "required": "rack", "segment": 2}
    scenario.change("g", members=pods, subgroups=(msgspec.convert(part, SubgroupSpec),))
    assert len(started(scenario.decide())) == 4


def test_a_surplus_member_replaces_a_lost_one_whose_new_pod_does_not_fit() -> None:
    scenario = Scenario().nodes("n", gpu=2)
    scenario.gang("g", 1, min=2, gpu=1, on=["n-0"], started=True).role("g", 1, gpu=2).role("g", 1, gpu=1)
    decided = scenario.decide()
    assert started(decided) == ["g-2"]
    assert decided.placements("g")[0].cause == "replace"


def test_a_role_that_lost_a_member_is_not_repaired_by_another_role() -> None:
    scenario = Scenario().nodes("n", gpu=2)
    scenario.gang("g", 0, min=2, started=True).role("g", 1, role="worker", gpu=1, on=["n-0"], min=1)
    scenario.role("g", 1, role="ps", gpu=2, min=1).role("g", 1, role="worker", gpu=1)
    assert scenario.decide().placed() == []


def test_a_gang_that_reserves_starts_with_a_member_that_fits() -> None:
    scenario = Scenario().nodes("n", gpu=4)
    scenario.gang("g", 0, min=1, reserves=True, started=False)
    scenario.role("g", 1, role="driver", gpu=1, selector=NOWHERE).role("g", 1, role="driver", gpu=1)
    scenario.change("g", roles=(RoleSpec("driver", 2, 1),))
    assert started(scenario.decide()) == ["g-1"]


def test_fair_shares_count_members_that_can_run() -> None:
    """The first member could run nowhere; the queue of the gang still has a demand of one GPU."""
    scenario = Scenario().queue("a").queue("b").nodes("n", gpu=2)
    scenario.gang("g", 1, min=1, gpu=4, queue="a").role("g", 1, gpu=1)
    shares = Session(scenario.snapshot(), SchedulerConfig()).fair_shares
    assert shares.of(QueueName("a")).demand[GPU] == 1


def test_the_verdict_is_about_the_set_that_would_fit_the_empty_cluster() -> None:
    """Pods 0 and 1 never fit together; 0 and 2 do when the other work has ended."""
    scenario = Scenario().nodes("n", gpu=3).gang("other", 1, gpu=1, on=["n-0"])
    scenario.gang("g", 2, min=2, gpu=2).role("g", 1, gpu=1)
    assert scenario.decide().reasons() == {"g": Reason.INSUFFICIENT_CAPACITY}


@pytest.mark.parametrize(("steps", "found"), [(0, 0), (1, 1), (100, 2)])
def test_the_number_of_sets_is_bounded(steps: int, found: int) -> None:
    scenario = Scenario().gang("g", 1, gpu=1).role("g", 1, gpu=2).role("g", 1, gpu=3)
    pods = scenario.members("g")
    sets = list(next_sets(pods[:2], pods, MissingMembers(2), (), steps=steps))
    assert [[pod.name for pod in each] for each in sets] == [["g-0", "g-2"], ["g-1", "g-2"]][:found]


def test_the_reason_is_about_the_first_set_of_members() -> None:
    """Pods 0 and 1 lack a GPU. Pods 1 and 2 would fit without the limit of the queue."""
    scenario = Scenario().nodes("n", 1, gpu=1).foreign("busy", "n-0", gpu=1).queue("q", limit={CPU: 1000})
    scenario.gang("g", 1, min=2, gpu=1, cpu=0, queue="q").role("g", 2, gpu=0, cpu=1)
    assert scenario.decide().verdict("g").reason is Reason.INSUFFICIENT_CAPACITY


def test_the_reason_of_surplus_members_is_about_one_that_fits_the_empty_cluster() -> None:
    """The limit of the queue is too small for pod 1 and allows pod 2, which lacks a GPU."""
    scenario = Scenario().nodes("n", 1, gpu=1).foreign("busy", "n-0", gpu=1).queue("q", limit={CPU: 2000})
    scenario.gang("g", 1, min=1, cpu=1, on=["n-0"], started=True, queue="q")
    scenario.role("g", 1, cpu=2).role("g", 1, cpu=1, gpu=1)
    assert scenario.decide().verdict("g").reason is Reason.INSUFFICIENT_CAPACITY
    scenario.change("g", members=scenario.members("g")[:2])
    assert scenario.decide().verdict("g").reason is Reason.ABOVE_QUEUE_LIMIT
