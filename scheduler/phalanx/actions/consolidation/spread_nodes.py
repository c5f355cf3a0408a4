"""The nodes that spread constraints exclude for one moved pod while everything else stays."""

from typing import Final

from phalanx.actions.consolidation.movable_gangs import Movable
from phalanx.actions.nodes.gang_constraints import constraints_of
from phalanx.framework.nodes.affinity import label_value
from phalanx.framework.session import Session
from phalanx.model.names import NodeName

NO_NODES: Final = frozenset[NodeName]()


def outside_spread(session: Session, unit: Movable) -> frozenset[NodeName]:
    """The nodes where the new pod may not be, for a gang of one pod; none for larger gangs."""
    if len(unit.pods) > 1 or not unit.pods[0].shape.spread:
        return NO_NODES
    with session.statement() as trial:
        trial.assume_ended(queue=unit.gang.queue, used={}, booked={}, gone=unit.pods)
        rules = constraints_of(session, unit.demand.gang).rules
        trial.roll_back()
    shape = unit.demand.batches[0].pods[0].shape.key
    full = [values for rule in rules for values in rule.full(shape).items()]
    return frozenset(
        name
        for name, state in session.nodes.items()
        if any(label_value(state.node.labels, key) in values for key, values in full)
    )
