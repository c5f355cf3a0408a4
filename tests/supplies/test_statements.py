"""What supplies change in a session: statements undo it."""

from collections.abc import Sequence

import pytest
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.framework.statement import SharedLacking
from phalanx.model.decisions import Bind, Certificate
from phalanx.model.names import NodeName, PodUid
from phalanx.model.pods import Assignments
from phalanx.model.supplies.supply import SessionSupply, SupplyLacking, Write

from tests.builders import Scenario

PROOF = Certificate(terms=(), objective=(), bound=(), proven=True, by="test")


class Passes(SessionSupply):
    """Remembers which pods have one."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken: dict[PodUid, NodeName] = {}

    def take(self, binds: list[Bind], assignments: Assignments, write: Write) -> list[Bind]:
        if len(self.taken) + len(binds) > self.most:
            raise SupplyLacking("too few")
        for bind in binds:
            write(self.taken, bind.pod, bind.node, (bind.node,))
        return binds

    def give_up(self, binds: Sequence[Bind], write: Write) -> None:
        for bind in binds:
            write(self.taken, bind.pod, NodeName(""))


def session_with(supply: SessionSupply) -> Session:
    session = Session(Scenario().nodes("a", 2, gpu=8).gang("g", 2, gpu=1).snapshot(), SchedulerConfig())
    session.supplies = (supply,)
    return session


def test_a_rollback_restores_what_a_supply_changed() -> None:
    passes = Passes(2)
    session = session_with(passes)
    (gang,), node = session.gangs.values(), NodeName("a-0")
    with session.statement() as statement:
        statement.place(gang=gang, assignments=[(node, gang.members)], cause="", certificate=PROOF)
        assert passes.taken == {pod.uid: node for pod in gang.members}
        before = len(session.changed_nodes)
        statement.roll_back()
    assert passes.taken == {}
    assert node in session.changed_nodes[before:], "what nodes have is another amount again"
    assert not session.placements


def test_a_placement_that_a_supply_refuses_changes_nothing() -> None:
    passes = Passes(1)
    session = session_with(passes)
    (gang,) = session.gangs.values()
    assignments = [(NodeName("a-0"), gang.members)]
    with pytest.raises(SharedLacking, match="too few"), session.statement() as statement:
        statement.place(gang=gang, assignments=assignments, cause="", certificate=PROOF)
    assert passes.taken == {}
    assert session.free(NodeName("a-0")) == session.nodes[NodeName("a-0")].free
