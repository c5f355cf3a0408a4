"""Random tenants do random things: what others are charged, and what their guarantees give them, stays.

Team v has a queue of its own. The tenants of team x and those without a team create and change pods and
PodGroups in their namespaces: they name any queue, bind pods by hand, write annotations and labels, and ask
for priorities and protection. What they cannot do is not played: other kinds of objects, and pods that no
queue accepts, which count as pods of other schedulers.
"""

from collections.abc import Mapping
from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st
from msgspec import Struct

from tests.examples import holds
from tests.tenants.world import CHARGED, World

SIZE, NODES = 4, 2
QUEUES = ("v", "x", "org", "default", "open", "no-such-queue", "")
CLASSES = ("low", "high", "system-node-critical", "no-such-class", "")
USER = "example.com/user"
QUARTER = 15
"""Minutes between two decisions: more than the protection that a gang can ask for."""

ROUNDS = 5


class Cluster(Struct, frozen=True):
    """What the administrator wrote."""

    guarantee: int
    """Of queue v."""
    their_guarantee: int
    """Of queue x."""
    limit: int
    """Of queue x; -1 for none."""
    default_is_open: bool
    has_parent: bool
    """Queues v and x are below queue org, which accepts all namespaces."""
    has_open: bool
    """Whether there is another queue that accepts all namespaces."""
    running: int
    """GPUs that team v uses; the pods were bound by the scheduler or by hand."""
    by_hand: bool
    waiting: tuple[int, ...]
    """Sizes of gangs of one GPU per pod that team v submits."""


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    total = SIZE * NODES
    guarantee = draw(st.integers(1, total))
    running = draw(st.integers(0, guarantee - 1))
    left, waiting = guarantee - running, []
    while left and (not waiting or draw(st.booleans())):
        waiting.append(draw(st.integers(1, left)))
        left -= waiting[-1]
    default_is_open, has_open = draw(st.booleans()), draw(st.booleans())
    return Cluster(
        guarantee=guarantee,
        their_guarantee=draw(st.integers(0, total - guarantee)),
        limit=draw(st.sampled_from([-1, 0, 1, 4])),
        default_is_open=default_is_open,
        # What a sibling borrows counts in the guarantee of the parent, on which v depends outside of it.
        has_parent=not default_is_open and not has_open and draw(st.booleans()),
        has_open=has_open,
        running=running,
        by_hand=draw(st.booleans()),
        waiting=tuple(waiting),
    )


def built(cluster: Cluster) -> World:
    """The cluster with the work of team v only."""
    world = World(gpus=SIZE, nodes=NODES).priority_class("low", -5).priority_class("high", 1000)
    parent = {"parent": "org"} if cluster.has_parent else {}
    world.queue("v", team="v", guarantee=cluster.guarantee, **parent)
    world.queue("x", team="x", guarantee=cluster.their_guarantee, limit=cluster.limit, **parent)
    if cluster.has_parent:
        world.queue("org", guarantee=SIZE * NODES)
    if not cluster.default_is_open:
        world.queue("default", team="admins")
    if cluster.has_open:
        world.queue("open")
    world.namespace("ns-v", team="v").namespace("ns-x", team="x").namespace("ns-x2", team="x").namespace(
        "ns-z"
    )
    for index in range(cluster.running):
        node, charged = f"n{index // SIZE}", "" if cluster.by_hand else "v"
        world.pod(f"run-{index}", "ns-v", queue="v", on=node, charged=charged)
    for number, size in enumerate(cluster.waiting):
        world.group(f"wait-{number}", "ns-v", queue="v", minMember=size)
        world.pods(f"wait-{number}", "ns-v", size, group=f"wait-{number}", since=1)
    return world


def accepted(cluster: Cluster, namespace: str) -> bool:
    """Whether a queue accepts the namespace, so that its pods are charged to somebody."""
    return namespace != "ns-z" or cluster.default_is_open or cluster.has_open


Abuse = tuple[str, dict[str, Any]]
"""Whether there is a PodGroup, and the fields of its pods and of itself."""

Changes = list[tuple[int, Mapping[str, Any] | None]]
"""The number of an abuse, and its new PodGroup; None to delete it."""

History = tuple[Cluster, list[Abuse], list[Changes]]


