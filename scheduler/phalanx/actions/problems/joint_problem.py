"""Build the joint problem of many gangs, with the placements of some of them as a warm start."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand, batch_key
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


class WarmStartedProblem(Struct, frozen=True):
    """A joint problem and the assignment of its first gangs, which are already placed."""

    problem: JointProblem
    start: JointAssignment


def joint_problem(
    session: Session,
    problems: ProblemBuilder,
    placed: Sequence[DemandPlacement],
    others: Sequence[Demand],
    optional: Collection[GangId] = (),
) -> WarmStartedProblem:
    """The problem to admit others of the largest total value, and all placed demands but the `optional` ones.

    The session must not contain the placed demands. Each demand is whole, starts from nothing, and uses the
    same topology if any. The value of a gang is its dominant share of the cluster, in millionths. Among
    solutions of equal value, the one that keeps more placed gangs is better.
    """
    demands = [*(placement.demand for placement in placed), *others]
    constraints_of_all = [constraints_of(session, demand.gang) for demand in demands]
    kinds = _kinds(demands)
    deepest = max(constraints_of_all, key=lambda constraints: len(constraints.levels))
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
        for index, (demand, constraints) in enumerate(zip(demands, constraints_of_all, strict=True))
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
    return WarmStartedProblem(
        problem, {index: solver_assignments(placement) for index, placement in enumerate(placed)}
    )


def topology_of(session: Session, demand: Demand) -> str | None:
    """The topology whose levels constrain the demand; None if there is none."""
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
    """The node classes for these pods; budgets do not matter, since the joint problem counts whole gangs."""
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


def solver_assignments(placement: DemandPlacement) -> tuple[Assignment, ...]:
    """The assignments of a placement as the solver states them, by the number of the batch."""
    gang, batches = placement.demand.gang, placement.demand.batches
    parts = {batch_key(gang, batch.pods[0]): index for index, batch in enumerate(batches)}
    counts: Counter[tuple[int, NodeName]] = Counter()
    for node, pods in placement.assignments:
        for pod in pods:
            counts[parts[batch_key(gang, pod)], node] += 1
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
    """Whether a pod requests a share of a GPU."""
    return any(requests_share(batch.pods[0].shape.requests) for batch in demand.batches)


def have_compatible_shares(demands: Iterable[Demand]) -> list[bool]:
    """For each demand, whether its shares are compatible with those of the compatible demands before it."""
    known: set[Share] = set()
    compatible = []
    for demand in demands:
        asked = (share_of(batch.pods[0].shape.requests) for batch in demand.batches)
        own = {share for share in asked if share is not None}
        compatible.append(incompatible_shares(known | own) is None)
        known |= own if compatible[-1] else set()
    return compatible


def with_devices(session: Session, placements: Sequence[DemandPlacement]) -> list[DemandPlacement] | None:
    """Assign devices to the shares of all placements together; None if that fails.

    The session must not contain the placements. Assigning one gang after the other is not enough: small
    shares could take the devices that larger ones need.
    """
    assignments = [assigned for placement in placements for assigned in placement.assignments]
    try:
        with session.statement() as statement:
            devices = statement.choose_devices(assignments, NO_DEVICES)
    except DoesNotFit:
        return None
    return [replace(placement, devices=_own(placement, devices)) for placement in placements]


def _own(placement: DemandPlacement, devices: Devices) -> dict[PodUid, Device]:
    uids = [pod.uid for _, pods in placement.assignments for pod in pods]
    return {uid: devices[uid] for uid in uids if uid in devices}
