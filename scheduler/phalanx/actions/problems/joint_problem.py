"""Build the joint problem of many gangs, with the placements of some of them as a warm start."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.demands.demand import (
    Batch,
    Demand,
    batch_key,
    has_affinity_terms,
    has_preferred_terms,
    without_affinity_terms,
)
from phalanx.actions.nodes.fullness import Fullness
from phalanx.actions.nodes.gang_constraints import GangConstraints, constraints_of
from phalanx.actions.nodes.node_classes import ClassTable, NodeClassSpec
from phalanx.actions.nodes.pod_capacity import Vector
from phalanx.actions.nodes.resource_projection import is_safety
from phalanx.actions.problems.placement import DemandPlacement
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.framework.session import Session
from phalanx.framework.statement import DoesNotFit
from phalanx.model.charges import total_requests
from phalanx.model.names import GangId, NodeName, PodUid, ShapeKey
from phalanx.model.pods import Device, Pod, PodShape
from phalanx.model.resources import Resources, add
from phalanx.model.supplies.known import contradictions, requests_parts
from phalanx.model.supplies.supply import NO_PARTS, Parts
from phalanx.rules.problem import Assignment, Rule
from phalanx.solver.joint.problem import GangDemand, GangRole, JointAssignment, JointProblem, PodClass

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
    *,
    exactly: bool = True,
) -> WarmStartedProblem:
    """The problem to admit others of the largest total value, and all placed demands but the `optional` ones.

    The session must not contain the placed demands. Each demand is whole, starts from nothing, and uses the
    same topology if any. The value of a gang is its dominant share of the cluster, in millionths. Among
    solutions of equal value, the one that keeps more placed gangs is better. Not `exactly`: rules that the
    model cannot state are left out, so that a solution is only a proposal.
    """
    demands = [*(placement.demand for placement in placed), *others]
    if not exactly:
        demands = _without_mutual_affinity(demands)
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
            rules=tuple([rule for rule in constraints.rules if exactly or _is_stated(rule, session)]),
            value=_value(demand, total) * (len(demands) + 1) + (index < len(placed)),
            must_admit=index < len(placed) and demand.gang.id not in optional,
        )
        for index, (demand, constraints) in enumerate(zip(demands, constraints_of_all, strict=True))
    )
    problem = JointProblem(
        resources=table.resources,
        levels=deepest.levels,
        pod_classes=tuple(
            PodClass(pod.name, request if exactly else _without_safety(request, table.resources))
            for pod, request in zip(kinds.values(), table.requests, strict=True)
        ),
        gangs=gangs,
        classes=table.classes(sum(demand.count for demand in demands)),
        seed=session.snapshot.seed,
    )
    return WarmStartedProblem(
        problem, {index: solver_assignments(placement) for index, placement in enumerate(placed)}
    )


def is_modelled(demand: Demand, session: Session) -> bool:
    """Whether the joint model states all rules of the demand exactly.

    It does not know affinity between pods, spread constraints, a second topology, and devices of claims;
    what several nodes have of a supply together; and parts of nodes that are counted with some safety.
    """
    shapes = [batch.pods[0].shape for batch in demand.batches]
    if has_affinity_terms(demand) or has_preferred_terms(demand):
        return False
    if any(session.topologies.other_of(demand.gang, part) for part in demand.gang.subgroups):
        return False
    if any(each.project(shapes) for each in session.supplies):
        return False
    return not session.facts.are_estimated(shapes)


def _without_mutual_affinity(demands: Sequence[Demand]) -> list[Demand]:
    """The demands; pods that require others of these demands near them have no terms."""
    matched = [{number for batch in demand.batches for number in _matched_by(batch)} for demand in demands]
    found = []
    for index, demand in enumerate(demands):
        others = set[int]().union(*(numbers for place, numbers in enumerate(matched) if place != index))
        batches = [
            without_affinity_terms(batch) if _required_number(batch) in others else batch
            for batch in demand.batches
        ]
        found.append(replace(demand, batches=tuple(batches)))
    return found


def _matched_by(batch: Batch) -> tuple[int, ...]:
    state = batch.pods[0].shape.affinity_state
    return () if state is None else state.matched_by


def _required_number(batch: Batch) -> int | None:
    state = batch.pods[0].shape.affinity_state
    return None if state is None else state.affinity


def _is_stated(rule: Rule, session: Session) -> bool:
    """Whether the joint model knows the rule.

    It knows no affinity, no levels of a second topology, and not what several nodes have together.
    """
    return not rule.keys and session.supply_of(rule) is None


def _without_safety(request: Vector, resources: Sequence[str]) -> Vector:
    """The request without amounts that keep pods apart which might fit together."""
    return tuple([0 if is_safety(name) else need for name, need in zip(resources, request, strict=True)])


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
        constraints=replace(deepest, rules=(), anchors=(), keys=()),
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


def chooses_parts(demand: Demand) -> bool:
    """Whether a pod requests a part of a node that must be chosen."""
    return any(requests_parts(batch.pods[0].shape.requests) for batch in demand.batches)


def are_compatible(demands: Iterable[Demand]) -> list[bool]:
    """For each demand, whether its pods can be placed together with the compatible ones before it."""
    known: list[tuple[PodShape, str]] = []
    compatible = []
    for demand in demands:
        own = [(batch.pods[0].shape, "") for batch in demand.batches]
        compatible.append(not any(contradictions([*known, *own])))
        known += own if compatible[-1] else []
    return compatible


def with_parts(session: Session, placements: Sequence[DemandPlacement]) -> list[DemandPlacement] | None:
    """Assign parts of nodes to the pods of all placements together; None if that fails.

    The session must not contain the placements. Assigning one gang after the other is not enough: small
    shares could take the parts that larger ones need.
    """
    assignments = [assigned for placement in placements for assigned in placement.assignments]
    try:
        with session.statement() as statement:
            parts = statement.choose_parts(assignments, NO_PARTS)
    except DoesNotFit:
        return None
    return [replace(placement, parts=_own(placement, parts)) for placement in placements]


def _own(placement: DemandPlacement, parts: Parts) -> dict[PodUid, Device]:
    uids = [pod.uid for _, pods in placement.assignments for pod in pods]
    return {uid: parts[uid] for uid in uids if uid in parts}
