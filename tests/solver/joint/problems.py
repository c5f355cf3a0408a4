"""Small random joint problems, and an oracle that lists every placement of every set of gangs."""

from collections.abc import Iterator
from itertools import combinations

from hypothesis import strategies as st
from msgspec import structs
from phalanx.model.names import NodeName
from phalanx.rules.budget import Budget
from phalanx.rules.levels import FewestDomains, SameDomain
from phalanx.rules.problem import NodeClass, Rule
from phalanx.rules.subgroups import SubgroupDomain, SubgroupFewest, SubgroupSegments
from phalanx.solver.joint.problem import GangDemand, GangRole, JointProblem, PodClass

LEVELS = ("spine", "rack")
RESOURCES = ("cpu", "nvidia.com/gpu")


def gang(
    name: str,
    counts: dict[int, int],
    *,
    required: str | None = None,
    preferred: str | None = None,
    value: int = 1,
    must_admit: bool = False,
    budgets: tuple[Budget, ...] = (),
) -> GangDemand:
    """A gang with these pods per pod class, and its required and preferred level."""
    rules: list[Rule] = list(budgets)
    if required:
        rules.append(SameDomain(f"required {required}", required))
    if preferred:
        rules.append(FewestDomains(f"preferred {preferred}", preferred))
    parts = tuple(GangRole(kind, count) for kind, count in counts.items())
    return GangDemand(name, parts, tuple(rules), value, must_admit)


def with_subgroups(demand: GangDemand, *parts: tuple[str, int, int], **rules: str) -> GangDemand:
    """The gang with these roles: subgroups as a path such as "a/b", kind, count.

    A rule is the required level of a subgroup, or level and size of its segments, such as "rack:2".
    """
    found: list[Rule] = []
    for name, rule in rules.items():
        level, _, size = rule.partition(":")
        if size:
            found.append(SubgroupSegments(f"{name} in segments", name, level, int(size)))
        else:
            found.append(SubgroupDomain(f"{name} in one {level}", name, level))
    listed = tuple(
        GangRole(kind, count, tuple(filter(None, where.split("/")))) for where, kind, count in parts
    )
    return structs.replace(demand, roles=listed, rules=(*demand.rules, *found))


def node(name: str, free: tuple[int, ...], path: tuple[str, ...], *, pod_classes: int = 1) -> NodeClass:
    """A class of one node that every pod class may use."""
    return NodeClass(path, free, (True,) * pod_classes, (0,) * pod_classes, (NodeName(name),))


def joint_problem(
    *gangs: GangDemand, nodes: dict[str, tuple[int, tuple[str, ...]]], pod_classes: tuple[int, ...] = (1,)
) -> JointProblem:
    """Gangs on nodes with these GPUs and domain paths; pod classes by their GPUs."""
    return JointProblem(
        resources=("nvidia.com/gpu",),
        levels=("spine", "rack"),
        pod_classes=tuple(PodClass(f"{gpus}-gpu", (gpus,)) for gpus in pod_classes),
        gangs=gangs,
        classes=tuple(
            node(name, (gpus,), path, pod_classes=len(pod_classes)) for name, (gpus, path) in nodes.items()
        ),
    )


@st.composite
def joint_problems(draw: st.DrawFn) -> JointProblem:
    """Up to 5 nodes and 4 gangs of up to 3 pods, with every kind of rule; no gang must be admitted."""
    pod_classes = tuple(
        PodClass(f"kind-{index}", (draw(st.integers(0, 2)), draw(st.integers(1, 3))))
        for index in range(draw(st.integers(1, 2)))
    )
    names = [NodeName(name) for name in "abcde"[: draw(st.integers(2, 5))]]
    classes = tuple(
        NodeClass(
            path=draw(_paths()),
            free=(draw(st.integers(1, 4)), draw(st.integers(1, 5))),
            eligible=tuple(draw(st.sampled_from((True, True, True, False))) for _ in pod_classes),
            cost=tuple(draw(st.sampled_from((0, 0, 1))) for _ in pod_classes),
            nodes=(name,),
        )
        for name in names
    )
    budget = Budget("limit", {"nvidia.com/gpu": draw(st.integers(-1, 8))})
    gangs = tuple(draw(_gangs(index, len(pod_classes), budget)) for index in range(draw(st.integers(1, 4))))
    return JointProblem(RESOURCES, LEVELS, pod_classes, gangs, classes)


@st.composite
def _gangs(draw: st.DrawFn, index: int, pod_classes: int, budget: Budget) -> GangDemand:
    counts = {kind: draw(st.integers(0 if kind else 1, 2)) for kind in range(pod_classes)}
    return gang(
        f"gang-{index}",
        {kind: count for kind, count in counts.items() if count},
        required=draw(st.sampled_from((None, "spine", "rack", "rack"))),
        preferred=draw(st.sampled_from((None, "spine", "rack"))),
        value=draw(st.integers(1, 6)),
        budgets=(budget,) if draw(st.booleans()) else (),
    )


