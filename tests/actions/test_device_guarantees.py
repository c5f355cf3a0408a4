"""Guarantees, fair shares and evictions count devices of claims as they count devices of device plugins."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from phalanx.actions.consolidation.movable_gangs import demand_of_recreated
from phalanx.actions.nodes.shared_charges import _claims_of
from phalanx.cache.events import Applied, Assumed, Deleted
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.charges import total_charges
from phalanx.model.decisions import CycleResult
from phalanx.model.memory import Memory
from phalanx.model.reasons import Reason

from tests.actions.test_device_limits import (
    EIGHT,
    IMPLICIT,
    Parts,
    allocated,
    claim,
    claiming,
    exactly,
    first_of,
    in_queue,
    member,
    used,
)
from tests.actions.test_extended_resources import GPU, Play, device_class, gang, node, slice_on, written
from tests.builders import as_bound
from tests.cache.world import take_snapshot
from tests.examples import holds

DEVICES = "stuvwxyz"


def queue(name: str, guarantee: int = 0, limit: int | None = None, of: str = GPU, **more: Any) -> Applied:
    spec: Parts = {
        "guarantee": {of: guarantee},
        **({"limit": {of: limit}} if limit is not None else {}),
        **more,
    }
    return written("Queue", name, metadata={"namespace": ""}, spec=spec)


def running(
    name: str, devices: Sequence[str], queue: str, *, priority: int = 0, shared: bool = False
) -> list[Applied]:
    """A gang that runs on node a: each member has some of these devices, or all of them share the first."""
    found = [written("PodGroup", name, spec={"minMember": len(devices), "queue": queue})]
    users = tuple(f"{name}-{index}" for index in range(len(devices)))
    labels = {"scheduling.phalanx.dev/pod-group": name}
    for index, some in enumerate(devices):
        pod, of = users[index], f"{name}-0-gpu" if shared else f"{name}-{index}-gpu"
        entry = {"name": "gpu", "resourceClaimName": of}
        found.append(member(pod, entry, labels=labels, phase="Running", nodeName="a", priority=priority))
        if not shared or not index:
            found.append(allocated(of, exactly(len(some)), devices=some, users=users if shared else (pod,)))
    return found


def evicted(found: CycleResult) -> list[str]:
    return sorted({each.name.rpartition("-")[0] for each in found.evictions})


def report(found: CycleResult, queue: str) -> tuple[int, int, int]:
    """Guarantee, fair share and usage of GPUs."""
    each = found.queues[queue]
    return tuple(part.get(GPU, 0) for part in (each.guarantee, each.fair_share, each.allocated))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("sizes", "guarantee", "victims"),
    [
        (["stuv", "wxyz"], 4, 1),
        (["stuv", "wxyz"], 2, 0),
        (["st", "uv", "wx", "yz"], 4, 2),
        (["st", "uv", "wx", "yz"], 2, 0),
        (["s", "t", "u", "v", "w", "x", "y", "z"], 4, 4),
    ],
)
def test_a_gang_takes_back_the_devices_that_its_queue_is_guaranteed(
    sizes: list[str], guarantee: int, victims: int
) -> None:
    gangs = [event for number, some in enumerate(sizes) for event in running(f"r{number}", [some], "r")]
    play = Play(queue("q", guarantee), queue("r", weight=100), *EIGHT, *gangs, *claiming("g", 1, exactly(4)))
    found = play.decide()
    assert len(evicted(found)) == victims
    assert report(found, "q")[0] == guarantee
    assert report(found, "r")[2] == 8


Gangs = list[tuple[int, int, str]]
"""The size of each gang, the devices of each member, and the queue."""
gangs = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), st.sampled_from("qr")), max_size=4)
amounts = st.one_of(st.none(), st.integers(0, 8))
queues = st.tuples(st.integers(1, 3), st.integers(0, 6), amounts)


def with_claims(runs: Gangs, waits: Gangs) -> list[Applied]:
    left, made = iter(DEVICES), list[Applied]()
    for number, (size, count, of) in enumerate(runs):
        made += running(f"r{number}", ["".join(islice(left, count)) for _ in range(size)], of)
    for number, (size, count, of) in enumerate(waits):
        made += claiming(f"w{number}", size, exactly(count), queue=of)
    return [*EIGHT, *made]


def with_a_plugin(runs: Gangs, waits: Gangs) -> list[Applied]:
    made: list[Applied] = [node("a", gpu=8)]
    for number, (size, count, of) in enumerate(runs):
        events = in_queue(gang(f"r{number}", size, gpu=count), of)
        made += [events[0], *(on_node(each) for each in events[1:])]
    for number, (size, count, of) in enumerate(waits):
        made += in_queue(gang(f"w{number}", size, gpu=count), of)
    return made


def on_node(event: Applied) -> Applied:
    pod: Any = event.object
    spec, status = structs.replace(pod.spec, node_name="a"), structs.replace(pod.status, phase="Running")
    return Applied(structs.replace(pod, spec=spec, status=status))


def of_gangs(found: CycleResult) -> tuple[Any, ...]:
    placed = sorted(each.group for each in found.placements)
    return placed, bool(found.evictions), [report(found, name)[2] for name in "qr"]


@holds(8)
@given(gangs, gangs, queues, queues)
def test_decisions_are_those_about_devices_of_device_plugins(
    runs: Gangs, waits: Gangs, first: Any, second: Any
) -> None:
    total = list(accumulate(size * count for size, count, _ in runs))
    runs = runs[: sum(each <= 8 for each in total)]
    tree = [queue(name, each[1], each[2], weight=each[0]) for name, each in (("q", first), ("r", second))]
    found = [Play(*tree, *make(runs, waits)).decide() for make in (with_claims, with_a_plugin)]
    assert len({tuple(report(each, name)[:2] for name in "qr") for each in found}) == 1
    if len(waits) <= 1:  # starts with claims are not given up for other gangs in the same cycle
        assert of_gangs(found[0]) == of_gangs(found[1])


@pytest.mark.parametrize("size", [1, 2, 4])
def test_gangs_of_every_size_are_covered_by_the_guarantee_as_a_whole(size: int) -> None:
    """A gang within the guarantee of its queue stays. One beyond it is evicted for one within another's."""
    parts = [[some[at::size] for at in range(size)] for some in (DEVICES[:4], DEVICES[4:])]
    gangs = [*running("first", parts[0], "r"), *running("second", parts[1], "r")]
    asks = claiming("g", size, exactly(4 // size))
    play = Play(queue("q", 4), queue("r", 4), *EIGHT, *gangs, *asks)
    assert len(evicted(play.decide())) == 1
    play = Play(queue("q", 4), queue("r", 8), *EIGHT, *gangs, *asks)
    assert not evicted(play.decide()), "both guarantees are scaled down to what there is"


def test_devices_are_divided_among_queues_by_their_weights() -> None:
    waiting = [
        event
        for name in "qr"
        for n in range(4)
        for event in claiming(f"{name}{n}", 1, exactly(2), queue=name)
    ]
    play = Play(queue("q", weight=3), queue("r"), *EIGHT, *waiting)
    found = play.decide()
    assert [report(found, name)[1] for name in "qr"] == [6, 2]
    starts = [str(each.queue) for each in found.placements]
    assert (starts.count("q"), starts.count("r")) == (3, 1)


def test_a_claim_that_pods_share_counts_once_for_shares_and_victims() -> None:
    gangs = [*running("first", ["stuv", "stuv", "stuv"], "r", shared=True), *running("second", ["wxyz"], "r")]
    play = Play(queue("q", 4), queue("r", 4), *EIGHT, *gangs, *claiming("g", 1, exactly(4)))
    assert used(play, "r") == 8
    found = play.decide()
    assert report(found, "r") == (4, 4, 8)
    assert len(evicted(found)) == 1


@pytest.mark.parametrize(("limit", "victims"), [(4, ["low"]), (8, [])])
def test_a_gang_evicts_in_its_queue_what_its_limit_needs(limit: int, victims: list[str]) -> None:
    low = running("low", ["stuv"], "q", priority=-1)
    play = Play(queue("q", limit=limit), *EIGHT, *low, *claiming("g", 1, exactly(4)))
    found = play.decide()
    assert evicted(found) == victims
    assert bool(found.placements) is (not victims)


def sharing(name: str, of: str, *, own: int = 0, **more: Any) -> list[Applied]:
    """A gang of one pod that shares a claim, and has another one of its own."""
    labels = {"scheduling.phalanx.dev/pod-group": name}
    entries: list[Parts] = [{"name": "shared", "resourceClaimName": of}]
    entries += [{"name": "gpu", "resourceClaimTemplateName": "t"}] if own else []
    pod = member(f"{name}-0", *entries, made=f"{name}-0-gpu" if own else "", labels=labels, **more)
    claims = [claim(f"{name}-0-gpu", exactly(own), owner=f"{name}-0")] if own else []
    return [written("PodGroup", name, spec={"minMember": 1, "queue": "q"}), pod, *claims]


@pytest.mark.parametrize(("limit", "starts"), [(4, 0), (7, 0), (8, 1)])
def test_no_gang_is_evicted_for_a_claim_that_its_beneficiary_would_be_charged_for(
    limit: int, starts: int
) -> None:
    low = running("low", ["stuv"], "q", priority=-1)
    play = Play(queue("q", limit=limit), *EIGHT, *low, *sharing("g", "low-0-gpu", own=4))
    found = play.decide()
    assert (evicted(found), len(found.placements)) == ([], starts)


def test_no_gang_is_evicted_for_a_claim_that_another_user_would_be_charged_for() -> None:
    """Only if both users are evicted, the queue is charged for less."""
    for priority, victims in [(3, []), (-1, ["one", "two"])]:
        *one, _ = running("one", ["stuv"], "q", priority=-1)
        given = allocated("one-0-gpu", exactly(4), devices="stuv", users=("one-0", "two-0"))
        bound = {"phase": "Running", "nodeName": "a", "created": 5, "priority": priority}
        two = sharing("two", "one-0-gpu", **bound)
        play = Play(queue("q", limit=4), *EIGHT, *one, given, *two, *claiming("g", 1, exactly(4)))
        assert used(play) == 4
        assert evicted(play.decide()) == victims


@pytest.mark.parametrize("shared", [False, True])
def test_a_gang_that_is_moved_stays_charged_for_its_claims(shared: bool) -> None:
    """Its claims lose their devices with the present pods, for which the queue is charged until then."""
    devices = ["st", "st"] if shared else ["s", "t"]
    parts = running("g", devices, "q", shared=shared)
    session = Session(take_snapshot(Play(queue("q"), *EIGHT, *parts).cache), SchedulerConfig())
    [found] = session.gangs.values()
    assert total_charges(found.members)[GPU] == 2
    demand = demand_of_recreated(found, found.members, session)
    assert total_charges(demand.gang.members)[GPU] == 2


def test_a_start_that_is_given_up_does_not_leave_its_claim_uncharged() -> None:
    parts = claim("c", exactly(4)), *sharing("g", "c"), *sharing("h", "c")
    session = Session(take_snapshot(Play(queue("q", limit=4), *EIGHT, *parts).cache), SchedulerConfig())
    first, second = sorted(session.gangs.values(), key=lambda each: each.name)
    [state] = session.nodes
    with session.statement() as trial:
        trial.hold_capacity(gang=first, assignments=[(state, first.members)])
        assert _claims_of(second, session) == {}
        used_there = {state: total_charges(first.members)}
        trial.assume_ended(queue=first.queue, used=used_there, booked=used_there, gone=first.members)
        assert list(_claims_of(second, session).values()) == [{GPU: 4}]
        trial.roll_back()


def test_devices_of_two_classes_with_one_resource_are_one_capacity() -> None:
    parts = (node("a"), device_class("gpu", GPU), device_class("fast", GPU), slice_on("a", "x", "y"))
    fast = slice_on("a", "f0", driver="fast")
    play = Play(
        queue("q", 9), *parts, fast, *claiming("g", 1, exactly(1)), *claiming("h", 1, exactly(of="fast"))
    )
    found = play.decide()
    assert report(found, "q") == (3, 2, 2)


def test_devices_that_several_nodes_can_use_do_not_reduce_other_shares() -> None:
    """They must not keep a queue from cores."""
    spec: Parts = {
        "driver": "nic",
        "allNodes": True,
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
    }
    nics = written("ResourceSlice", "nics", spec={**spec, "devices": [{"name": "n0"}]})
    play = Play(queue("q"), *EIGHT, nics, *claiming("g", 1, exactly(of="nic")))
    found = play.decide()
    assert len(found.placements) == 1
    assert found.queues["q"].fair_share == {"cpu": 1000, f"{IMPLICIT}nic": 1, "pods": 1}
    assert found.queues["q"].allocated == {"cpu": 1000, f"{IMPLICIT}nic": 1, "pods": 1}


def test_a_gang_that_is_not_preemptible_starts_within_the_guarantee() -> None:
    asks = claiming("g", 1, exactly(3))
    asks[0] = written(
        "PodGroup", "g", spec={"minMember": 1, "queue": "q", "disruption": {"preemptible": False}}
    )
    play = Play(queue("q", 2), *EIGHT, *asks)
    assert [each.reason for each in play.decide().verdicts] == [Reason.ABOVE_QUEUE_LIMIT]
    play.apply(queue("q", 3))
    assert len(play.place()) == 1


def test_the_usage_of_the_past_counts_devices() -> None:
    play = Play(queue("q"), *EIGHT, *running("g", ["st"], "q"), claim("c", exactly()))
    assert take_snapshot(play.cache).queue_usage
    assert play.decide().queues["q"].allocated[GPU] == 2


# --- gangs that wait for evictions, or with a reserved start ------------------------------------------------

NOW = 1_800_000_000_000


def decide(play: Play, before: CycleResult | None = None, *, later_s: int = 0) -> CycleResult:
    """The first cycle knows that the scheduler has bound the pods that run."""
    memory = before.memory if before is not None else Memory()
    snapshot = play.cache.snapshot(now=NOW + later_s * 1000, seed=3, memory=memory)
    if before is None:
        bound = {name: as_bound(gang) for name, gang in snapshot.gangs.items() if gang.active}
        snapshot = structs.replace(snapshot, memory=structs.replace(memory, records=bound))
    return play.engine.decide(snapshot)


def with_runtime(events: list[Applied], minutes: int, queue: str = "q") -> list[Applied]:
    group: Any = events[0].object
    spec: Parts = {"minMember": group.spec.min_member, "queue": queue, "runtime": {"max": f"{minutes}m"}}
    return [written("PodGroup", group.metadata.name, spec=spec), *events[1:]]


@pytest.mark.parametrize(("limit", "starts"), [(4, False), (5, True)])
def test_a_gang_is_charged_while_its_victims_terminate(limit: int, starts: bool) -> None:
    """Another gang of the queue must not use the part of the limit that the gang will need."""
    theirs = running("r", [DEVICES], "r")
    play = Play(queue("q", 4, limit), queue("r"), *EIGHT, *theirs, *claiming("g", 1, exactly(4)))
    first = decide(play)
    assert evicted(first) == ["r"]
    play.apply(node("b"), slice_on("b", "b0"), *claiming("h", 1, exactly(1)))
    second = decide(play, first, later_s=1)
    assert [each.group for each in second.placements] == (["team/h"] if starts else [])


@pytest.mark.parametrize(("minutes", "starts"), [(5, True), (600, False)])
def test_a_reserved_start_keeps_the_devices_of_the_limit(minutes: int, starts: bool) -> None:
    """The limit is what delays the gang: the node has enough devices and cores for all."""
    held = with_runtime(running("r", ["st"], "q"), 60)
    play = Play(
        queue("q", limit=4, backfill="Easy"), *EIGHT, *held, *with_runtime(claiming("g", 1, exactly(4)), 60)
    )
    first = decide(play)
    assert first.verdicts[0].start is not None
    play.apply(*with_runtime(claiming("h", 1, exactly(2)), minutes))
    second = decide(play, first, later_s=1)
    assert [each.group for each in second.placements] == (["team/h"] if starts else [])


@pytest.mark.parametrize(("limit", "starts"), [(5, False), (6, True)])
def test_a_queue_stays_charged_for_the_devices_of_lost_members(limit: int, starts: bool) -> None:
    """The new member gets a claim like that of the lost one."""
    group, *members = claiming("g", 2, exactly(2))
    play = Play(queue("q", limit=limit), *EIGHT, group, *on_nodes(members, "st", "uv"))
    first = decide(play)
    play.apply(Deleted("Pod", "team", "g-1"), Deleted("ResourceClaim", "team", "g-1-gpu"))
    second = decide(play, first, later_s=1)
    assert used(play) == 2
    play.apply(*claiming("h", 1, exactly(2)))
    third = decide(play, second, later_s=2)
    assert [each.group for each in third.placements] == (["team/h"] if starts else [])
    play.apply(*claiming("g", 2, exactly(2))[3:])
    assert [each.group for each in decide(play, third, later_s=3).placements][:1] == ["team/g"]


def on_nodes(members: list[Applied], *devices: str) -> Iterator[Applied]:
    """The pods and their claims, on node a with these devices."""
    for pod, claimed, some in zip(members[::2], members[1::2], devices, strict=True):
        running: Any = on_node(pod)
        given: Any = allocated(
            claimed.object.metadata.name,
            exactly(len(some)),
            devices=some,
            users=(running.object.metadata.name,),
        )
        yield running
        yield Applied(structs.replace(claimed.object, status=given.object.status))


def test_a_gang_starts_when_another_one_has_got_fewer_devices_than_were_counted() -> None:
    """Until they are allocated, the largest of the alternatives counts."""
    asks = claiming("g", 1, first_of((1, "gpu"), (4, "gpu")))
    play = Play(queue("q", limit=4), *EIGHT, *asks, *claiming("h", 1, exactly(1)))
    first = decide(play)
    assert [each.group for each in first.placements] == ["team/g"]
    for each in first.placements[0].binds:
        play.apply(Assumed(each, "q"))
    assert [each.group for each in decide(play, first, later_s=1).placements] == ["team/h"]
