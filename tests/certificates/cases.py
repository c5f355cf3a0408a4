"""Random small cases. The same seed gives the same case."""

import random
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import structs

from tests.certificates.cluster import (
    CPU,
    GPU,
    Case,
    Flavor,
    Flow,
    Gang,
    Kind,
    Node,
    Pod,
    Role,
    Situation,
    Subgroup,
    fit,
    may_use,
)

LEVELS: Final = ("zone", "spine", "rack")
POOL: Final = "example.com/pool"
HOST: Final = "kubernetes.io/hostname"


def drawn(seed: int) -> Case:
    """The case of a seed: the kinds of cases take turns."""
    rng = random.Random(seed)
    return MAKES[seed % len(MAKES)](rng)


def _label(level: str) -> str:
    return f"example.com/{level}"


def _levels(rng: random.Random) -> tuple[tuple[str, str], ...]:
    names = LEVELS[-rng.choice((1, 2, 2, 3)) :]
    return tuple((name, _label(name)) for name in names)


def _nodes(
    rng: random.Random, levels: Sequence[tuple[str, str]], most: int = 5, *, shared: bool = False
) -> tuple[Node, ...]:
    found = []
    lacking, empty = rng.choice(((0.0, 0.0), (0.15, 0.0), (0.3, 0.0), (0.15, 0.15)))
    sizes = rng.choice(((1, 2, 3), (2, 3, 4), (1, 4, 8)))
    for index in range(rng.randint(2 if rng.random() < 0.3 else most - 1, most)):
        labels = {HOST: f"n{index}", POOL: rng.choice("ab")}
        for _, label in levels:
            if rng.random() >= lacking:
                labels[label] = "" if rng.random() < empty else rng.choice("xy")
        gpus = rng.choice(sizes)
        allocatable = {CPU: 1000 * rng.choice((4, 8, 16)), "pods": rng.choice((110, 110, 110, 110, 4))}
        sharing = shared and rng.random() < 0.7
        found.append(
            Node(
                name=f"n{index}",
                labels=labels,
                allocatable=allocatable if sharing else {**allocatable, GPU: gpus},
                soft_taints=("old",) if rng.random() < 0.1 else (),
                hard_taints=("gone",) if rng.random() < 0.07 else (),
                shared_gpus=gpus if sharing else 0,
                place_unknown=bool(levels) and rng.random() < 0.06,
            )
        )
    return tuple(found)


def _kind(rng: random.Random, **fields: object) -> Kind:
    requests = {GPU: rng.choice((0, 1, 1, 1, 1, 2))}
    if rng.random() < 0.5 or not requests[GPU]:
        requests[CPU] = 1000 * rng.choice((1, 2, 3))
    kind: dict[str, object] = {
        "requests": tuple(sorted((name, need) for name, need in requests.items() if need)),
        "selector": ((POOL, rng.choice("ab")),) if rng.random() < 0.1 else (),
        "preferred": ((rng.choice((10, 50)), POOL, rng.choice("ab")),) if rng.random() < 0.12 else (),
        "tolerated": ("gone",) if rng.random() < 0.2 else (),
    }
    return Kind(**{**kind, **fields})  # type: ignore[arg-type]


def _occupants(rng: random.Random, nodes: Sequence[Node]) -> list[Pod]:
    """Pods of another scheduler."""
    found: list[Pod] = []
    for node in nodes:
        for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
            amounts = {GPU: rng.choice((0, 1, 1, 2)), CPU: 1000 * rng.choice((0, 1, 2))}
            if node.shared_gpus:
                amounts.pop(GPU)
            kind = Kind(tuple(sorted((name, need) for name, need in amounts.items() if need)))
            add_if_it_fits(found, nodes, node, Pod(f"other-{len(found)}", kind, node=node.name))
    return found


def clusters(rng: random.Random, most: int) -> tuple[tuple[tuple[str, str], ...], tuple[Node, ...]]:
    """Levels, and at most so many nodes."""
    levels = _levels(rng)
    return levels, _nodes(rng, levels, most)


