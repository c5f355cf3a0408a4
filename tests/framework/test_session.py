"""Session and statement: changes, roll back, and forbidden transitions."""

import pytest
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.framework.statement import DoesNotFit, Statement
from phalanx.framework.states import GANG_TRANSITIONS, POD_TRANSITIONS, GangState, IllegalTransition, PodState
from phalanx.model.api.pod_groups import Disruption
from phalanx.model.charges import total_requests
from phalanx.model.decisions import Certificate
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, NodeName, QueueName
from phalanx.model.pods import Device
from phalanx.model.reasons import Reason, Verdict
from phalanx.model.resources import CPU, GPU
from phalanx.model.supplies.gpu_shares.devices import GPU_SHARE, device_name

from tests.builders import Scenario

PROOF = Certificate(terms=(), objective=(), bound=(), proven=True, by="test")
NODE = NodeName("n-0")


def opened() -> Session:
    scenario = (
        Scenario()
        .nodes("n", 2, gpu=8)
        .queue("all")
        .queue("team", parent="all")
        .gang("old", 1, gpu=2, bound=1, queue="team")
        .gang("new", 3, gpu=3, queue="team")
    )
    return Session(scenario.snapshot(), SchedulerConfig())


def gang(session: Session, name: str) -> Gang:
    return session.gangs[GangId(f"gang-{name}")]


def place(statement: Statement, gang: Gang, count: int) -> None:
    statement.place(gang=gang, assignments=[(NODE, gang.members[:count])], cause="start", certificate=PROOF)


def state_of(session: Session) -> object:
    """Everything that a statement can change, as values."""
    return (
        {node: dict(session.free(node)) for node in session.nodes},
        {pod.uid: session.pod_state(pod) for each in session.gangs.values() for pod in each.members},
        {name: session.gang_state(each) for name, each in session.gangs.items()},
        {queue.name: dict(session.ledger.usage(queue.name)) for queue in session.queues},
        session.placements,
        session.evictions,
    )


def test_a_placement_uses_capacity_and_is_charged_to_the_queue_and_its_ancestors() -> None:
    session = opened()
    with session.statement() as statement:
        place(statement, gang(session, "new"), 2)
    assert session.free(NODE)[GPU] == 0
    assert session.free(NODE)[CPU] == 61_000
    assert session.ledger.usage(QueueName("team"))[GPU] == 8
    assert session.ledger.usage(QueueName("all"))[GPU] == 8
    assert [session.pod_state(pod) for pod in gang(session, "new").members] == [
        PodState.ALLOCATED,
        PodState.ALLOCATED,
        PodState.WAITING,
    ]
    assert session.gang_state(gang(session, "new")) is GangState.PLACED
    (placement,) = session.placements
    assert [(bind.name, bind.node) for bind in placement.binds] == [("new-0", NODE), ("new-1", NODE)]
    assert (placement.group, placement.cycle, placement.cause) == ("team/new", 1, "start")


def test_an_exception_rolls_back() -> None:
    session = opened()
    before = state_of(session)
    with pytest.raises(ZeroDivisionError):
        place_evict_and_fail(session)
    assert state_of(session) == before


def place_evict_and_fail(session: Session) -> None:
    old = gang(session, "old")
    with session.statement() as statement:
        place(statement, gang(session, "new"), 1)
        statement.evict(gang=old, pods=old.members, reason="", message="")
        assert len(session.evictions) / len(session.placements) / 0


def test_a_statement_rolls_back_its_own_changes_only() -> None:
    session = opened()
    new = gang(session, "new")
    with session.statement() as statement:
        place(statement, new, 1)
    before = state_of(session)
    with session.statement() as statement:
        statement.place(gang=new, assignments=[(NODE, new.members[1:2])], cause="start", certificate=PROOF)
        statement.roll_back()
    assert state_of(session) == before


def test_the_change_log_contains_a_node_again_after_a_roll_back() -> None:
    session = opened()
    with session.statement() as statement:
        place(statement, gang(session, "new"), 1)
        seen = len(session.changed_nodes)
        statement.roll_back()
    assert session.changed_nodes[seen:] == [NODE]


def test_statements_can_be_rolled_back_in_reverse_order() -> None:
    session = opened()
    before, new = state_of(session), gang(session, "new")
    with session.statement() as first:
        place(first, new, 1)
    with session.statement() as second:
        second.place(gang=new, assignments=[(NODE, new.members[1:2])], cause="start", certificate=PROOF)
    seen = len(session.changed_nodes)
    second.roll_back()
    first.roll_back()
    assert state_of(session) == before
    assert session.changed_nodes[seen:] == [NODE, NODE]


def test_a_node_cannot_be_over_committed() -> None:
    session = opened()
    before = state_of(session)
    with pytest.raises(DoesNotFit, match="n-0"), session.statement() as statement:
        place(statement, gang(session, "new"), 3)
    assert state_of(session) == before