@st.composite
def abuses(draw: st.DrawFn, cluster: Cluster) -> list[Abuse]:
    """What tenants create, and what they change later. Pods that are bound by hand fit their nodes."""
    free = [SIZE - min(SIZE, max(0, cluster.running - SIZE * index)) for index in range(NODES)]
    found: list[Abuse] = []
    for number in range(draw(st.integers(1, 8))):
        namespace = draw(st.sampled_from(["ns-x", "ns-x2", "ns-z"]))
        kind = draw(st.sampled_from(["pods", "group", "group"]))
        size = draw(st.integers(1, 3))
        nodes = []
        for _ in range(size):
            node = draw(st.integers(-1, NODES - 1))
            if node >= 0 and free[node] and accepted(cluster, namespace):
                free[node] -= 1
                nodes.append(f"n{node}")
            else:
                nodes.append("")
        fields = {
            "name": f"a{number}",
            "namespace": namespace,
            "nodes": tuple(nodes),
            "queue": draw(st.sampled_from(QUEUES)),
            "charged": draw(st.sampled_from(QUEUES)),
            "since": draw(st.sampled_from([0.5, 5, 30, 600])),
            "user": draw(st.sampled_from(["", "ann", f"fresh-{number}"])),
        }
        if kind == "group":
            fields["spec"] = draw(specs(size))
        found.append((kind, fields))
    return found


@st.composite
def specs(draw: st.DrawFn, size: int) -> Mapping[str, Any]:
    """A PodGroup that asks for as much as it can."""
    disruption = {
        "minRuntime": draw(st.sampled_from(["0s", "5m", "999999h"])),
        "preemptible": draw(st.booleans()),
        "mode": draw(st.sampled_from(["All", "Single"])),
    }
    spec = {
        "minMember": draw(st.integers(1, size)),
        "queue": draw(st.sampled_from(QUEUES)),
        "priorityClassName": draw(st.sampled_from(CLASSES)),
        "preemptionPolicy": draw(st.sampled_from(["", "Never", "PreemptLowerPriority"])),
    }
    return {**{key: value for key, value in spec.items() if value}, "disruption": disruption}


def play(world: World, abuse: list[Abuse]) -> World:
    """The tenants create their objects."""
    for kind, fields in abuse:
        note(f"{kind} {fields}")
        name, namespace = fields["name"], fields["namespace"]
        group = name if kind == "group" else ""
        if group:
            world.group(name, namespace, **fields["spec"])
        for index, node in enumerate(fields["nodes"]):
            world.pod(
                f"{name}-{index}",
                namespace,
                group=group,
                queue=fields["queue"],
                on=node,
                since=fields["since"],
                labels={USER: fields["user"]} if fields["user"] else {},
                meta={"annotations": {CHARGED: fields["charged"]}} if fields["charged"] else {},
            )
    return world


def change(world: World, abuse: list[Abuse], changes: Changes) -> None:
    """The tenants change or delete the PodGroups of what runs and waits; names in `queue` are for pods."""
    for index, spec in changes:
        kind, fields = abuse[index % len(abuse)]
        name, namespace = fields["name"], fields["namespace"]
        note(f"then {name}: {spec}")
        if kind == "group":
            if ("PodGroup", namespace, name) in world.objects:
                world.delete("PodGroup", name, namespace)
            if spec is not None:
                world.group(name, namespace, **spec)
        elif spec is not None:
            for number in range(len(fields["nodes"])):
                world.edit_pod(f"{name}-{number}", namespace, queue=spec.get("queue", ""))


@st.composite
def histories(
    draw: st.DrawFn,
) -> History:
    """A cluster, what tenants create, and what they change before each later decision."""
    cluster = draw(clusters())
    later = st.lists(st.tuples(st.integers(0, 20), st.none() | specs(1)), max_size=3)
    return cluster, draw(abuses(cluster)), [draw(later) for _ in range(ROUNDS)]


@given(histories())
@holds(15)
def test_tenants_change_neither_the_charges_nor_the_guarantee_of_another_queue(
    history: History,
) -> None:
    cluster, abuse, later = history
    note(f"{cluster}")
    alone = built(cluster).charges().get("v", 0)
    world = play(built(cluster), abuse)
    assert world.charges().get("v", 0) == alone == cluster.running
    wanted = cluster.running + sum(cluster.waiting)
    for number, changes in enumerate(later):
        outcome = world.decide(minutes=number * QUARTER)
        world.carry_out(outcome, number * QUARTER)
        note(f"{number}: {outcome.placed}, evicted {outcome.evicted}, {outcome.reasons}")
        assert not any(name.startswith(("run-", "wait-")) for name in outcome.evicted), (
            "v is inside its guarantee"
        )
        charges = world.charges()
        assert charges.get("v", 0) == owned_by_v(world), "only the pods of team v are charged to it"
        assert charges.get("org", 0) == 0, "a parent is charged for nobody"
        change(world, abuse, changes)
        assert world.charges().get("v", 0) == owned_by_v(world), "whatever the others change"
    assert owned_by_v(world) == wanted, "the guarantee gives team v all that it asks for"


def owned_by_v(world: World) -> int:
    """GPUs that pods of team v hold, counted from the objects."""
    return sum(
        1
        for (kind, namespace, _), item in world.objects.items()
        if kind == "Pod" and namespace == "ns-v" and item.spec.node_name  # type: ignore[union-attr]
    )