def add_if_it_fits(found: list[Pod], nodes: Sequence[Node], node: Node, pod: Pod) -> bool:
    """Add a pod that has the node, unless the node is too full or may not be used."""
    case = Case((), tuple(nodes), (), tuple(found))
    before = Situation(case)
    devices = before.free_devices(node)
    fits = may_use(pod.kind, node) and fit(pod.kind, before.free(node), devices) > 0
    if fits and pod.kind.share:
        index = next(index for index, left in enumerate(devices) if left >= pod.kind.share)
        pod = structs.replace(pod, device=index)
    if fits:
        found.append(pod)
    return fits


def _limit(rng: random.Random) -> dict[str, int]:
    if rng.random() >= 0.25:
        return {}
    return {GPU: rng.randint(1, 6)} if rng.random() < 0.7 else {CPU: 1000 * rng.randint(1, 8)}


def _levels_of(rng: random.Random, levels: Sequence[tuple[str, str]]) -> dict[str, str]:
    names = [name for name, _ in levels]
    required = rng.randint(1, len(names)) if rng.random() < 0.35 else 0
    narrower = names[required:]
    found = {"required": names[required - 1]} if required else {}
    if narrower and (rng.random() < 0.75 or not found):
        found["preferred"] = rng.choice(narrower)
    return found


def _objective(rng: random.Random) -> str:
    return rng.choice(("", "", "", "Spread", "LargestHole", "LeastFragmentation"))


def one_kind(rng: random.Random) -> Case:
    """A gang of equal pods that starts, sometimes with surplus."""
    levels = _levels(rng)
    nodes = _nodes(rng, levels)
    count = rng.randint(1, 6)
    kind = _kind(rng)
    pods = [Pod(f"g-{index}", kind, "g") for index in range(count)]
    least = count if rng.random() < 0.7 else rng.randint(1, count)
    gang = Gang("g", least, **_levels_of(rng, levels))
    occupants = _occupants(rng, nodes)
    return Case(levels, nodes, (gang,), (*occupants, *pods), _limit(rng), objective=_objective(rng))


def several_kinds(rng: random.Random) -> Case:
    """A gang of two or three kinds of pods."""
    levels = _levels(rng)
    nodes = _nodes(rng, levels, 4)
    pods: list[Pod] = []
    roles: list[Role] = []
    for number in range(rng.choice((2, 2, 3))):
        count, name = rng.randint(1, 2), f"role-{number}" if rng.random() < 0.4 else ""
        kind = _kind(rng, role=name)
        pods += [Pod(f"g-{len(pods) + index}", kind, "g") for index in range(count)]
        roles += [Role(name, count, rng.randint(0, count))] if name else []
    least = len(pods) if rng.random() < 0.7 else rng.randint(1, len(pods))
    if all(pod.kind.role for pod in pods):
        least = max(least, sum(role.minimum for role in roles))
    else:
        roles = []
    gang = Gang("g", least, **_levels_of(rng, levels), roles=tuple(roles))
    occupants = _occupants(rng, nodes)
    return Case(levels, nodes, (gang,), (*occupants, *pods), _limit(rng), objective=_objective(rng))


def late_members(rng: random.Random) -> Case:
    """A gang of which some members run; others are late, lost, or missing to its start."""
    levels = _levels(rng)
    nodes = _nodes(rng, levels)
    kind = _kind(rng)
    found = _occupants(rng, nodes)
    running = 0
    started = rng.random() < 0.7
    finished = started and rng.random() < 0.2
    for _ in range(rng.randint(1, 3)):
        node = rng.choice(nodes)
        member = Pod(f"g-{running}", kind, "g", node.name, finished=finished)
        running += add_if_it_fits(found, nodes, node, member)
    late = rng.randint(1, 3)
    other = kind if rng.random() < 0.7 else _kind(rng)
    found += [Pod(f"g-{running + index}", other, "g") for index in range(late)]
    least = rng.randint(1, max(1, running)) if started else running + late
    if started and other == kind and rng.random() < 0.4:
        least = running + rng.randint(1, late)
    gang = Gang("g", least, **_levels_of(rng, levels), started=started and running > 0)
    return Case(levels, nodes, (gang,), tuple(found), _limit(rng), objective=_objective(rng))


