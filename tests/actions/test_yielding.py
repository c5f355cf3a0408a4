"""Capacity that is held for pods which do not run is worth no more than capacity in use."""

from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.model.api.pod_groups import Disruption
from phalanx.model.conversion.shapes import shape_of_requests
from phalanx.model.gangs import RoleSpec
from phalanx.model.names import GangId, PodUid
from phalanx.model.nodes import Taint, TaintEffect
from phalanx.model.reasons import Reason
from phalanx.model.resources import CPU, GPU, MEMORY

from tests.actions.test_consolidate import ON, recreated, rested
from tests.builders import GI, Scenario
from tests.examples import holds

WORKER = shape_of_requests({CPU: 1000, MEMORY: GI, GPU: 1})
ROLES = (RoleSpec("driver", 1, 1), RoleSpec("worker", 4, 4, WORKER))


def reserved(*, gpu: int = 4, nodes: int = 1, guarantee: int = 4, **fields: object) -> Scenario:
    """A running driver without GPUs has reserved four GPUs; queue b guarantees some, queue a nothing."""
    scenario = Scenario().nodes("n", nodes, gpu=gpu).queue("a").queue("b", guarantee={GPU: guarantee})
    submit(scenario, "query", **fields)
    return scenario.take(scenario.decide())


def submit(scenario: Scenario, name: str, **fields: object) -> Scenario:
    settings = {"min": 5, "reserves": True, "roles": ROLES, "role": "driver", "queue": "a", **fields}
    return scenario.gang(name, 1, **settings)


def test_a_gang_within_its_guarantee_takes_reserved_capacity_at_once() -> None:
    scenario = reserved().gang("owner", 4, gpu=1, queue="b")
    decided = scenario.decide()
    assert (decided.nodes("owner"), decided.evicted()) == (["n-0"] * 4, [])
    later = scenario.take(decided).decide()
    assert later.placed() == []
    assert later.result.wake_at is not None, "the reservation continues without capacity until it expires"


def test_a_new_pod_group_does_not_win_the_capacity_back() -> None:
    scenario = reserved()
    scenario.remove("query")
    submit(scenario, "again").gang("owner", 4, gpu=1, queue="b", created=99)
    decided = scenario.decide()
    assert decided.placed() == ["owner"]
    scenario.take(decided).remove("again")
    submit(scenario, "third")
    assert scenario.decide().placed() == []


PREEMPTIBLE = Disruption()
NOT_PREEMPTIBLE = Disruption(preemptible=False)


@pytest.mark.parametrize(
    ("holder", "owner", "disruption", "same_queue", "is_given_up"),
    [
        (0, 4, PREEMPTIBLE, False, True),
        (3, 4, PREEMPTIBLE, False, True),
        (4, 4, PREEMPTIBLE, False, False),
        (0, 3, PREEMPTIBLE, False, False),
        (0, 0, PREEMPTIBLE, False, False),
        (0, 4, NOT_PREEMPTIBLE, False, False),
        (0, 4, PREEMPTIBLE, True, False),
    ],
    ids=[
        "the holder has no guarantee",
        "the holder exceeds its guarantee",
        "the holder is within its guarantee",
        "the other gang exceeds its guarantee",
        "the other gang has no guarantee",
        "the holder could not be evicted either",
        "both are in one queue",
    ],
)
def test_only_guarantees_take_held_capacity(
    holder: int, owner: int, disruption: Disruption, same_queue: bool, is_given_up: bool
) -> None:
    """The rest of the cluster is full or has a taint, so that all guarantees can be met."""
    scenario = reserved(guarantee=owner, disruption=disruption).nodes("full", gpu=4)
    scenario.nodes("tainted", gpu=4, taints=(Taint("k", TaintEffect.NO_SCHEDULE),))
    scenario.queue("c", guarantee={GPU: 4}).gang("run", 1, gpu=4, on=("full-0",), queue="c")
    scenario.queue("a", guarantee={GPU: holder}).gang("owner", 4, gpu=1, queue="a" if same_queue else "b")
    decided = scenario.decide()
    assert decided.placed() == (["owner"] if is_given_up else [])
    if not is_given_up:
        assert decided.verdict("owner").reason is Reason.CAPACITY_RESERVED


