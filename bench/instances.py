"""Random clusters and gangs for the solver benchmarks, from a seed, and the greedy answer for comparison.

Nodes of 8 GPUs in racks of 16 to 32 and spines of 8 to 16 racks, with uneven memory and load of
daemons: 45 % are free, the others have 0 to 7 free GPUs.
"""

import random
from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace
from phalanx.actions.nodes.pod_capacity import node_capacity, pod_weights
from phalanx.model.names import NodeName
from phalanx.rules.levels import FewestDomains, SameDomain
from phalanx.rules.problem import NodeClass, PlacementProblem, RoleDemand, Rule
from phalanx.solver.arrays import assignments_of, class_rows, node_table
from phalanx.solver.objective import Scorer
from phalanx.solver.single.greedy import search
from phalanx.solver.single.scopes import scopes_of

GI = 1 << 30
RESOURCES = ("cpu", "memory", "pods", "nvidia.com/gpu")
LEVELS = ("spine", "rack")
FREE_SHARE = 0.45
LARGEST = dict(zip(RESOURCES, (180_000, 2048 * GI, 108, 8), strict=True))


def workers(
    count: int, gpus: int = 8, *, least: int | None = None, subgroups: tuple[str, ...] = ()
) -> RoleDemand:
    """Pods of `gpus` GPUs with 12 cores and 128 GiB per GPU; `least` is the minimum, by default all."""
    request = (12_000 * gpus, 128 * GI * gpus, 1, gpus)
    return RoleDemand(f"{gpus}-gpu", request, count if least is None else least, count, subgroups)


def helpers(count: int) -> RoleDemand:
    """Pods with 64 cores and no GPU."""
    return RoleDemand("cpu", (64_000, 64 * GI, 1, 0), count, count)


def instance(
    rng: random.Random,
    nodes: int,
    roles: Sequence[RoleDemand],
    rules: Sequence[Rule],
    *,
    priced: bool = False,
    seed: int = 0,
) -> PlacementProblem:
    """The problem of these roles and rules on a cluster of `nodes` nodes."""
    classes: list[NodeClass] = []
    rack = spine = 0
    while len(classes) < nodes:
        for _ in range(rng.randint(8, 16)):
            for _ in range(min(rng.randint(16, 32), nodes - len(classes))):
                path = (f"spine-{spine}", f"rack-{rack}")
                cost = rng.randint(0, 99) if priced else 0
                classes.append(_node(rng, path, len(classes), roles, cost))
            rack += 1
        spine += 1
    classes = _with_capacities(classes, [role.request for role in roles], _depth(rules))
    return PlacementProblem(RESOURCES, LEVELS, tuple(roles), tuple(classes), tuple(rules), seed=seed)


def _node(
    rng: random.Random, path: tuple[str, str], index: int, roles: Sequence[RoleDemand], cost: int
) -> NodeClass:
    gpus = 8 if rng.random() < FREE_SHARE else rng.choice((0, 0, 1, 2, 4, 7))
    cpu = 20_000 + 20_000 * gpus - rng.randint(0, 4_000)
    free = (cpu, 2048 * GI - rng.randint(0, 16 * GI), 110 - rng.randint(2, 9), gpus)
    return NodeClass(
        path=path,
        free=free,
        eligible=(True,) * len(roles),
        cost=(cost,) * len(roles),
        nodes=(NodeName(f"node-{index}"),),
    )


def _depth(rules: Sequence[Rule]) -> int:
    """How many levels, from the widest, rules about the whole gang name."""
    named = [rule.level for rule in rules if isinstance(rule, SameDomain | FewestDomains)]
    return max([LEVELS.index(level) + 1 for level in named], default=0)


def _with_capacities(
    classes: Sequence[NodeClass], requests: Sequence[tuple[int, ...]], depth: int
) -> list[NodeClass]:
    """The classes with the capacities of their domains at this depth; without depth there are none."""
    if not depth:
        return list(classes)
    named = [dict(zip(RESOURCES, request, strict=True)) for request in requests]
    weights = pod_weights(requests, named, LARGEST)
    capacity = node_capacity(RESOURCES, requests, (1,) * len(requests), weights)
    capacities: Counter[tuple[str, ...]] = Counter()
    for each in classes:
        found = capacity(each.eligible, dict(zip(RESOURCES, each.free, strict=True)))
        capacities[each.path[:depth]] += found[1] if found is not None else 0
    return [replace(each, domain_capacity=capacities[each.path[:depth]]) for each in classes]


def greedy_score(problem: PlacementProblem) -> tuple[int, ...] | None:
    """The best score of greedy search over all scopes; None when it places nothing."""
    table, scorer = node_table(class_rows(problem)), Scorer(problem)
    found = [search(table, scope) for scope in scopes_of(table, table.rows.rules.required_depth)]
    return min((scorer.score(assignments_of(table, one)) for one in found if one is not None), default=None)
