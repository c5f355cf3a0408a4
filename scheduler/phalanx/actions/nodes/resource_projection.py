"""Project what pods need of supplies to amounts that add up: the solver knows no parts of nodes.

What consists of parts, or is known to the session, is projected by its supply (`OpenSupply.project`,
`SessionSupply.project`). Of other supplies every node offers the same, so nodes do not list it; the
projection adds it. What queues are charged for devices of claims is projected too (`charge_projection`).
"""

from collections.abc import Callable, Sequence

from phalanx.actions.nodes.charge_projection import charge_projection
from phalanx.framework.session import Session
from phalanx.model.names import NodeName
from phalanx.model.pods import Pod
from phalanx.model.resources import Resources
from phalanx.model.supplies.joined import projections_in
from phalanx.model.supplies.known import projected, supply_of
from phalanx.model.supplies.supply import Projection


def is_safety(resource: str) -> bool:
    """Whether the amount keeps pods of several kinds apart that might fit together."""
    supply = supply_of(resource)
    return supply is not None and supply.is_safety(resource)


FreeAmounts = Callable[[NodeName], Resources]


def projections_for(session: Session, pods: Sequence[Pod]) -> tuple[Projection, ...]:
    """The projections for these pods, one of each kind that is placed together."""
    shapes = [pod.shape for pod in pods]
    parts = [supply.project(shapes) for supply in session.facts.needed_supplies(shapes)]
    charges = charge_projection(pods)
    return (*session.projections(shapes), *parts, *((charges,) if charges is not None else ()))


def free_amounts(projections: Sequence[Projection], session: Session) -> FreeAmounts:
    """The projected free amounts of each node of the session."""
    if not projections:
        return session.free
    here = projections_in(session.supplies, projections)
    return lambda node: projected(here, session.nodes[node], session.free(node))