def _paths() -> st.SearchStrategy[tuple[str, ...]]:
    full = st.sampled_from([("s0", "r0"), ("s0", "r1"), ("s1", "r0"), ("s1", "r1")])
    return st.tuples(full, st.sampled_from((2, 2, 2, 2, 1, 0))).map(lambda pair: pair[0][: pair[1]])


def best_value(problem: JointProblem) -> int:
    """The greatest value of any set of gangs that fits and contains all gangs that must be admitted."""
    gangs = range(len(problem.gangs))
    sets = [some for size in range(len(problem.gangs) + 1) for some in combinations(gangs, size)]
    musts = {index for index in gangs if problem.gangs[index].must_admit}
    for some in sorted(sets, key=lambda some: -sum(problem.gangs[index].value for index in some)):
        if musts <= set(some) and placeable(problem, some):
            return sum(problem.gangs[index].value for index in some)
    raise AssertionError("the gangs that must be admitted cannot be placed")


def placeable(problem: JointProblem, some: tuple[int, ...]) -> bool:
    """Whether these gangs fit together."""
    free = {each.nodes[0]: list(each.free) for each in problem.classes}
    limits = {
        rule.name: dict(rule.remaining)
        for demand in problem.gangs
        for rule in demand.rules
        if isinstance(rule, Budget)
    }
    return _fit(problem, list(some), free, limits)


def _fit(
    problem: JointProblem, some: list[int], free: dict[NodeName, list[int]], limits: dict[str, dict[str, int]]
) -> bool:
    if not some:
        return True
    demand = problem.gangs[some[0]]
    pods = [index for index, part in enumerate(demand.roles) for _ in range(part.count)]
    spent = _spend(problem, demand, limits)
    assignments = _choices(problem, demand, pods, [], free) if spent is not None else ()
    return any(spent is not None and _fit(problem, some[1:], free, spent) for _ in assignments)


def _spend(
    problem: JointProblem, demand: GangDemand, limits: dict[str, dict[str, int]]
) -> dict[str, dict[str, int]] | None:
    left = {name: dict(amounts) for name, amounts in limits.items()}
    for rule in demand.rules:
        for index, name in enumerate(problem.resources):
            if isinstance(rule, Budget) and name in left[rule.name]:
                used = sum(
                    part.count * problem.pod_classes[part.pod_class].request[index] for part in demand.roles
                )
                left[rule.name][name] -= used
                if used > 0 and left[rule.name][name] < 0:
                    return None
    return left


def _choices(
    problem: JointProblem,
    demand: GangDemand,
    pods: list[int],
    chosen: list[NodeClass],
    free: dict[NodeName, list[int]],
) -> Iterator[list[NodeClass]]:
    """Yield every assignment of the pods; `free` is reduced while an assignment is examined."""
    if not pods:
        if _in_segments(problem, demand, chosen):
            yield chosen
        return
    kind = demand.roles[pods[0]].pod_class
    request = problem.pod_classes[kind].request
    is_next = len(chosen) and _parts(demand)[len(chosen) - 1] == pods[0]
    first = problem.classes.index(chosen[-1]) if is_next else 0
    for group in problem.classes[first:]:
        left = free[group.nodes[0]]
        if not group.eligible[kind] or any(have < need for have, need in zip(left, request, strict=True)):
            continue
        if not _together(problem, demand, [*chosen, group]):
            continue
        free[group.nodes[0]] = [have - need for have, need in zip(left, request, strict=True)]
        yield from _choices(problem, demand, pods[1:], [*chosen, group], free)
        free[group.nodes[0]] = left


def _parts(demand: GangDemand) -> list[int]:
    return [index for index, part in enumerate(demand.roles) for _ in range(part.count)]


def _of(demand: GangDemand, subgroup: str, chosen: list[NodeClass]) -> list[NodeClass]:
    parts = zip(_parts(demand), chosen, strict=False)
    return [each for part, each in parts if subgroup in demand.roles[part].subgroups]


def _together(problem: JointProblem, demand: GangDemand, chosen: list[NodeClass]) -> bool:
    for rule in demand.rules:
        if isinstance(rule, SameDomain | SubgroupDomain):
            depth = problem.levels.index(rule.level) + 1
            own = chosen if isinstance(rule, SameDomain) else _of(demand, rule.subgroup, chosen)
            if any(len(each.path) < depth for each in own) or len({each.path[:depth] for each in own}) > 1:
                return False
    return True


def _in_segments(problem: JointProblem, demand: GangDemand, chosen: list[NodeClass]) -> bool:
    for rule in demand.rules:
        if isinstance(rule, SubgroupSegments):
            depth = problem.levels.index(rule.level) + 1
            paths = [each.path[:depth] for each in _of(demand, rule.subgroup, chosen)]
            if any(len(path) < depth or paths.count(path) % rule.size for path in paths):
                return False
    return True