def subgroups(rng: random.Random) -> Case:
    """A gang of subgroups, some of them nested, with levels or segments of their own."""
    levels = _levels(rng)
    names = [name for name, _ in levels]
    nodes = _nodes(rng, levels, 4)
    found = _occupants(rng, nodes)
    same = _kind(rng)
    made: list[Subgroup] = []
    pods: list[Pod] = []
    running = rng.random() < 0.3
    for name in ("left", "right", "inner")[: rng.choice((1, 2, 2, 3))]:
        number = rng.randint(1, len(names)) if rng.random() < 0.35 else 0
        segment = rng.choice((0, 0, 2)) if number and name != "left" else 0
        narrower = names[number - bool(segment) :]
        kind = same if rng.random() < 0.6 else _kind(rng)
        kind = Kind(
            kind.requests, selector=kind.selector, preferred=kind.preferred, tolerated=kind.tolerated,
            subgroup=name,
        )  # fmt: skip
        count = 2 if segment else rng.randint(1, 2)
        made.append(
            Subgroup(
                name=name,
                parent="left" if name == "inner" else "",
                required=names[number - 1] if number else "",
                preferred=rng.choice(narrower) if narrower and rng.random() < 0.6 else "",
                segment=segment,
                minimum=count,
            )
        )
        if running and rng.random() < 0.6:
            node = rng.choice(nodes)
            add_if_it_fits(found, nodes, node, Pod(f"run-{name}", kind, "g", node.name))
        pods += [Pod(f"{name}-{index}", kind, "g") for index in range(count)]
    total = len(pods) + sum(pod.gang == "g" for pod in found)
    outer = sum(one.minimum for one in made if not one.parent)
    made = [
        Subgroup(one.name, one.parent, one.required, one.preferred, one.segment,
                 one.minimum + sum(other.minimum for other in made if other.parent == one.name))
        for one in made
    ]  # fmt: skip
    topology = _levels_of(rng, levels) if rng.random() < 0.5 else {}
    least = total if rng.random() < 0.8 else max(outer, total - 1)
    gang = Gang("g", max(least, sum(one.minimum for one in made if not one.parent)), **topology,
                subgroups=tuple(made))  # fmt: skip
    return Case(levels, nodes, (gang,), (*found, *pods), _limit(rng), objective=_objective(rng))


def two_topologies(rng: random.Random) -> Case:
    """A gang of subgroups, some of which name levels of one or two further Topologies."""
    case = subgroups(rng)
    others = {"cable": (("switch", "example.com/switch"), ("ring", "example.com/ring"))}
    others |= {"power": (("feed", "example.com/feed"),)} if rng.random() < 0.4 else {}
    lacking = rng.choice((0.0, 0.15))
    nodes = [
        structs.replace(
            node,
            labels={
                **node.labels,
                **{
                    label: rng.choice("xy")
                    for levels in others.values()
                    for _, label in levels
                    if rng.random() >= lacking
                },
            },
        )
        for node in case.nodes
    ]
    (gang,) = case.gangs
    made = []
    for one in gang.subgroups:
        topology = rng.choice(sorted(others)) if rng.random() < 0.7 else ""
        names = [name for name, _ in others.get(topology, ())]
        number = rng.randint(1, len(names)) if topology else 0
        required = names[number - 1] if number and rng.random() < 0.6 else ""
        segment = one.segment if required else 0
        narrower = names[number - bool(segment) :] if required else names
        preferred = rng.choice(narrower) if narrower and rng.random() < 0.6 else ""
        other = structs.replace(
            one, topology=topology, required=required, preferred=preferred, segment=segment
        )
        made.append(other if topology else one)
    # without levels of its own the gang would have the Topology that its first subgroup names
    topology = {} if gang.required or gang.preferred else {"preferred": case.levels[0][0]}
    gang = structs.replace(gang, subgroups=tuple(made), **topology)
    return structs.replace(case, nodes=tuple(nodes), gangs=(gang,), others=others)


