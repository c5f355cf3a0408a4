"""Place a demand whose members have different claims, where it is not known which fit together.

First, everything is allowed there that is not known not to fit. If the claims of all members can have devices
where they are placed then, nothing better is possible. Else only what fits for certain is allowed. If that
does not place the whole demand, what was placed first is corrected: a node on which some members would get no
devices is from now on for the largest part of them that does, and the demand is solved again.

The bound of whatever is placed in the end is that of the first of these problems.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from phalanx.actions.demands.demand import Demand
from phalanx.actions.limits import DEVICE_DIVISIONS_MAX
from phalanx.actions.nodes.device_projection import device_projection
from phalanx.actions.problems.pod_assignment import assign_pods
from phalanx.framework.mixed_devices import RELAXED, Division
from phalanx.framework.session import Session
from phalanx.model.names import NodeName
from phalanx.model.pods import Pod
from phalanx.solver.answer import Placed

Solve = Callable[[], Placed | None]


class Divided(Struct, frozen=True):
    """An answer, and whether placements were left out that may be possible."""

    answer: Placed | None
    is_restricted: bool = False
    may_fit: bool = False
    """Whether more of the demand might fit: no way was found to divide the devices."""


def placed_with_divided_devices(session: Session, demand: Demand, solve: Solve) -> Divided:
    """The answer of `solve`, which answers for what the session assumes of nodes at the time."""
    if len({batch.pods[0].shape.device_slot for batch in demand.batches} - {""}) < 2:
        return Divided(solve())
    with session.devices.mixed.dividing(RELAXED):
        relaxed = solve()
    short = _short_of_devices(session, demand, relaxed)
    if not short and (relaxed is not None or _is_exact(session, demand)):
        return Divided(relaxed)
    best, may_fit = solve(), False
    if _count(best) < _count(relaxed):
        left = iter(range(DEVICE_DIVISIONS_MAX))
        for names in _orders(demand):
            found = _corrected(session, demand, solve, short, names, left)
            best = found if _count(found) > _count(best) else best
            if _count(best) == _count(relaxed):
                break
        may_fit = _count(best) < demand.count
    return Divided(best, is_restricted=True, may_fit=may_fit)


def _corrected(
    session: Session,
    demand: Demand,
    solve: Solve,
    short: Sequence[tuple[NodeName, Sequence[Pod]]],
    names: Sequence[str],
    left: Iterator[int],
) -> Placed | None:
    """An answer with which no node is short of devices; None if there is none within the bound.

    `names`: of needs, in the order in which their pods stay on such nodes. `left`: an element for each try.
    """
    fixed: dict[NodeName, tuple[tuple[str, int], ...]] = {}
    for _ in left:
        fixed.update({node: tuple(_largest_part(session, demand, node, pods, names)) for node, pods in short})
        division = Division(is_relaxed=True, fixed=tuple(sorted(fixed.items())))
        with session.devices.mixed.dividing(division):
            found = solve()
        if found is None:
            return None
        short = _short_of_devices(session, demand, found)
        if not short:
            return found
    return None


def _is_exact(session: Session, demand: Demand) -> bool:
    """Whether it is known on all nodes which members fit together."""
    pods = [batch.pods[0] for batch in demand.batches]
    projection = device_projection(session, pods, [len(batch.pods) for batch in demand.batches])
    return projection is None or projection.is_exact(session)


def _short_of_devices(
    session: Session, demand: Demand, answer: Placed | None
) -> list[tuple[NodeName, list[Pod]]]:
    """The nodes on which some of these pods would get no devices, each with its pods with claims."""
    on_node: dict[NodeName, list[Pod]] = {}
    for node, pods in assign_pods(session, demand, answer.assignments) if answer is not None else ():
        on_node.setdefault(node, []).extend(pod for pod in pods if pod.shape.device_slot)
    return [(node, pods) for node, pods in on_node.items() if not _have_devices(session, node, pods)]


def _have_devices(session: Session, node: NodeName, pods: Sequence[Pod]) -> bool:
    return not pods or session.devices.allocate([(node, tuple(pods))]) is not None


def _orders(demand: Demand) -> Iterator[Sequence[str]]:
    """Orders of the needs of the members: each begins with another one."""
    names = sorted({batch.pods[0].shape.device_slot for batch in demand.batches} - {""})
    for at in range(len(names)):
        yield names[at:] + names[:at]


def _largest_part(
    session: Session, demand: Demand, node: NodeName, pods: Sequence[Pod], names: Sequence[str]
) -> Iterator[tuple[str, int]]:
    """For each need, how many pods the node gets: as many of these as have devices together, and of others of
    the demand as have devices beside them."""
    everyone, chosen = [pod for batch in demand.batches for pod in batch.pods], list[Pod]()
    for some in (pods, everyone):
        for name in names:
            left = [pod for pod in some if pod.shape.device_slot == name and pod not in chosen]
            chosen += left[: _most(session, node, chosen, left)]
    for name in names:
        yield name, sum(pod.shape.device_slot == name for pod in chosen)


def _most(session: Session, node: NodeName, chosen: Sequence[Pod], others: Sequence[Pod]) -> int:
    """How many of these equal pods have devices on the node beside those that are chosen."""
    low, high = 0, len(others)
    while low < high:
        middle = (low + high + 1) // 2
        if _have_devices(session, node, [*chosen, *others[:middle]]):
            low = middle
        else:
            high = middle - 1
    return low


def _count(answer: Placed | None) -> int:
    return sum(each.count for each in answer.assignments) if answer is not None else 0