@st.composite
def nearly_full_spines(draw: st.DrawFn) -> JointProblem:
    """One or two spines with two racks of one node each, and gangs that nearly fill them, most in one rack.

    The sizes are such that the sums often fit although the gangs do not.
    """
    levels = st.sampled_from(("rack", "rack", "rack", "rack", None))
    gangs = [gang("spine", {0: 1}, required="spine", value=1)]
    for index in range(draw(st.integers(3, 5))):
        required, pods = draw(levels), draw(st.sampled_from((3, 3, 3, 5)))
        pods = pods if required else 2
        gangs.append(
            gang(f"gang-{index}", {0: pods}, required=required, value=pods * draw(st.integers(1, 3)))
        )
    classes = tuple(
        node(f"n{index}", (draw(st.sampled_from((7, 7, 7, 8))),), (f"s{index // 2}", f"r{index}"))
        for index in range(draw(st.sampled_from((2, 2, 4))))
    )
    return JointProblem(RESOURCES[1:], LEVELS, (PodClass("worker", (1,)),), tuple(gangs), classes)


@st.composite
def joint_subgroup_problems(draw: st.DrawFn) -> JointProblem:
    """Up to 5 nodes and 3 gangs of up to 5 pods with nested subgroups, under every kind of rule for them."""
    pod_classes = tuple(PodClass(f"kind-{index}", (draw(st.integers(1, 2)),)) for index in range(2))
    classes = tuple(
        NodeClass(draw(_paths()), (draw(st.integers(1, 6)),), (True, True), (0, 0), (NodeName(name),))
        for name in "abcde"[: draw(st.integers(3, 5))]
    )
    budget = Budget("limit", {"nvidia.com/gpu": draw(st.integers(4, 20))})
    gangs = tuple(draw(_subgroup_gang(index, budget)) for index in range(draw(st.integers(1, 3))))
    return JointProblem(RESOURCES[1:], LEVELS, pod_classes, gangs, classes)


@st.composite
def _subgroup_gang(draw: st.DrawFn, index: int, budget: Budget) -> GangDemand:
    """Subgroups a, b inside a, and c."""
    where = draw(st.lists(st.sampled_from(("", "a", "a", "a/b", "c")), min_size=1, max_size=3, unique=True))
    parts = [(one, draw(st.integers(0, 1)), draw(st.integers(1, 2))) for one in sorted(where)]
    options = st.sampled_from((None, "spine", "rack", "rack", "rack:2", "spine:2"))
    inner, last, outer = draw(options), draw(options), draw(options)
    rules = {name: rule for name, rule in (("a", outer), ("b", inner), ("c", last)) if rule}
    demand = gang(
        f"gang-{index}",
        {},
        required=draw(st.sampled_from((None, None, "spine", "rack"))),
        preferred=draw(st.sampled_from((None, "spine", "rack"))),
        value=draw(st.integers(1, 6)),
        budgets=(budget,) if draw(st.booleans()) else (),
    )
    demand = with_subgroups(demand, *parts, **rules)
    fewest = SubgroupFewest("few for a", "a", draw(st.sampled_from(LEVELS)))
    return structs.replace(demand, rules=(*demand.rules, fewest) if draw(st.booleans()) else demand.rules)


@st.composite
def nearly_full_spines_with_subgroups(draw: st.DrawFn) -> JointProblem:
    """One or two spines with two racks of one node each, nearly filled by gangs of two subgroups each.

    The sizes are such that the sums often fit although the gangs do not.
    """
    gangs = []
    for index in range(draw(st.integers(2, 3))):
        sizes = (draw(st.sampled_from((2, 3, 3, 4))), draw(st.sampled_from((1, 2, 3))))
        own = draw(st.sampled_from(("rack", "rack", "rack:2", "rack:3", "spine:2")))
        other = draw(st.sampled_from(("rack", "rack:2", "spine", None)))
        demand = gang(
            f"gang-{index}",
            {},
            required=draw(st.sampled_from(("spine", "spine", None))),
            preferred=draw(st.sampled_from((None, "rack"))),
            value=sum(sizes) * draw(st.integers(1, 3)),
        )
        rules = {"a": own, "c": other} if other else {"a": own}
        gangs.append(with_subgroups(demand, ("a", 0, sizes[0]), ("c", 0, sizes[1]), **rules))
    classes = tuple(
        node(f"n{index}", (draw(st.sampled_from((4, 4, 5))),), (f"s{index // 2}", f"r{index}"))
        for index in range(draw(st.sampled_from((2, 2, 4))))
    )
    return JointProblem(RESOURCES[1:], LEVELS, (PodClass("worker", (1,)),), tuple(gangs), classes)