def _with_device_chosen(index: int) -> Session:
    """A share of 400, on devices with 600, 900 and 300 left."""
    used = {GPU_SHARE: 1200, device_name(0): 400, device_name(1): 100, device_name(2): 700}
    snapshot = Scenario().nodes("n", shared=3, used=used).gang("new", 1, share=400).snapshot()
    session = Session(snapshot, SchedulerConfig())
    new = gang(session, "new")
    chosen = {new.members[0].uid: Device(index=index, taken=400)}
    with session.statement() as statement:
        statement.place(
            gang=new, assignments=[(NODE, new.members)], cause="start", certificate=PROOF, parts=chosen
        )
    return session


def test_a_share_gets_the_device_that_was_chosen_for_it() -> None:
    (placement,) = _with_device_chosen(1).placements
    assert [bind.device for bind in placement.binds] == [Device(index=1, taken=400)]


def test_a_device_cannot_be_over_committed() -> None:
    with pytest.raises(DoesNotFit, match="GPUs of node n-0"):
        _with_device_chosen(2)


def test_a_pod_is_placed_once() -> None:
    session = opened()
    with session.statement() as statement:
        place(statement, gang(session, "new"), 1)
    with pytest.raises(IllegalTransition, match=r"team/new-0: Allocated -> Allocated"):
        place(session.statement(), gang(session, "new"), 1)


def test_only_bound_pods_are_evicted_and_they_use_capacity_until_they_are_gone() -> None:
    session = opened()
    old, new = gang(session, "old"), gang(session, "new")
    with session.statement() as statement:
        statement.evict(gang=old, pods=old.members, reason="Test", message="why")
    assert session.free(NODE)[GPU] == 6
    (eviction,) = session.evictions
    assert (eviction.name, eviction.reason, eviction.message) == ("old-0", "Test", "why")
    with pytest.raises(IllegalTransition):
        session.statement().evict(gang=new, pods=new.members, reason="", message="")


def test_a_refused_gang_is_not_placed() -> None:
    session = opened()
    new = gang(session, "new")
    session.refuse(new, Verdict(gang=new.id, group=str(new), reason=Reason.MEMBERS_MISSING, message=""))
    assert session.verdicts[new.id].reason is Reason.MEMBERS_MISSING
    with pytest.raises(IllegalTransition):
        place(session.statement(), new, 1)


def test_every_state_is_in_the_transition_tables() -> None:
    assert set(POD_TRANSITIONS) == set(PodState)
    assert set(GANG_TRANSITIONS) == set(GangState)


def give_up(session: Session, count: int) -> None:
    """Give the first pods that the cycle has placed up."""
    placed = session.gangs_after_starts[GangId("gang-new")].members[:count]
    usage = {NODE: total_requests(placed)}
    with session.statement() as statement:
        statement.give_up(gang=gang(session, "new"), pods=placed, used=usage, booked=usage)


def test_a_placement_that_is_given_up_leaves_nothing() -> None:
    session, untouched = opened(), state_of(opened())
    with session.statement() as statement:
        place(statement, gang(session, "new"), 2)
    give_up(session, 2)
    assert state_of(session) == untouched
    assert session.assigned_nodes(gang(session, "new")) == ()
    assert session.changed_nodes[-1] == NODE
    assert session.gangs_after_starts == session.gangs


def test_a_part_of_a_placement_is_given_up() -> None:
    session, other = opened(), opened()
    with session.statement() as statement:
        place(statement, gang(session, "new"), 2)
    give_up(session, 1)
    new = gang(other, "new")
    with other.statement() as statement:
        statement.place(gang=new, assignments=[(NODE, new.members[1:2])], cause="start", certificate=PROOF)
    assert state_of(session) == state_of(other)
    assert session.assigned_nodes(gang(session, "new")) == (NODE,)


def test_gangs_after_starts_are_assumed_to_be_where_the_cycle_places_them() -> None:
    session = opened()
    with session.statement() as statement:
        place(statement, gang(session, "new"), 1)
        first, *rest = session.gangs_after_starts[GangId("gang-new")].members
        assert (first.node, first.assumed) == (NODE, True)
        assert [pod.node for pod in rest] == [None, None]
        statement.roll_back()
    assert session.gangs_after_starts == session.gangs


def test_the_start_of_a_gang_that_is_not_preemptible_is_protected_while_it_stays() -> None:
    scenario = Scenario().nodes("n", gpu=2).queue("q", guarantee={GPU: 1})
    common = {"gpu": 1, "queue": "q", "disruption": Disruption(preemptible=False)}
    scenario.gang("new", 1, **common)
    session = Session(scenario.snapshot(), SchedulerConfig())
    assert session.protected_gangs == set()
    with session.statement() as statement:
        place(statement, gang(session, "new"), 1)
        assert session.protected_gangs == {"gang-new"}
        assert session.protected_gangs is session.protected_gangs
        statement.roll_back()
    assert session.protected_gangs == set()
