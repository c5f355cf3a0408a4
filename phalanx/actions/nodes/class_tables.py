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
    """The tables that were used last. Whoever takes one has it until the next session takes it up."""

    def __init__(self, kept: int = CLASS_TABLES_KEPT) -> None:
        self._kept = kept
        self._known: dict[Hashable, ClassTable] = {}

    def table(self, session: Session, lens: Lens, node_order: NodeOrder) -> ClassTable:
        """The table of a session through a lens; of a session and lens it is asked for once."""
        if not _may_be_kept(session, lens):
            return ClassTable(session, lens, node_order)
        table = self._known.pop(lens.key, None)
        if table is None:
            table = ClassTable(session, lens, node_order)
        else:
            table.take_up(session, lens, node_order)
        self._known[lens.key] = table
        if len(self._known) > self._kept:
            del self._known[next(iter(self._known))]
        return table


def _may_be_kept(session: Session, lens: Lens) -> bool:
    return lens.ties is Objective.PACK and not lens.stamps and lenses_for(session, lens.pods).are_plain


TABLES: Final = ClassTables()
"""Those of this process, in which one cycle runs at a time."""
