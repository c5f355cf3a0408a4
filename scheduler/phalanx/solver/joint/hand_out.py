"""Hands out the counted pods of a joint solution to gangs: assignments from counts."""

from collections.abc import Mapping, Sequence

from phalanx.model.names import NodeName
from phalanx.rules.problem import Assignment
from phalanx.solver.joint.arrays import JointArrays
from phalanx.solver.joint.model import Inside, Solution
from phalanx.solver.joint.problem import JointAssignment

Slots = list[list[int]]
"""Pods not yet handed out, by [node, pod class]."""

Taken = dict[tuple[int, int], int]
"""Pods by node (position) and pod class."""


def hand_out(arrays: JointArrays, solution: Solution) -> JointAssignment:
    """Return the assignments of each admitted gang.

    The innermost demands come first: the others can take what those leave anywhere.
    """
    slots: Slots = solution.found.counts.tolist()
    row = arrays.table.row[solution.found.nodes]
    names = [arrays.table.names[node] for node in solution.found.nodes.tolist()]
    given: dict[int, dict[tuple[int, NodeName], int]] = {gang: {} for gang in solution.admitted}
    numbers = [n for n, role_set in enumerate(arrays.role_sets) if role_set.gang in given]
    for number in sorted(numbers, key=lambda number: -solution.depths[number]):
        role_set, depth = arrays.role_sets[number], solution.depths[number]
        domains = arrays.table.rows.domain[depth - 1][row].tolist() if depth else [0] * len(slots)
        demands = solution.demands[number] if depth else _anywhere(role_set.counts)
        taken: Taken = {}
        for domain, wanted in _by_domain(demands).items():
            lines = [line for line, here in enumerate(domains) if here == domain]
            _take(lines, wanted, slots, taken)
        roles = arrays.problem.gangs[role_set.gang].roles
        left = {role: roles[role].count for role in role_set.roles}
        for (line, pod_class), count in taken.items():
            for role in role_set.roles:
                some = min(count, left[role]) if roles[role].pod_class == pod_class else 0
                left[role] -= some
                count -= some
                if some:
                    given[role_set.gang][role, names[line]] = some
    return {
        gang: tuple(Assignment(role, node, count) for (role, node), count in sorted(pods.items()))
        for gang, pods in given.items()
    }


def _anywhere(counts: Sequence[int]) -> dict[Inside, int]:
    return {(0, pod_class): count for pod_class, count in enumerate(counts)}


def _by_domain(demands: Mapping[Inside, int]) -> dict[int, dict[int, int]]:
    domains: dict[int, dict[int, int]] = {}
    for (domain, pod_class), count in demands.items():
        if count:
            domains.setdefault(domain, {})[pod_class] = count
    return domains


def _take(lines: Sequence[int], wanted: dict[int, int], slots: Slots, taken: Taken) -> None:
    """Take slots of these nodes, the fullest nodes first."""
    for line in sorted(lines, key=lambda line: -sum(slots[line][kind] for kind in wanted)):
        for kind, missing in wanted.items():
            count = min(missing, slots[line][kind])
            if count:
                slots[line][kind] -= count
                wanted[kind] -= count
                taken[line, kind] = taken.get((line, kind), 0) + count
