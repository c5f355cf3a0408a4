"""Turns demands of many gangs, and where some of them lie so far, into one joint problem for the solver."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand
from phalanx.actions.nodes.fullness import Fullness
from phalanx.actions.nodes.gang_constraints import GangConstraints, constraints_of
from phalanx.actions.nodes.node_classes import ClassTable, NodeClassSpec
from phalanx.actions.problems.placement import DemandPlacement
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.framework.session import Session
from phalanx.framework.statement import DoesNotFit, total_requests
from phalanx.model.gpu_shares import NO_DEVICES, Devices, Share, incompatible_shares, requests_share, share_of
from phalanx.model.names import GangId, NodeName, PodUid, ShapeKey
from phalanx.model.pods import Device, Pod
from phalanx.model.resources import Resources, add
from phalanx.solver.joint.problem import GangDemand, GangRole, JointAssignment, JointProblem, PodClass
from phalanx.solver.problem import Assignment

_MILLION = 1_000_000


class Question(Struct, frozen=True):
    """The problem, and the arrangement of the gangs that were placed, which come first in it."""

    problem: JointProblem
    start: JointAssignment


def together(
    session: Session,
    problems: ProblemBuilder,
    placed: Sequence[DemandPlacement],
    others: Sequence[Demand],
    optional: Collection[GangId] = (),
) -> Question:
    """Admit as many of the others as add most value, and all that were placed but the `optional` ones.

    The session is without what was placed. Each demand is whole, from nothing, and in the same topology if in
    any. A gang is worth the share of the cluster that it takes, in millionths, of the resource where that is
    largest; of answers that are worth as much, the one that keeps more of the placed ones is better.
    """
    demands = [*(placing.demand for placing in placed), *others]
    frames = [constraints_of(session, demand.gang) for demand in demands]
    kinds = _kinds(demands)
    deepest = max(frames, key=lambda constraints: len(constraints.levels))
    table = _table(session, problems, demands, kinds, deepest)
    number = {shape: index for index, shape in enumerate(kinds)}
    total = _allocatable(session)
    gangs = tuple(
        GangDemand(
            name=str(demand.gang),
            roles=tuple(
                GangRole(
                    pod_class=number[batch.pods[0].shape.key],
                    count=len(batch.pods),
                    subgroups=constraints.ancestor_chains.get(batch.subgroup, ()),
                )
                for batch in demand.batches
            ),
            rules=constraints.rules,
            value=_value(demand, total) * (len(demands) + 1) + (index < len(placed)),
            must_admit=index < len(placed) and demand.gang.id not in optional,
        )
        for index, (demand, constraints) in enumerate(zip(demands, frames, strict=True))
    )
    problem = JointProblem(
        resources=table.resources,
        levels=deepest.levels,
        pod_classes=tuple(
            PodClass(pod.name, request) for pod, request in zip(kinds.values(), table.requests, strict=True)
        ),
        gangs=gangs,
        classes=table.classes(sum(demand.count for demand in demands)),
        seed=session.snapshot.seed,
    )
    return Question(problem, {index: _assignments(each) for index, each in enumerate(placed)})


def topology_of(session: Session, demand: Demand) -> str | None:
    """The topology whose levels matter to the demand; None when none do."""
    constraints = constraints_of(session, demand.gang)
    return constraints.topology.name if constraints.topology is not None and constraints.levels else None


def _kinds(demands: Iterable[Demand]) -> dict[ShapeKey, Pod]:
    """One pod of each shape."""
    kinds: dict[ShapeKey, Pod] = {}
    for demand in demands:
        for batch in demand.batches:
            kinds.setdefault(batch.pods[0].shape.key, batch.pods[0])
    return kinds


def _table(
    session: Session,
    problems: ProblemBuilder,
    demands: Sequence[Demand],
    kinds: dict[ShapeKey, Pod],
    deepest: GangConstraints,
) -> ClassTable:
    """All nodes as these pods see them; budgets tell no nodes apart, since gangs are counted as a whole."""
    counts: Counter[ShapeKey] = Counter()
    for demand in demands:
        for batch in demand.batches:
            counts[batch.pods[0].shape.key] += len(batch.pods)
    class_spec = NodeClassSpec(
        pods=tuple(kinds.values()),
        at_most=tuple(min(counts[shape], problems.most_on_one_node(pod)) for shape, pod in kinds.items()),
        constraints=replace(deepest, rules=(), anchors=()),
    )
    return ClassTable(session, class_spec, Fullness(session))


def _assignments(placing: DemandPlacement) -> tuple[Assignment, ...]:
    batches = placing.demand.batches
    parts = {(batch.subgroup, batch.pods[0].shape.key): index for index, batch in enumerate(batches)}
    counts: Counter[tuple[int, NodeName]] = Counter()
    for node, pods in placing.seats:
        for pod in pods:
            counts[parts[pod.subgroup, pod.shape.key], node] += 1
    return tuple(Assignment(role, node, count) for (role, node), count in sorted(counts.items()))


def _allocatable(session: Session) -> Resources:
    total: Resources = {}
    for state in session.nodes.values():
        total = add(total, state.node.allocatable)
    return total


def _value(demand: Demand, total: Resources) -> int:
    pods = [pod for batch in demand.batches for pod in batch.pods]
    used = total_requests(pods)
    shares = [amount * _MILLION // total[name] for name, amount in used.items() if total.get(name, 0) > 0]
    return max(1, *shares) if shares else 1


def has_shares(demand: Demand) -> bool:
    """Whether some pod asks for a share."""
    return any(requests_share(batch.pods[0].shape.requests) for batch in demand.batches)


def have_compatible_shares(demands: Iterable[Demand]) -> list[bool]:
    """Per demand, whether its shares go together with those of the ones before of which this is so."""
    known: set[Share] = set()
    add_up = []
    for demand in demands:
        asked = (share_of(batch.pods[0].shape.requests) for batch in demand.batches)
        own = {share for share in asked if share is not None}
        add_up.append(incompatible_shares(known | own) is None)
        known |= own if add_up[-1] else set()
    return add_up


def with_devices(session: Session, placings: Sequence[DemandPlacement]) -> list[DemandPlacement] | None:
    """The same placings, the shares of all of them on one node dealt together; None where that cannot be.

    The session is without them. One gang after the other would not do: small shares could take what larger
    ones need.
    """
    seats = [seat for placing in placings for seat in placing.seats]
    try:
        with session.statement() as statement:
            devices = statement.choose_devices(seats, NO_DEVICES)
    except DoesNotFit:
        return None
    return [replace(each, devices=_own(each, devices)) for each in placings]


def _own(placing: DemandPlacement, devices: Devices) -> dict[PodUid, Device]:
    uids = [pod.uid for _, pods in placing.seats for pod in pods]
    return {uid: devices[uid] for uid in uids if uid in devices}
