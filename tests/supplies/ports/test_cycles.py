"""Ports of nodes in whole cycles: no two pods of a node get the same port, and gangs that fit are placed."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.actions.problems.capacity_holders import assigned_pods, charged, usage_of
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.framework.statement import DoesNotFit
from phalanx.model.decisions import Certificate
from phalanx.model.names import NodeName
from phalanx.model.reasons import Reason
from phalanx.model.supplies.known import supply_of
from phalanx.model.supplies.ports import ALL_ADDRESSES, Port

from tests.builders import Scenario
from tests.examples import holds

WEB: Port = ("TCP", 80, ALL_ADDRESSES)
FIRST: Port = ("TCP", 80, "10.0.0.1")
SECOND: Port = ("TCP", 80, "10.0.0.2")
DNS: Port = ("UDP", 53, ALL_ADDRESSES)
PROOF = Certificate(terms=(), objective=(), bound=(), proven=True, by="test")


def test_each_pod_of_a_gang_gets_a_node_of_its_own() -> None:
    decided = Scenario().nodes("a", 3, gpu=8).gang("g", 3, gpu=1, ports=[WEB]).decide()
    assert decided.nodes("g") == ["a-0", "a-1", "a-2"]


def test_roles_share_nodes_unless_their_ports_conflict() -> None:
    scenario = Scenario().nodes("a", 2).gang("g", 2, role="web", ports=[WEB])
    scenario.role("g", 2, role="dns", ports=[DNS])
    decided = scenario.change("g", min_member=4).decide()
    assert decided.nodes("g") == ["a-0", "a-0", "a-1", "a-1"]


def test_a_gang_with_more_pods_than_nodes_is_reported() -> None:
    scenario = Scenario().nodes("a", 2).gang("g", 3, ports=[WEB])
    verdict = scenario.decide().verdict("g")
    assert verdict.reason is Reason.ABOVE_CLUSTER_CAPACITY
    assert verdict.message == (
        "2 of 3 pods fit the empty cluster; 3 cpu, 3Gi memory needed, and port 80 of a node for each pod"
    )
    assert verdict.next_step == "Lower minMember to 2, or add 1 node like a-0"
    assert scenario.change("g", min_member=2).decide().nodes("g") == ["a-0", "a-1"]
    assert len(scenario.change("g", min_member=3).nodes("b").decide().nodes("g")) == 3


def test_ports_of_other_schedulers_are_in_use() -> None:
    scenario = Scenario().nodes("a", 2).foreign_pod("agent", "a-1", ports=[WEB])
    verdict = scenario.gang("g", 2, ports=[WEB]).decide().verdict("g")
    assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
    assert verdict.message == "1 of 2 pods fit now; port 80 is in use on 1 node"
    assert verdict.evidence[-1].finding == "port 80 is in use"
    assert verdict.evidence[-1].count == 1


def test_the_pod_that_has_the_port_is_named() -> None:
    scenario = Scenario().nodes("a", 2).pod("old", on=["a-0"], ports=[WEB]).pod("busy", on=["a-1"], cpu=60)
    scenario.gang("g", 2, ports=[FIRST], selector={"group": "a"})
    verdict = scenario.decide().verdict("g")
    assert verdict.next_step.startswith("Wait until pod team/old ends")
    assert "pod team/old" in [each.subject for each in verdict.evidence]
    assert scenario.remove("old").decide().nodes("g") == ["a-0", "a-1"]


def test_a_gang_that_has_the_port_is_preempted_and_no_other() -> None:
    scenario = Scenario().nodes("a", 2)
    scenario.gang("other", 2, on=["a-0", "a-1"]).gang("low", 1, on=["a-1"], cpu=8, ports=[WEB])
    scenario.gang("high", 2, priority=10, ports=[WEB])
    decided = scenario.decide()
    assert decided.evicted() == ["low-0"]
    assert scenario.terminate(decided).remove("low").decide().nodes("high") == ["a-0", "a-1"]


def test_a_nomination_holds_the_free_port() -> None:
    """The port of a-0 is free. A later gang must not take it while the victim on a-1 terminates."""
    scenario = Scenario().nodes("a", 2).gang("low", 1, on=["a-1"], ports=[WEB])
    scenario.gang("high", 2, priority=10, ports=[WEB])
    scenario.terminate(scenario.decide()).gang("late", 1, ports=[WEB])
    assert scenario.decide().placed() == []
    assert scenario.remove("low").decide().placed() == ["high"]


def test_queues_are_not_charged_for_ports() -> None:
    scenario = Scenario().nodes("a", 2).queue("default").gang("g", 1, on=["a-0"], ports=[WEB])
    snapshot = scenario.gang("h", 1, ports=[WEB]).snapshot()
    session = Session(snapshot, SchedulerConfig())
    gang = next(each for each in session.gangs.values() if each.name == "h")
    with session.statement() as statement:
        statement.place(gang=gang, assignments=[(NodeName("a-1"), gang.members)], cause="", certificate=PROOF)
    charged = [name for amounts in session.ledger.amounts.values() for name in amounts]
    assert charged
    assert not any(map(supply_of, charged))
    assert any(map(supply_of, session.free(NodeName("a-1"))))


def test_held_capacity_is_charged_without_its_ports() -> None:
    members = Scenario().nodes("a", 1).gang("g", 1, on=["a-0"], ports=[WEB]).members("g")
    used = usage_of(assigned_pods(members), with_devices=True)
    assert any(map(supply_of, used[NodeName("a-0")]))
    assert charged(used) == {"a-0": members[0].shape.requests}


def test_a_statement_refuses_a_port_that_is_in_use() -> None:
    scenario = Scenario().nodes("a", 1).gang("g", 1, on=["a-0"], ports=[WEB])
    session = Session(scenario.gang("h", 1, ports=[FIRST]).snapshot(), SchedulerConfig())
    gang = next(each for each in session.gangs.values() if each.name == "h")
    with pytest.raises(DoesNotFit), session.statement() as statement:
        statement.place(gang=gang, assignments=[(NodeName("a-0"), gang.members)], cause="", certificate=PROOF)


def test_a_hold_for_a_lost_member_holds_its_port() -> None:
    """The lost member left a port on a-0. It does not exist again yet, and its node is full elsewhere."""
    scenario = Scenario().nodes("a", 2).gang("g", 2, on=["a-0", "a-1"], ports=[WEB])
    members = scenario.members("g")
    scenario.change("g", members=members[1:])
    scenario.take(scenario.decide())
    decided = scenario.gang("h", 1, ports=[WEB]).decide()
    assert decided.placed() == []


def conflict(one: Sequence[Port], other: Sequence[Port]) -> bool:
    """Whether two pods cannot be on one node, by the documentation of Kubernetes."""
    return any(
        a[:2] == b[:2] and (a[2] == b[2] or ALL_ADDRESSES in (a[2], b[2])) for a, b in product(one, other)
    )


PORTS = st.lists(st.sampled_from([WEB, FIRST, SECOND, DNS]), max_size=2, unique=True)
GANGS = st.lists(st.tuples(PORTS, st.integers(1, 2)), min_size=1, max_size=2)


@holds(40)
@given(
    there=st.lists(st.tuples(st.integers(0, 2), PORTS), max_size=4),
    nodes=st.integers(1, 3),
    gangs=st.lists(GANGS, min_size=1, max_size=2),
)
def test_gangs_are_placed_if_and_only_if_their_ports_fit(
    there: list[tuple[int, list[Port]]], nodes: int, gangs: list[list[tuple[list[Port], int]]]
) -> None:
    """The first gang is placed exactly if brute force finds nodes; no placement has a conflict."""
    scenario = Scenario().nodes("a", nodes, cpu=3)
    running = [(place % nodes, ports) for place, ports in there]
    for index, (place, ports) in enumerate(running):
        scenario.foreign_pod(f"old-{index}", f"a-{place}", ports=ports)
    wanted = []
    for index, roles in enumerate(gangs):
        (ports, count), *others = roles
        total = sum(count for _, count in roles)
        scenario.gang(f"g{index}", count, min=total, role="r0", ports=ports)
        for number, (more, size) in enumerate(others, start=1):
            scenario.role(f"g{index}", size, role=f"r{number}", ports=more)
        wanted.append([ports for ports, count in roles for _ in range(count)])
    decided = scenario.decide()
    ports = {f"g{gang}-{index}": each for gang, pods in enumerate(wanted) for index, each in enumerate(pods)}
    new = [(int(node.removeprefix("a-")), ports[pod]) for pod, node in decided.binds.items()]
    assert are_valid(new, running)
    assert ("g0" in decided.placed()) == brute_force(wanted[0], running, nodes)


Placed = Sequence[tuple[int, Sequence[Port]]]
"""Nodes and the ports of pods there."""


def are_valid(new: Placed, running: Placed) -> bool:
    """Whether each node has three cores for them, and ports conflict at most between pods that run."""
    pairs = [*combinations(new, 2), *product(new, running)]
    cores = Counter(node for node, _ in new)
    return all(count <= 3 for count in cores.values()) and not any(
        one[0] == other[0] and conflict(one[1], other[1]) for one, other in pairs
    )


def brute_force(wanted: Sequence[Sequence[Port]], running: Placed, nodes: int) -> bool:
    """Whether some assignment to nodes is valid."""
    choices = product(range(nodes), repeat=len(wanted))
    return any(are_valid(list(zip(places, wanted, strict=True)), running) for places in choices)
