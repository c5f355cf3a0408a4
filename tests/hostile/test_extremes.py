"""Extreme combinations of valid objects: sums beyond 64 bits, thousands of objects and fields."""

import json
from collections.abc import Iterable
from typing import Any

from phalanx.framework.session import Session
from phalanx.limits import AMOUNT_MAX
from phalanx.model.decisions import CycleResult
from phalanx.model.names import LABEL_POD_GROUP, LABEL_QUEUE, NodeName, QueueName
from phalanx.model.reasons import Reason
from phalanx.model.snapshot import Snapshot
from phalanx.rules.problem import Assignment, NodeClass, PlacementProblem, RoleDemand
from phalanx.solver.checker import _count_violations
from phalanx_plugins.drf import DominantShare, DrfArguments

from tests.hostile.harness import CONFIG, Cluster, add_healthy, check_healthy, event, misconfigured

Object = tuple[str, dict[str, Any]]


def node(name: str, **allocatable: str) -> Object:
    return "Node", {"metadata": {"name": name, "uid": name}, "status": {"allocatable": allocatable}}


def pod(name: str, requests: dict[str, str], *, labels: dict[str, str] | None = None, at: str = "") -> Object:
    meta = {"name": name, "namespace": "team", "uid": name, "labels": labels or {}}
    spec = {"schedulerName": "phalanx", "priority": 0, "containers": [{"resources": {"requests": requests}}]}
    status = {"phase": "Running" if at else "Pending"}
    return "Pod", {"metadata": meta, "spec": {**spec, "nodeName": at}, "status": status}


def pod_group(members: int) -> Object:
    meta = {"name": "g", "namespace": "team", "uid": "g"}
    return "PodGroup", {"metadata": meta, "spec": {"minMember": members}}


def queue(name: str, parent: str) -> Object:
    return "Queue", {"metadata": {"name": name, "uid": name}, "spec": {"parent": parent}}


async def decided(objects: Iterable[Object]) -> tuple[Cluster, Snapshot, CycleResult]:
    """Run a cycle over these objects and the healthy gangs, which must be placed; then delete everything."""
    cluster = Cluster()
    add_healthy(cluster)
    for kind, document in objects:
        cluster.send(kind, event("ADDED", json.dumps(document).encode()))
    await cluster.deliver()
    snapshot, result = cluster.cycle()
    check_healthy(snapshot, result)
    await cluster.delete_everything()
    return cluster, snapshot, result


async def test_usage_stays_within_64_bits() -> None:
    """3,000 pods of 9 EiB each exceed 64 bits; after their deletion no usage is left."""
    objects = [node("full", cpu="1", pods="5000")]
    objects += [pod(f"p{index}", {"memory": "9E"}, at="full") for index in range(3000)]
    _, snapshot, _ = await decided(objects)
    state = snapshot.nodes[NodeName("full")]
    assert state.used["memory"] == AMOUNT_MAX
    assert state.free["memory"] == -AMOUNT_MAX


async def test_a_node_with_thousands_of_resources_delays_no_gang() -> None:
    """Their common denominator had hundreds of thousands of digits: a cycle took half a minute."""
    amounts = {f"example.com/{index}": "9E" for index in range(5000)}
    objects = [node("many", cpu="8", pods="9", **amounts), pod("p", {"cpu": "1"}, at="many")]
    _, snapshot, _ = await decided(objects)
    session = Session(snapshot, CONFIG)
    plugin = DominantShare(DrfArguments())
    plugin.open(session)
    _, share = plugin.queue_order(snapshot.queues[QueueName("default")], session)
    assert share > 0
    assert share.denominator.bit_length() < 64


async def test_too_many_resource_names_in_a_pod_are_reported() -> None:
    """The search for victims and the comparison of shares took half a second in a cycle."""
    requests = {f"example.com/{index}": "1" for index in range(5000)}
    _, _, result = await decided([pod("p", requests)])
    assert misconfigured(result) == {Reason.INVALID_OBJECT: 1}
    told = "pod p: spec: requests 5000 resources, expected at most 256"
    assert [verdict.message for verdict in result.verdicts] == [told]


async def test_a_gang_of_10001_members_exceeds_the_limit() -> None:
    members = [pod(f"p{n}", {"cpu": "1"}, labels={LABEL_POD_GROUP: "g"}) for n in range(10_001)]
    _, _, result = await decided([pod_group(10_001), *members])
    assert misconfigured(result) == {Reason.ABOVE_CLUSTER_CAPACITY: 1}


async def test_10001_invalid_members_have_one_verdict() -> None:
    members = [pod(f"p{n}", {"cpu": f"x{n}"}, labels={LABEL_POD_GROUP: "g"}) for n in range(10_001)]
    _, snapshot, result = await decided([pod_group(10_001), *members])
    assert misconfigured(result) == {Reason.INVALID_OBJECT: 1}
    assert max(len(gang.problems) for gang in snapshot.gangs.values()) <= 8


async def test_a_long_cycle_of_queues_has_a_short_message() -> None:
    """The message of each queue had the names of all: a thousand times a thousand names."""
    ring = [queue(f"q{index}", f"q{(index + 1) % 1000}") for index in range(1000)]
    waiting = pod("p", {"cpu": "1"}, labels={LABEL_QUEUE: "q0"})
    _, _, result = await decided([*ring, waiting])
    assert misconfigured(result) == {Reason.QUEUE_INVALID: 1}
    assert all(len(verdict.message) < 300 for verdict in result.verdicts)
    assert "q1, q2" in next(verdict.message for verdict in result.verdicts)


def test_checking_an_assignment_of_many_roles_takes_linear_time() -> None:
    """The check of a gang with 10,001 different members took seconds in each cycle."""
    roles = 300
    nodes = (NodeName("n"),)
    group = NodeClass(nodes=nodes, free=(roles,), path=(), eligible=(True,) * roles, cost=(0,) * roles)
    problem = PlacementProblem(
        resources=("cpu",),
        levels=(),
        roles=tuple(RoleDemand(name=f"r{each}", request=(1,), minimum=1, maximum=1) for each in range(roles)),
        classes=(group,),
    )
    looks = 0

    class Counted(tuple[Assignment, ...]):
        def __iter__(self) -> Any:
            nonlocal looks
            looks += 1
            return super().__iter__()

    assignments = Counted(Assignment(role=each, node=nodes[0], count=1) for each in range(roles))
    assert not list(_count_violations(problem, assignments))
    assert looks == 1
    assert len(list(_count_violations(problem, assignments[:-2]))) == 2
