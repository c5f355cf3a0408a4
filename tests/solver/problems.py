"""Small random problems for property tests, and helpers to build a problem by hand."""

from collections.abc import Callable, Sequence

from hypothesis import HealthCheck
from hypothesis import strategies as st
from msgspec import structs
from phalanx.model.names import NodeName, ShapeKey
from phalanx.rules.affinity import AffinityRule, PodAffinityRule, PodAntiAffinityRule
from phalanx.rules.anchors import NOWHERE, Anchor, SubgroupAnchor
from phalanx.rules.budget import Budget
from phalanx.rules.levels import FewestDomains, SameDomain
from phalanx.rules.other_topologies import OtherTopologyDomain, OtherTopologyFewest
from phalanx.rules.problem import NodeClass, PlacementProblem, RoleDemand, Rule
from phalanx.rules.subgroups import SubgroupDomain, SubgroupFewest, SubgroupRule, SubgroupSegments
from phalanx.rules.topology_spread import TopologySpreadRule

from tests.examples import Test, holds

LEVELS = ("zone", "spine", "rack")
RESOURCES = ("cpu", "nvidia.com/gpu")
NODES = tuple(NodeName(name) for name in "abcd")


def bounded(examples: int) -> Callable[[Test], Test]:
    """`holds` for problems, some of which are large."""
    return holds(examples, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def role(name: str, request: Sequence[int], minimum: int, maximum: int | None = None) -> RoleDemand:
    """A role; rigid unless a maximum is given."""
    most = minimum if maximum is None else maximum
    return RoleDemand(name=name, request=tuple(request), minimum=minimum, maximum=most)


def node(
    name: str,
    free: Sequence[int],
    path: Sequence[str] = (),
    *,
    roles: int = 1,
    eligible: Sequence[bool] | None = None,
    cost: Sequence[int] | None = None,
    budgets: Sequence[int] = (),
) -> NodeClass:
    """A class of one node, eligible for every role at no cost unless given otherwise."""
    may = tuple(eligible) if eligible is not None else (True,) * max(roles, len(cost or ()))
    return NodeClass(
        path=tuple(path),
        free=tuple(free),
        eligible=may,
        cost=tuple(cost) if cost is not None else (0,) * len(may),
        nodes=(NodeName(name),),
        budgets=tuple(budgets),
    )


@st.composite
def problems(draw: st.DrawFn, *, roles: int = 3, pods: int = 6) -> PlacementProblem:
    """At most 4 nodes, `pods` pods and `roles` roles, with every kind of rule, cost, budget and anchor."""
    levels = LEVELS[: draw(st.integers(2, 3))]
    demands = draw(_roles(roles, pods))
    split = draw(st.sampled_from(((1, 1, 1, 1), (1, 2, 1), (2, 2), (4,), (1, 1, 1), (1, 1), (2,), (1,), ())))
    starts = [sum(split[:index]) for index in range(len(split))]
    members = [NODES[start : start + size] for start, size in zip(starts, split, strict=True)]
    budgets = draw(st.lists(_budget(members), max_size=2))
    priced = draw(st.booleans())
    classes = tuple(
        NodeClass(
            path=draw(_path(len(levels))),
            free=tuple(draw(st.integers(2, 12)) for _ in RESOURCES),
            eligible=tuple(draw(st.sampled_from((True,) * 5 + (False,))) for _ in demands),
            cost=tuple(draw(st.integers(0, 3)) if priced else 0 for _ in demands),
            nodes=nodes,
            budgets=_counting(budgets, nodes),
        )
        for nodes in members
    )
    return draw(
        _with_capacities(
            PlacementProblem(
                resources=RESOURCES,
                levels=levels,
                roles=demands,
                classes=classes,
                rules=(*draw(_topology(levels)), *_named(budgets)),
                anchors=draw(_anchors(classes, len(levels))),
            )
        )
    )


@st.composite
def _with_capacities(draw: st.DrawFn, problem: PlacementProblem) -> PlacementProblem:
    """With no capacity, with that for pods of the first role or sometimes more, or with any capacity."""
    kind = draw(st.sampled_from(("none", "pods", "pods", "more", "any")))
    asked = [rule.level for rule in problem.rules if isinstance(rule, SameDomain | FewestDomains)]
    depth = max((problem.levels.index(level) + 1 for level in asked), default=0)
    if kind == "none" or not depth:
        return problem
    capacities: dict[tuple[str, ...], int] = {}
    alone: list[int] = []
    for group in problem.classes:
        fits = _fits(group, problem.roles[0], 0)
        capacity = draw(st.integers(0, 3)) if kind == "any" else fits
        capacity += draw(st.sampled_from((0, 0, 1, 4))) if kind == "more" else 0
        domain = group.path[:depth]
        alone.append(capacity)
        capacities[domain] = capacities.get(domain, 0) + capacity * len(group.nodes)
    return structs.replace(
        problem,
        classes=tuple(
            structs.replace(
                group,
                domain_capacity=capacities[group.path[:depth]] if len(group.path) >= depth else alone[index],
            )
            for index, group in enumerate(problem.classes)
        ),
    )


def _fits(group: NodeClass, role: RoleDemand, index: int) -> int:
    counts = (free // need for free, need in zip(group.free, role.request, strict=True) if need)
    return min(counts, default=6) if group.eligible[index] else 0


@st.composite
def subgroup_problems(draw: st.DrawFn) -> PlacementProblem:
    """Up to three roles in up to three subgroups, one nested, with required and preferred levels."""
    problem = draw(problems(roles=3, pods=6))
    tree = {"a": ("a",), "b": ("b",), "c": ("a", "c")}
    roles = tuple(
        structs.replace(role, subgroups=tree.get(draw(st.sampled_from(("a", "b", "c", ""))), ()))
        for role in problem.roles
    )
    used = sorted({name for role in roles for name in role.subgroups}) or ["a"]
    subgroup_rule = _subgroup_rule(used, problem.levels)
    subgroup_rules = draw(st.lists(subgroup_rule, max_size=3, unique_by=lambda one: one.name))
    preferred = [
        SubgroupFewest(f"{name} in few", name, draw(st.sampled_from(problem.levels)))
        for name in used
        if draw(st.booleans())
    ]
    anchors = tuple(
        SubgroupAnchor(draw(st.sampled_from("abc")), anchor.path, draw(st.integers(1, 2)), anchor.node)
        for anchor in draw(_anchors(problem.classes, len(problem.levels)))
    )
    rules = (*problem.rules, *subgroup_rules, *preferred)
    problem = structs.replace(problem, roles=roles, rules=rules, subgroup_anchors=anchors)
    return draw(_with_subgroup_capacities(problem))


@st.composite
def _with_subgroup_capacities(draw: st.DrawFn, problem: PlacementProblem) -> PlacementProblem:
    """With any capacity of the domains of the levels that subgroups name, or with none."""
    asked = [rule.level for rule in problem.rules if isinstance(rule, SubgroupRule | SubgroupFewest)]
    if not asked or draw(st.booleans()):
        return problem
    capacities: dict[tuple[str, ...], int] = {}
    classes = []
    for group in problem.classes:
        here = []
        for level in sorted({problem.levels.index(level) for level in asked}):
            own = draw(st.integers(0, 5))
            path = group.path[: level + 1]
            here.append((level, capacities.setdefault(path, own) if len(group.path) > level else own))
        classes.append(structs.replace(group, subgroup_capacities=tuple(here)))
    return structs.replace(problem, classes=tuple(classes))


TOPOLOGIES = {"ring": ("row", "ring"), "power": ("feed",)}
"""Further topologies with their levels, the widest first."""


@st.composite
def two_tree_problems(draw: st.DrawFn) -> PlacementProblem:
    """Problems of subgroups, of which some name levels of one or two further topologies."""
    problem = draw(subgroup_problems())
    used = sorted({name for role in problem.roles for name in role.subgroups}) or ["a"]
    rules: list[OtherTopologyDomain | OtherTopologyFewest] = []
    for name in used:
        topology = draw(st.sampled_from(sorted(TOPOLOGIES)))
        level = draw(st.integers(0, len(TOPOLOGIES[topology]) - 1))
        levels = TOPOLOGIES[topology][: level + 1]
        if draw(st.booleans()):
            existing = draw(st.sampled_from(((), (), (("/x", 1),), (("/y", 2),), (("", 1),))))
            size = draw(st.sampled_from((0, 0, 1, 2, 3)))
            rules.append(OtherTopologyDomain(f"{name} near", name, topology, levels[-1], size, existing))
        if draw(st.booleans()):
            there = tuple(draw(st.sampled_from(((), (), ("/x",), ("a",)))) for _ in levels)
            more = tuple((*values, *draw(st.sampled_from(((), ("b",))))) for values in there)
            rules.append(OtherTopologyFewest(f"{name} few", name, topology, levels, there, more))
    keys = {
        key for rule in rules for key in ([rule.key] if isinstance(rule, OtherTopologyDomain) else rule.keys)
    }
    return _labelled(draw, problem, rules, tuple(sorted(keys)))


def _labelled(
    draw: st.DrawFn, problem: PlacementProblem, rules: Sequence[Rule], keys: tuple[str, ...]
) -> PlacementProblem:
    """The problem with these rules and keys; a node in no domain that prefers one is a domain of its own."""
    classes = []
    for group in problem.classes:
        drawn = [draw(st.sampled_from(("/x", "/x", "/y", "/y", ""))) for _ in keys]
        alone = any(not value and key.endswith("node") for key, value in zip(keys, drawn, strict=True))
        for nodes in [(node,) for node in group.nodes] if alone else [group.nodes]:
            values = [
                value or nodes[0] * key.endswith("node") for key, value in zip(keys, drawn, strict=True)
            ]
            classes.append(structs.replace(group, nodes=nodes, label_values=tuple(values)))
    return structs.replace(problem, rules=(*problem.rules, *rules), keys=keys, classes=tuple(classes))


@st.composite
def affinity_problems(draw: st.DrawFn) -> PlacementProblem:
    """Up to three roles with pod affinity or anti-affinity by a node label or by host."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    demands = [
        RoleDemand(f"role-{index}", (size,), least, least + draw(st.sampled_from((0, 0, 1))), (), f"{index}")
        for index, size in enumerate(sizes)
        for least in (draw(st.integers(1, 2)),)
    ]
    split = draw(st.sampled_from(((1, 1, 1, 1), (2, 1, 1), (2, 2), (3, 1), (4,))))
    priced = draw(st.booleans())
    classes = [
        NodeClass(
            path=draw(st.sampled_from((("r0",), ("r1",), ()))),
            free=(draw(st.integers(2, 6)),),
            eligible=(True,) * len(sizes),
            cost=tuple(draw(st.integers(0, 2)) if priced else 0 for _ in sizes),
            nodes=NODES[sum(split[:index]) : sum(split[: index + 1])],
            label_values=(draw(st.sampled_from(("x", "x", "y", "y", "z", ""))),),
        )
        for index in range(len(split))
    ]
    affinity = draw(st.lists(_affinity_rule([one.shape for one in demands]), min_size=1, max_size=2))
    rules = [structs.replace(rule, name=f"affinity {index}") for index, rule in enumerate(affinity)]
    preferred = (FewestDomains("preferred", "rack"),) if draw(st.booleans()) else ()
    problem = PlacementProblem(
        ("cpu",), ("rack",), tuple(demands), tuple(classes), (*preferred, *rules), keys=("row",)
    )
    return draw(_with_capacities(problem))


@st.composite
def _affinity_rule(draw: st.DrawFn, shapes: Sequence[str]) -> AffinityRule:
    some = st.sets(st.sampled_from([ShapeKey(shape) for shape in shapes]), min_size=1)
    owners, others = tuple(sorted(draw(some))), tuple(sorted(draw(some)))
    if draw(st.booleans()):
        return _spread_rule(draw, owners, others, shapes)
    if draw(st.booleans()):
        return PodAntiAffinityRule("", draw(st.sampled_from(("row", "host"))), owners, others)
    existing = draw(st.sampled_from(((), (), ("x",), ("w",))))
    starters = () if existing else tuple(shape for shape in owners if draw(st.booleans()))
    return PodAffinityRule(
        "", "row", owners, tuple(one for one in others if one not in owners), existing, starters
    )


def _spread_rule(
    draw: st.DrawFn, owners: tuple[ShapeKey, ...], others: tuple[ShapeKey, ...], shapes: Sequence[str]
) -> TopologySpreadRule:
    """With domains that no node of the problem has, and nodes of which the rule lists no domain."""
    existing = draw(st.dictionaries(st.sampled_from("xyzw"), st.integers(0, 3), max_size=4))
    return TopologySpreadRule(
        "",
        "row",
        owners,
        draw(st.sampled_from((others, owners))),
        tuple(sorted(existing.items())),
        draw(st.integers(1, 2)),
        draw(st.sampled_from((1, 1, 2, 4))),
    )


@st.composite
def _subgroup_rule(draw: st.DrawFn, subgroups: Sequence[str], levels: Sequence[str]) -> SubgroupRule:
    subgroup, level = draw(st.sampled_from(subgroups)), draw(st.sampled_from(levels))
    name = f"{subgroup} {level}"
    if draw(st.booleans()):
        return SubgroupDomain(name, subgroup, level)
    return SubgroupSegments(f"{name} segments", subgroup, level, draw(st.integers(1, 3)))


@st.composite
def tight_problems(draw: st.DrawFn) -> PlacementProblem:
    """Six nodes in up to five racks of two spines, nearly filled by two or three roles that share them."""
    sizes = draw(st.lists(st.integers(2, 5), min_size=2, max_size=3, unique=True))
    demands = [role(f"size-{size}", (size,), draw(st.integers(1, 2))) for size in sizes]
    racks = [(f"s{rack % 2}", f"r{rack}") for rack in range(5)]
    classes = [
        node(f"n{index}", (draw(st.integers(3, 9)),), draw(st.sampled_from(racks)), roles=len(sizes))
        for index in range(6)
    ]
    preferred = (FewestDomains("preferred", draw(st.sampled_from(("spine", "rack")))),)
    problem = PlacementProblem(RESOURCES[1:], ("spine", "rack"), tuple(demands), tuple(classes), preferred)
    return draw(_with_capacities(problem))


@st.composite
def _roles(draw: st.DrawFn, most: int, pods: int) -> tuple[RoleDemand, ...]:
    demands = []
    for index in range(draw(st.integers(1, most))):
        minimum = draw(st.integers(0, min(pods, 3 if most > 1 else 6)))
        maximum = min(pods, minimum + draw(st.sampled_from((0, 0, 1, 2))))
        pods -= maximum
        request = [draw(st.integers(0, 4)) for _ in RESOURCES]
        demands.append(role(f"role-{index}", request, minimum, maximum))
    return tuple(demands)


@st.composite
def _topology(draw: st.DrawFn, levels: Sequence[str]) -> list[Rule]:
    rules: list[Rule] = []
    if draw(st.sampled_from((True, False, False))):
        rules.append(SameDomain("required", draw(st.sampled_from(levels))))
    if draw(st.booleans()):
        rules.append(FewestDomains("preferred", draw(st.sampled_from(levels))))
    return rules


@st.composite
def _budget(draw: st.DrawFn, members: Sequence[tuple[NodeName, ...]]) -> Budget:
    remaining = {name: draw(st.integers(-1, 30)) for name in RESOURCES if draw(st.booleans())}
    counted = [nodes for nodes in members if draw(st.booleans())]
    nodes = frozenset(name for group in counted for name in group) if draw(st.booleans()) else None
    return Budget("", remaining, nodes)


def _named(budgets: Sequence[Budget]) -> list[Budget]:
    return [Budget(f"budget-{index}", one.remaining, one.nodes) for index, one in enumerate(budgets)]


def _counting(budgets: Sequence[Budget], nodes: tuple[NodeName, ...]) -> tuple[int, ...]:
    """The budgets that name these nodes; budgets without a node set count every node and are not listed."""
    scopes = [one.nodes for one in budgets]
    return tuple(index for index, scope in enumerate(scopes) if scope is not None and scope.issuperset(nodes))


def _path(depth: int) -> st.SearchStrategy[tuple[str, ...]]:
    full = st.tuples(*[st.sampled_from(("x", "x", "y", "y", ""))] * depth)
    return st.tuples(full, st.sampled_from((depth, depth, depth, depth, depth - 1, 0))).map(
        lambda pair: pair[0][: pair[1]]
    )


@st.composite
def _anchors(draw: st.DrawFn, classes: Sequence[NodeClass], depth: int) -> tuple[Anchor, ...]:
    """Members on nodes of the problem, whose place may be unknown, or on other nodes."""
    found = []
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 1, 2)))):
        group = draw(st.sampled_from(classes)) if classes and draw(st.booleans()) else None
        path = draw(_path(depth)) if group is None or not group.path else group.path
        if group is not None and len(group.path) < depth:
            found.append(Anchor(path, draw(st.sampled_from(group.nodes))))
        else:
            found.append(Anchor(path, NOWHERE if len(path) == depth else NodeName("other")))
    return tuple(found)