def test_surplus_takes_no_held_capacity() -> None:
    scenario = reserved(gpu=5).gang("owner", 2, min=1, gpu=1, queue="b")
    assert len(scenario.decide().nodes("owner")) == 1


def test_what_the_owner_leaves_is_held_again() -> None:
    scenario = reserved().gang("owner", 1, gpu=1, queue="b").gang("other", 1, gpu=1, queue="a")
    decided = scenario.decide()
    assert decided.placed() == ["owner"]
    assert decided.verdict("other").reason is Reason.CAPACITY_RESERVED
    assert scenario.take(decided).decide().placed() == []


def test_the_holder_of_lower_rank_gives_up_first() -> None:
    """With the reservation of one of two holders given up, the other one is within the guarantee."""
    scenario = Scenario().nodes("n", 2, gpu=4).queue("a", guarantee={GPU: 4}).queue("b", guarantee={GPU: 4})
    submit(scenario, "first", priority=1)
    submit(scenario, "second")
    scenario.take(scenario.decide())
    decided = scenario.gang("owner", 4, gpu=1, queue="b").decide()
    assert decided.placed() == ["owner"]
    held = scenario.take(decided).decide().result.memory.compositions
    assert held["gang-first"].held.keys().isdisjoint(decided.nodes("owner"))
    assert (
        scenario.gang("more", 1, gpu=1, queue="b").decide().verdict("more").reason is Reason.CAPACITY_RESERVED
    )


def test_capacity_of_lost_members_is_given_up() -> None:
    scenario = Scenario().nodes("n", 2, gpu=4).queue("a").queue("b", guarantee={GPU: 4})
    scenario.gang("g", 2, gpu=4, bound=2, queue="a")
    scenario.take(scenario.decide())
    scenario.change("g", members=scenario.members("g")[:1])
    scenario.capacity_version += 1
    assert scenario.gang("owner", 4, gpu=1, queue="b").decide().placed() == ["owner"]


def test_no_more_is_evicted_than_beside_the_held_capacity() -> None:
    scenario = Scenario().nodes("n", 2, gpu=4).queue("a").queue("b", guarantee={GPU: 8})
    scenario.gang("run", 1, gpu=4, bound=1, queue="a", priority=1)
    submit(scenario, "query")
    scenario.take(scenario.decide())
    scenario.gang("owner", 8, gpu=1, queue="b")
    decided = scenario.decide()
    assert decided.evicted() == ["run-0"], "the reserved half needs no eviction"
    scenario.terminate(decided)
    assert scenario.decide().evicted() == []
    scenario.remove("run")
    assert scenario.decide().placed() == ["owner"]


def test_free_capacity_that_is_nominated_is_given_up() -> None:
    scenario = Scenario().nodes("n", 2, gpu=4).queue("a").queue("b", guarantee={GPU: 4})
    scenario.gang("low", 1, gpu=4, bound=1, queue="a").gang("high", 8, gpu=1, queue="a", priority=1)
    decided = scenario.decide()
    assert decided.evicted() == ["low-0"]
    scenario.terminate(decided).gang("owner", 4, gpu=1, queue="b")
    later = scenario.decide()
    assert later.placed() == ["owner"]


def restarting() -> Scenario:
    """Of two gangs that use half of a node each, one was moved to the other for a gang of a whole node."""
    scenario = Scenario().nodes("n", 2, gpu=4).queue("a").queue("b", guarantee={GPU: 2})
    scenario.gang("left", 1, gpu=2, queue="a", on=["n-0"]).gang("right", 1, gpu=2, queue="a", on=["n-1"])
    decided = rested(scenario.gang("large", 1, gpu=4, queue="a")).decide(ON)
    assert len(decided.evicted()) == 1
    return recreated(scenario.terminate(decided))


def test_a_moved_gang_that_has_restarted_gives_nothing_up() -> None:
    """It restarts in what was held for it; a later gang of the same cycle does not get this too."""
    decided = restarting().gang("owner", 1, gpu=2, queue="b").decide(ON)
    assert {"large", "left", "right"}.issuperset(decided.placed())
    assert len(decided.placed()) == 2


def test_surplus_of_a_moved_gang_does_not_get_the_capacity_of_its_minimum() -> None:
    scenario = restarting()
    (moved,) = [name for name in ("left", "right") if scenario.members(name)[0].node is None]
    first = scenario.members(moved)[0]
    scenario.change(moved, members=(first, replace(first, uid=PodUid("more"), name="more", index=1)))
    decided = scenario.decide(ON)
    assert len(decided.nodes(moved)) == 1