def single_pod(rng: random.Random) -> Case:
    """Single pods, most of them where fragmentation is minimised, beside pods that run."""
    levels = _levels(rng)
    nodes = _nodes(rng, levels, 4, shared=rng.random() < 0.4)
    found = _occupants(rng, nodes)
    gangs = []
    for index in range(rng.choice((0, 1, 2))):
        kind, node = _kind_or_share(rng, nodes), rng.choice(nodes)
        if add_if_it_fits(found, nodes, node, Pod(f"old-{index}", kind, f"old{index}", node.name)):
            gangs.append(Gang(f"old{index}", 1, started=True))
    for index in range(rng.choice((1, 1, 2))):
        topology = _levels_of(rng, levels) if rng.random() < 0.5 else {}
        gangs.append(Gang(f"g{index}", 1, **topology))
        found.append(Pod(f"g{index}-0", _kind_or_share(rng, nodes), f"g{index}"))
    objective = "LeastFragmentation" if rng.random() < 0.75 else _objective(rng)
    return Case(levels, nodes, tuple(gangs), tuple(found), objective=objective)


def _kind_or_share(rng: random.Random, nodes: Sequence[Node]) -> Kind:
    if any(node.shared_gpus for node in nodes) and rng.random() < 0.7:
        cores = ((CPU, 1000),) if rng.random() < 0.5 else ()
        return _kind(rng, requests=cores, share=rng.choice((250, 500, 700)))
    return _kind(rng)


def shares(rng: random.Random) -> Case:
    """A gang of pods with shares of GPUs, of one or two sizes."""
    levels = _levels(rng)
    nodes = _nodes(rng, levels, 4, shared=True)
    found = _occupants(rng, nodes)
    for index in range(rng.choice((0, 1, 2, 3))):
        kind, node = Kind(share=rng.choice((300, 500, 750))), rng.choice(nodes)
        add_if_it_fits(found, nodes, node, Pod(f"shared-{index}", kind, node=node.name))
    sizes = rng.choice(((500,), (250,), (250, 500), (400,), (300, 600)))
    cores = ((CPU, 1000 * rng.choice((1, 2))),) if rng.random() < 0.4 else ()
    pods: list[Pod] = []
    for size in sizes:
        kind = _kind(rng, requests=cores, share=size)
        pods += [Pod(f"g-{len(pods) + index}", kind, "g") for index in range(rng.randint(1, 3))]
    least = len(pods) if rng.random() < 0.7 else rng.randint(1, len(pods))
    gang = Gang("g", least, **_levels_of(rng, levels))
    return Case(levels, nodes, (gang,), (*found, *pods), objective=rng.choice(("", "", "Spread")))


def apart(rng: random.Random) -> Case:
    """A gang whose pods must be apart by host or by the label of a level."""
    levels = _levels(rng)
    nodes = _nodes(rng, levels)
    label = rng.choice((HOST, HOST, *(label for _, label in levels)))
    kind = _kind(rng, apart=label)
    pods = [Pod(f"g-{index}", kind, "g") for index in range(rng.randint(1, 4))]
    if rng.random() < 0.4:
        pods.append(Pod(f"g-{len(pods)}", _kind(rng), "g"))
    gang = Gang("g", len(pods), **_levels_of(rng, levels))
    return Case(levels, nodes, (gang,), (*_occupants(rng, nodes), *pods), objective=_objective(rng))


def several_gangs(rng: random.Random) -> Case:
    """Two or three gangs that are placed one after the other."""
    levels = _levels(rng)
    nodes = _nodes(rng, levels, 4)
    found, gangs = _occupants(rng, nodes), []
    for number in range(rng.choice((2, 2, 3))):
        kind, name = _kind(rng), f"g{number}"
        found += [Pod(f"{name}-{index}", kind, name) for index in range(rng.randint(1, 3))]
        count = sum(pod.gang == name for pod in found)
        gangs.append(Gang(name, count, **_levels_of(rng, levels)))
    return Case(levels, nodes, tuple(gangs), tuple(found), _limit(rng), objective=_objective(rng))


