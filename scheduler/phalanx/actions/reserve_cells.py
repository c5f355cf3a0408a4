"""Choose the domains that are reserved as cells in this cycle.

A domain may be a cell of a queue if no other queue holds anything in it: no pods, and no nominated or held
capacity. All guaranteed cells are reserved, or as many of them as possible. The choice holds for the whole
cycle. No other queue places pods in a reserved cell, so as many cells can be reserved in the next cycle.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from phalanx.actions.context import Cycle
from phalanx.framework.nodes.cells import ReservedCell, ReservedCells
from phalanx.framework.nodes.topology import Path, domain_name
from phalanx.framework.session import Session
from phalanx.model.names import NodeName, QueueName
from phalanx.model.queues import Cell, Queue
from phalanx.model.reasons import Objection, Reason
from phalanx.solver.cells import CellCandidate, CellDemand, choose_cells


class _Guarantee(Struct, frozen=True):
    """One entry of the cells of a queue, with the domains that qualify."""

    queue: Queue
    cell: Cell
    domains: tuple[tuple[Path, tuple[NodeName, ...]], ...]


def execute(cycle: Cycle) -> None:
    """Reserve the cells of all queues that have some."""
    session = cycle.session
    if not any(queue.cells for queue in session.queues):
        return
    held = _held(session)
    lacking: dict[QueueName, list[Objection]] = {}
    guarantees: list[_Guarantee] = []
    for queue in session.queues:
        for cell in queue.cells:
            domains = _domains(cell, session)
            if domains is None:
                lacking.setdefault(queue.name, []).append(_no_level(cell))
            else:
                guarantees.append(_Guarantee(queue, cell, _open_to(queue, domains, held, session)))
    index = {node: position for position, node in enumerate(session.nodes)}
    demands = [
        CellDemand(
            each.cell.count,
            tuple(_option(each.queue, nodes, index, held, session) for _, nodes in each.domains),
        )
        for each in guarantees
    ]
    kept: list[ReservedCell] = []
    for each, taken in zip(guarantees, choose_cells(demands, seed=session.snapshot.seed), strict=True):
        kept.extend(_kept(each, taken))
        if len(taken) < each.cell.count:
            lacking.setdefault(each.queue.name, []).append(_too_few(each.cell, len(taken)))
    session.reserve_cells(ReservedCells(tuple(kept), {name: tuple(found) for name, found in lacking.items()}))


def _held(session: Session) -> dict[NodeName, set[QueueName]]:
    """The queues that hold something on each node."""
    held: dict[NodeName, set[QueueName]] = {}
    for queue, node in _uses(session):
        held.setdefault(node, set()).add(queue)
    return held


def _uses(session: Session) -> Iterator[tuple[QueueName, NodeName]]:
    for queue, usage in session.snapshot.queue_usage.items():
        yield from ((queue, node) for node, amounts in usage.items() if any(amounts.values()))
    for gang_id, nomination in session.snapshot.memory.nominations.items():
        gang = session.gangs.get(gang_id)
        if gang is not None and session.snapshot.now < nomination.until:
            yield from ((nomination.queue or gang.queue, node) for node in nomination.usage)
    for move in session.snapshot.memory.moves.values():
        yield from ((move.queue, node) for node in move.usage)


def _domains(cell: Cell, session: Session) -> dict[Path, list[NodeName]] | None:
    """All domains of the level; None if there is no such level."""
    topology = session.topologies.named(cell.topology)
    levels = [level.name for level in topology.levels] if topology is not None else []
    if topology is None or cell.level not in levels:
        return None
    depth = levels.index(cell.level) + 1
    found: dict[Path, list[NodeName]] = {}
    for node, path in session.topologies.paths(topology).items():
        if len(path) >= depth:
            found.setdefault(path[:depth], []).append(node)
    return found


def _open_to(
    queue: Queue, domains: dict[Path, list[NodeName]], held: dict[NodeName, set[QueueName]], session: Session
) -> tuple[tuple[Path, tuple[NodeName, ...]], ...]:
    """The domains in which no other queue holds anything and that have an available node."""
    return tuple(
        (path, tuple(nodes))
        for path, nodes in sorted(domains.items())
        if all(_is_of(other, queue, session) for node in nodes for other in sorted(held.get(node, ())))
        and any(node not in session.faults for node in nodes)
    )


def _is_of(other: QueueName, queue: Queue, session: Session) -> bool:
    """Whether it is the queue or a descendant."""
    return any(each.name == queue.name for each in session.queues.path(other))


def _option(
    queue: Queue,
    nodes: Sequence[NodeName],
    index: dict[NodeName, int],
    held: dict[NodeName, set[QueueName]],
    session: Session,
) -> CellCandidate:
    return CellCandidate(
        nodes=tuple(sorted(index[node] for node in nodes)),
        used_nodes=sum(node in held for node in nodes),
        unavailable_nodes=sum(node in session.faults for node in nodes),
    )


def _kept(guarantee: _Guarantee, taken: Sequence[int]) -> Iterator[ReservedCell]:
    for option in taken:
        path, nodes = guarantee.domains[option]
        yield ReservedCell(guarantee.queue.name, guarantee.cell.level, domain_name(path), frozenset(nodes))


def _no_level(cell: Cell) -> Objection:
    where = f"topology {cell.topology}" if cell.topology else "the default topology"
    return Objection(
        Reason.TOPOLOGY_NOT_FOUND, f"spec.cells[{cell.level}]: {where} has no level {cell.level}"
    )


def _too_few(cell: Cell, kept: int) -> Objection:
    verb = "is" if kept == 1 else "are"
    return Objection(
        Reason.QUEUE_INVALID,
        f"spec.cells[{cell.level}]: {kept} of {cell.count} {verb} reserved; others use or reserve the rest",
    )
