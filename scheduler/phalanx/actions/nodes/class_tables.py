"""Tables of classes that outlive their session: from one cycle to the next few nodes change.

A table that is taken up again says what a new one would, so keeping them changes no decision. Not kept are
those of lenses for which more than a node's own free amounts matter, or for which these are worked out anew.
"""

from collections.abc import Hashable
from typing import Final

from phalanx.actions.limits import CLASS_TABLES_KEPT
from phalanx.actions.nodes.node_classes import ClassTable, NodeClassSpec
from phalanx.actions.nodes.node_order import NodeOrder
from phalanx.actions.nodes.resource_projection import projection_for
from phalanx.framework.session import Session
from phalanx.model.queues import Objective


class ClassTableCache:
    """The tables that were given back last. Who takes one has it alone; one that is never given back is lost.

    So an error in the middle of a change costs a table and spoils none.
    """

    def __init__(self, kept: int = CLASS_TABLES_KEPT) -> None:
        self._kept = kept
        self._known: dict[Hashable, ClassTable] = {}

    def take(self, session: Session, class_spec: NodeClassSpec, node_order: NodeOrder) -> ClassTable:
        """The table of a session through a lens that `is_cacheable`."""
        table = self._known.pop(class_spec.key, None)
        if table is None:
            return ClassTable(session, class_spec, node_order)
        table.take_up(session, class_spec, node_order)
        return table

    def give_back(self, class_spec: NodeClassSpec, table: ClassTable) -> None:
        """Nobody uses it any more in this session, which it forgets."""
        table.leave()
        self._known[class_spec.key] = table
        if len(self._known) > self._kept:
            del self._known[next(iter(self._known))]


def is_cacheable(session: Session, class_spec: NodeClassSpec) -> bool:
    """Whether another session can take up a table through this lens."""
    return (
        class_spec.ties is Objective.PACK
        and not class_spec.stamps
        and projection_for(session, class_spec.pods).are_plain
    )


TABLES: Final = ClassTableCache()
"""Those of this process."""