def joint_starts(rng: random.Random) -> Case:
    """Gangs of which most require a domain, so that they do not all fit one after the other."""
    levels = _levels(rng)
    nodes = _nodes(rng, levels, 5)
    found, gangs = _occupants(rng, nodes), []
    for number in range(rng.choice((2, 3, 3))):
        name, kind = f"g{number}", Kind(((GPU, rng.choice((1, 1, 2))),))
        topology = _levels_of(rng, levels)
        if number and rng.random() < 0.7:
            topology = {"required": levels[-1][0]}
        if rng.random() < 0.2:
            kind = structs.replace(kind, apart=HOST)
        count = rng.randint(1, 3)
        found += [Pod(f"{name}-{index}", kind, name) for index in range(count)]
        least = count if rng.random() < 0.6 else rng.randint(1, count)
        gangs.append(Gang(name, least, **topology))
    admission = rng.choice(("", "", "MostValue"))
    return Case(levels, nodes, tuple(gangs), tuple(found), _limit(rng), admission=admission)


def together(rng: random.Random) -> Case:
    """A gang whose pods have required affinity to each other by the label of a level, or by another one."""
    levels = _levels(rng)
    nodes = _nodes(rng, levels)
    label = rng.choice((HOST, POOL, levels[-1][1], *(label for _, label in levels)))
    kind = _kind(rng, together=label)
    pods = [Pod(f"g-{index}", kind, "g") for index in range(rng.randint(1, 4))]
    topology = _levels_of(rng, levels) if rng.random() < 0.6 else {}
    gang = Gang("g", len(pods), **topology)
    return Case(
        levels, nodes, (gang,), (*_occupants(rng, nodes), *pods), _limit(rng), objective=_objective(rng)
    )


def preferences(rng: random.Random) -> Case:
    """A gang whose pods prefer to be near each other, or apart, by one or two labels; some may run."""
    levels = _levels(rng)
    nodes = _nodes(rng, levels, 4)
    labels = rng.sample((HOST, POOL, *(label for _, label in levels)), rng.choice((1, 1, 2)))
    draws = tuple((rng.choice((-100, -100, -7, 20, 100)), label) for label in labels)
    kinds = [_kind(rng, draws=draws)]
    if rng.random() < 0.4:
        kinds.append(_kind(rng, draws=draws[: rng.randint(0, 1)]))
    found, there = _occupants(rng, nodes), 0
    for _ in range(rng.choice((0, 0, 1, 2))):
        node = rng.choice(nodes)
        there += add_if_it_fits(found, nodes, node, Pod(f"g-{there}", kinds[0], "g", node.name))
    late = [Pod(f"g-{there + index}", rng.choice(kinds), "g") for index in range(rng.randint(1, 4))]
    least = there + len(late) if not there or rng.random() < 0.5 else rng.randint(1, there)
    topology = _levels_of(rng, levels) if rng.random() < 0.5 else {}
    gang = Gang("g", least, **topology, started=there > 0)
    return Case(levels, nodes, (gang,), (*found, *late), _limit(rng), objective=_objective(rng))


def flavors(rng: random.Random) -> Case:
    """One or more kinds of pods under limits on nodes with certain labels."""
    case = rng.choice((one_kind, several_kinds))(rng)
    limits = tuple(
        Flavor(f"pool-{value}", POOL, value, {GPU: rng.randint(0, 4)})
        for value in rng.choice(("a", "b", "ab"))
    )
    return structs.replace(case, flavors=limits)


def some_subgroups(rng: random.Random) -> Case:
    """A gang that starts with some of its subgroups; the others start later."""
    levels = _levels(rng)
    names = [name for name, _ in levels]
    nodes = _nodes(rng, levels)
    made: list[Subgroup] = []
    pods: list[Pod] = []
    for name in ("first", "second", "third")[: rng.choice((2, 3))]:
        kind = _kind(rng, subgroup=name)
        count = rng.randint(1, 2)
        number = rng.randint(1, len(names)) if rng.random() < 0.4 else 0
        preferred = rng.choice(["", *names[number:]])
        made.append(Subgroup(name, "", names[number - 1] if number else "", preferred, 0, count))
        pods += [Pod(f"{name}-{index}", kind, "g") for index in range(count)]
    needed = rng.randint(1, len(made) - 1)
    least = sum(sorted(one.minimum for one in made)[:needed])
    topology = _levels_of(rng, levels) if rng.random() < 0.5 else {}
    gang = Gang("g", least, **topology, subgroups=tuple(made), min_subgroups=needed)
    return Case(
        levels, nodes, (gang,), (*_occupants(rng, nodes), *pods), _limit(rng), objective=_objective(rng)
    )


