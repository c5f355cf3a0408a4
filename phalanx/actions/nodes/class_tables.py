"""Tables of classes that outlive their session: from one cycle to the next few nodes change.

A table that is taken up again says what a new one would, so keeping them changes no decision. Not kept are
those of lenses for which more than a node's own free amounts matter, or for which these are worked out anew.
"""

from collections.abc import Hashable
from typing import Final

from phalanx.actions.limits import CLASS_TABLES_KEPT
from phalanx.actions.nodes.classes import ClassTable, Lens
from phalanx.actions.nodes.lenses import lenses_for
from phalanx.actions.nodes.node_order import NodeOrder
from phalanx.framework.session import Session
from phalanx.model.queues import Objective


class ClassTables:
    """The tables that were given back last. Who takes one has it alone; one that is never given back is lost.

    So an error in the middle of a change costs a table and spoils none.
    """

    def __init__(self, kept: int = CLASS_TABLES_KEPT) -> None:
        self._kept = kept
        self._known: dict[Hashable, ClassTable] = {}

    def take(self, session: Session, lens: Lens, node_order: NodeOrder) -> ClassTable:
        """The table of a session through a lens that `may_be_kept`."""
        table = self._known.pop(lens.key, None)
        if table is None:
            return ClassTable(session, lens, node_order)
        table.take_up(session, lens, node_order)
        return table

    def give_back(self, lens: Lens, table: ClassTable) -> None:
        """Nobody uses it any more in this session, which it forgets."""
        table.leave()
        self._known[lens.key] = table
        if len(self._known) > self._kept:
            del self._known[next(iter(self._known))]


def may_be_kept(session: Session, lens: Lens) -> bool:
    """Whether another session can take up a table through this lens."""
    return lens.ties is Objective.PACK and not lens.stamps and lenses_for(session, lens.pods).are_plain


TABLES: Final = ClassTables()
"""Those of this process."""