def test_what_is_reserved_counts_as_used_in_the_order_of_queues() -> None:
    """Queue a has reserved four GPUs, for a gang of lower priority; queue b uses two and goes first."""
    scenario = Scenario().nodes("n", 1, gpu=7).queue("a").queue("b")
    submit(scenario, "query", priority=-1)
    scenario.take(scenario.decide())
    scenario.gang("run", 2, gpu=1, on=("n-0", "n-0"), queue="b")
    scenario.gang("mine", 1, gpu=1, queue="a").gang("theirs", 1, gpu=1, queue="b")
    assert scenario.decide().placed() == ["theirs", "mine"]


# --- compared with the same capacity in use -----------------------------------------------------------------


class World(NamedTuple):
    """Nodes of four GPUs. Queue a has a gang of `workers`; queue b submits `owner` pods of one GPU each."""

    nodes: int
    guarantee_a: int
    guarantee_b: int
    running: list[tuple[str, int]]
    """Running gangs of queues b and c: queue and GPUs."""
    workers: int
    owner: int


worlds = st.builds(
    World,
    st.integers(1, 3),
    st.integers(0, 4),
    st.integers(1, 8),
    st.lists(st.tuples(st.sampled_from("bc"), st.integers(1, 4)), max_size=4),
    st.integers(1, 4),
    st.integers(1, 8),
)


def scenario_of(world: World) -> Scenario:
    """The gang of queue a has started with one driver, and has reserved capacity for its workers."""
    scenario = Scenario().nodes("n", world.nodes, gpu=4).queue("c")
    scenario.queue("a", guarantee={GPU: world.guarantee_a}).queue("b", guarantee={GPU: world.guarantee_b})
    free = [4] * world.nodes
    for index, (queue, gpu) in enumerate(world.running):
        node = next((node for node, amount in enumerate(free) if amount >= gpu), None)
        if node is not None:
            free[node] -= gpu
            scenario.gang(f"run{index}", 1, gpu=gpu, queue=queue, on=(f"n-{node}",))
    roles = (ROLES[0], replace(ROLES[1], count=world.workers, min_member=world.workers))
    submit(scenario, "query", roles=roles, min=world.workers + 1)
    return scenario.take(scenario.decide())


def with_running_workers(scenario: Scenario) -> Scenario:
    """The same with running workers on the nodes where capacity is held for them."""
    held = scenario.memory.compositions[GangId("gang-query")].held
    nodes = [node for node, members in held.items() for member in members for _ in range(member.count)]
    (driver,) = scenario.members("query")
    workers = [
        replace(
            driver, uid=PodUid(f"w{i}"), name=f"w{i}", role="worker", shape=WORKER, index=i + 1, node=node
        )
        for i, node in enumerate(nodes)
    ]
    return scenario.change("query", members=(driver, *workers))


def evicted_until_start(scenario: Scenario) -> set[str] | None:
    """The evicted pods until the gang of queue b starts; None if it does not start."""
    evicted: set[str] = set()
    for _ in range(5):
        decided = scenario.decide()
        evicted.update(decided.evicted())
        if "owner" in decided.placed():
            return evicted
        scenario.take(decided)
        scenario.now += 1000
    return None


@given(worlds)
@holds(60, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
def test_what_is_reserved_is_worth_no_more_than_what_is_used(world: World) -> None:
    """The oracle is the same cluster in which the members run: what evicts them there needs no eviction."""
    in_use = [gpu for queue, gpu in world.running if queue == "b"]
    assume(world.guarantee_a + world.guarantee_b <= 4 * world.nodes)
    assume(sum(in_use) + world.owner <= world.guarantee_b)
    assume(scenario_of(world).memory.compositions.get(GangId("gang-query")))
    used = with_running_workers(scenario_of(world)).gang("owner", world.owner, gpu=1, queue="b")
    found = evicted_until_start(used)
    held = evicted_until_start(scenario_of(world).gang("owner", world.owner, gpu=1, queue="b"))
    if found is not None:
        assert held is not None
        assert held <= found | {"query-0"} or len(held) <= len(found)
        if all(name in ("query-0", "w0", "w1", "w2", "w3") for name in found):
            assert not held