def reserved_members(rng: random.Random) -> Case:
    """A gang that starts with a driver if its other members, which do not exist, fit beside it."""
    levels = _levels(rng)
    nodes = _nodes(rng, levels)
    gpus = rng.choice((0, 1))
    requests = ((CPU, 1000 * rng.randint(1, 3)), *(((GPU, gpus),) if gpus else ()))
    future = rng.randint(1, 3)
    executor = Kind(requests, role="executor")
    pods = [Pod("driver", _kind(rng, role="driver"), "g")]
    pods += [Pod(f"executor-{index}", executor, "g", exists=False) for index in range(future)]
    roles = (Role("driver", 1, 1), Role("executor", future + 2, future, requests))
    gang = Gang("g", future + 1, **_levels_of(rng, levels), roles=roles, reserves=True)
    return Case(
        levels, nodes, (gang,), (*_occupants(rng, nodes), *pods), _limit(rng), objective=_objective(rng)
    )


def traffic(rng: random.Random) -> Case:
    """A gang of roles that send to each other; sometimes members run already, or others are surplus."""
    levels = _levels(rng)
    nodes = _nodes(rng, levels, rng.choice((3, 4, 5)))
    found = _occupants(rng, nodes) if rng.random() < 0.5 else []
    names = ("ps", "worker", "chief")[: rng.choice((1, 2, 2, 2, 3))]
    same = _kind(rng)
    kinds = {name: same if rng.random() < 0.6 else _kind(rng) for name in names}
    kinds = {name: structs.replace(kind, role=name) for name, kind in kinds.items()}
    running = [(name, rng.choice(nodes)) for name in names if rng.random() < 0.3]
    for number, (name, node) in enumerate(running):
        add_if_it_fits(found, nodes, node, Pod(f"run-{number}", kinds[name], "g", node.name))
    there = [pod.kind.role for pod in found if pod.gang]
    late = [
        (name, number)
        for name in sorted(names)
        for number in range(rng.randint(1, 4 if name == "worker" else 2))
    ]
    found += [Pod(f"{name}-{number}", kinds[name], "g") for name, number in late]
    roles = [
        Role(name, sum(role == name for role in [*there, *(one for one, _ in late)]), 0) for name in names
    ]
    started = bool(there) and rng.random() < 0.6
    least = rng.randint(1, len(there)) if started else len(there) + len(late)
    if not there and rng.random() < 0.2:
        least = rng.randint(1, len(late))
    alike = len({structs.replace(kind, role="") for kind in kinds.values()}) == 1
    if started and alike and rng.random() < 0.5:
        least = len(there) + rng.randint(1, len(late))
    gang = Gang("g", least, roles=tuple(roles), started=started, traffic=_flows(rng, names))
    if rng.random() < 0.5:
        gang = structs.replace(gang, **_levels_of(rng, levels))
    return Case(levels, nodes, (gang,), tuple(found), _limit(rng), objective=_objective(rng))


def _flows(rng: random.Random, names: Sequence[str]) -> tuple[Flow, ...]:
    pairs = [(one, other) for one in names for other in names if one != other or rng.random() < 0.3]
    some = rng.sample(pairs, rng.randint(1, len(pairs))) if pairs else [(names[0], names[0])]
    return tuple(Flow(sender, receiver, rng.choice((1, 1, 2, 5))) for sender, receiver in some)


MAKES: Final[tuple[Callable[[random.Random], Case], ...]] = (
    one_kind,
    several_kinds,
    late_members,
    subgroups,
    single_pod,
    shares,
    apart,
    several_gangs,
    joint_starts,
    together,
    flavors,
    some_subgroups,
    reserved_members,
    traffic,
    preferences,
    two_topologies,
)
"""The kinds of cases."""
