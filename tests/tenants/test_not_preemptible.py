"""`disruption.preemptible: false` protects only where a guarantee bounds it, or where a Queue allows it.

The oracle reads the words of docs/preemption.md ("Which gangs are protected") from the written Queues.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import holds
from tests.model.written import label, named, node
from tests.model.written import pod as any_pod
from tests.tenants.world import CHARGED, World, ago

GPU, HCA = "nvidia.com/gpu", "rdma/hca"
Amounts = Mapping[str, int]


def world_of(path: Sequence[dict[str, Any]], pods: Sequence[Amounts], *, pool: str = "a") -> World:
    """A gang that asks not to be preempted fills a node, in the last queue of the path.

    A pod of higher priority in the same queue needs the whole node.
    """
    world = World(nodes=0).namespace("ns").priority_class("high", 100)
    amounts = {"cpu": "64", "pods": "110", GPU: "8", HCA: "8"}
    world.put(node("n0", labels={"pool": pool}, status={"allocatable": amounts}))
    for depth, spec in enumerate(path):
        above = {"parent": f"q{depth - 1}"} if depth else {}
        world.put(named("Queue", f"q{depth}", spec={**spec, **above}))
    queue = f"q{len(path) - 1}" if path else "default"
    world.group("stays", "ns", minMember=len(pods), queue=queue, disruption={"preemptible": False})
    running = {"phase": "Running", "startTime": ago(60)}
    for index, requests in enumerate(pods):
        world.put(
            any_pod(
                f"stays-{index}",
                namespace="ns",
                owner="job",
                labels={label("pod-group"): "stays"},
                meta={"creationTimestamp": ago(60), "annotations": {CHARGED: queue}},
                requests=requests,
                nodeName="n0",
                status=running,
            )
        )
    high = any_pod("high", namespace="ns", labels={label("queue"): queue}, requests={"cpu": 64}, priority=100)
    return world.put(high)


def is_evicted(world: World) -> bool:
    return bool(world.decide().evicted)


def hint(world: World) -> str:
    """What the status of the running gang says about ignored fields."""
    gangs = world.start().snapshot().gangs.values()
    return "; ".join(next(gang for gang in gangs if gang.name == "stays").ignored)


GPUS = [{GPU: 4, "cpu": 1}, {GPU: 4, "cpu": 1}]


@pytest.mark.parametrize(
    ("path", "evicted", "said"),
    [
        ([], True, True),  # a cluster without Queues
        ([{}], True, True),
        ([{}, {}], True, True),
        ([{"guarantee": {GPU: 8}}], False, False),
        ([{"guarantee": {GPU: 8}}, {}], False, False),
        ([{"guarantee": {GPU: 0}}], True, False),  # the field is in force, and the gang is beyond
        ([{"guarantee": {"cpu": 8}}], True, True),  # not a guarantee of the device
        ([{"guarantee": {HCA: 8}}], True, True),
        ([{"disruption": {"allowNonPreemptible": True}}], False, False),
        ([{"disruption": {"allowNonPreemptible": True}}, {}], False, False),
        (
            [{"disruption": {"allowNonPreemptible": True}}, {"disruption": {"allowNonPreemptible": False}}],
            1,
            1,
        ),
        (
            [{"disruption": {"allowNonPreemptible": False}}, {"disruption": {"allowNonPreemptible": True}}],
            0,
            0,
        ),
        ([{"disruption": {"allowNonPreemptible": True}, "guarantee": {GPU: 4}}], True, False),
    ],
)
def test_where_the_field_is_in_force(path: list[dict[str, Any]], evicted: bool, said: bool) -> None:
    world = world_of(path, GPUS)
    assert is_evicted(world) == bool(evicted)
    assert bool(hint(world)) == bool(said)


def flavor(name: str, pool: str, gpus: int) -> dict[str, Any]:
    return {"name": name, "nodeSelector": {"pool": pool}, "guarantee": {GPU: gpus}}


@pytest.mark.parametrize(("pool", "evicted"), [("a", False), ("b", True)])
def test_a_guarantee_of_a_flavor_protects_on_its_nodes(pool: str, evicted: bool) -> None:
    world = world_of([{"flavors": [flavor("fast", "a", 8)]}], GPUS, pool=pool)
    assert is_evicted(world) is evicted
    assert "only on nodes of flavors with a guarantee: fast" in hint(world)


def test_the_status_says_what_is_missing() -> None:
    assert hint(world_of([{}], GPUS)) == (
        "PodGroup stays: disruption.preemptible false is not in force: neither queue q0 nor an ancestor "
        "names a guarantee of nvidia.com/gpu, or has disruption.allowNonPreemptible"
    )


def test_such_a_gang_starts_like_any_other() -> None:
    """Also beyond a guarantee that names none of its devices."""
    world = World().queue("q", guarantee=0).put(named("Queue", "q", spec={"guarantee": {"cpu": 1}}))
    world.namespace("ns").group("g", "ns", minMember=2, queue="q", disruption={"preemptible": False})
    assert set(world.pods("g", "ns", 2, gpus=4, group="g").decide().placed) == {"g-0", "g-1"}


def test_its_reserved_capacity_is_given_up_like_that_of_any_other() -> None:
    """Queue y is guaranteed what queue x holds for members that do not exist yet."""
    for guarantee, placed in ((0, {"owner"}), (8, set())):
        world = World().queue("x", guarantee=guarantee).queue("y", guarantee=8).namespace("ns")
        roles = [
            {"name": "driver", "count": 1},
            {"name": "worker", "count": 2, "requests": {GPU: 4, "cpu": 1}},
        ]
        placed_members = [
            {"role": "driver", "bound": 1},
            {"role": "worker", "reserved": 2, "requests": {GPU: 4, "cpu": 1}},
        ]
        world.group(
            "g",
            "ns",
            minMember=3,
            queue="x",
            startWhen="Reserved",
            roles=roles,
            disruption={"preemptible": False},
            status={"record": {"placed": placed_members}},
        )
        world.pod("driver", "ns", gpus=0, group="g", labels={label("role"): "driver"}, on="n0", charged="x")
        outcome = world.pod("owner", "ns", gpus=8, queue="y").decide()
        assert set(outcome.placed) == placed


# --- among equals -----------------------------------------------------------------------------------------


def equals(*, asks: str, since: Mapping[str, float], namespaces: Mapping[str, str], cpu: int = 1) -> set[str]:
    """Which of several gangs of one GPU is evicted for a queue that is guaranteed one."""
    world = World(gpus=len(since)).queue("x").queue("y", guarantee=1)
    for name in set(namespaces.values()):
        world.namespace(name)
    for name, minutes in since.items():
        spec = {"disruption": {"preemptible": False}} if name in asks.split() else {}
        world.group(name, namespaces[name], queue="x", **spec)
        world.pod(f"{name}-0", namespaces[name], gpus=1, group=name, on="n0", since=minutes, charged="x")
    return world.namespace("ns-y").pod("owner", "ns-y", gpus=1, queue="y").decide().evicted


SAME = {"a": "one", "b": "one", "c": "one"}


@pytest.mark.parametrize(
    ("asks", "since", "namespaces", "evicted"),
    [
        ("", {"a": 60, "b": 5}, SAME, {"b-0"}),
        ("b", {"a": 60, "b": 5}, SAME, {"a-0"}),
        ("b", {"a": 6000, "b": 5}, SAME, {"a-0"}),  # however long it has run
        ("a b", {"a": 60, "b": 5}, SAME, {"b-0"}),  # what all ask for is for nobody
        ("b", {"a": 5, "b": 5}, SAME, {"a-0"}),
        ("a", {"a": 5, "b": 5}, SAME, {"b-0"}),
        ("b", {"a": 60, "b": 5}, {"a": "one", "b": "two"}, {"b-0"}),  # nothing is asked about gangs of others
        ("b", {"a": 60, "b": 5, "c": 30}, {**SAME, "c": "two"}, {"a-0"}),  # nor at the expense of others
    ],
)
def test_the_preference_counts_among_equals_of_one_namespace(
    asks: str, since: Mapping[str, float], namespaces: Mapping[str, str], evicted: set[str]
) -> None:
    assert equals(asks=asks, since=since, namespaces=namespaces) == evicted


@holds(25)
@given(
    st.lists(
        st.tuples(st.sampled_from(["one", "two"]), st.integers(2, 400), st.booleans()), min_size=2, max_size=6
    )
)
def test_a_preference_never_moves_an_eviction_to_another_namespace(
    gangs: list[tuple[str, int, bool]],
) -> None:
    """The same namespace loses a gang as if nobody asked: one that does not have it, if there is one."""
    names = [f"g{index}" for index in range(len(gangs))]
    since = {
        name: minutes + index / 1000
        for index, (name, (_, minutes, _)) in enumerate(zip(names, gangs, strict=True))
    }
    namespaces = {name: each[0] for name, each in zip(names, gangs, strict=True)}
    asks = " ".join(name for name, each in zip(names, gangs, strict=True) if each[2])
    costs = {name: int(since[name]) for name in names}
    (without,) = equals(asks="", since=since, namespaces=namespaces)
    (found,) = equals(asks=asks, since=since, namespaces=namespaces)
    without, found = without.removesuffix("-0"), found.removesuffix("-0")
    tied = {namespaces[name] for name in names if costs[name] == costs[without]}
    assert namespaces[found] in tied
    has_other = any(namespaces[name] == namespaces[found] and name not in asks.split() for name in names)
    assert (found in asks.split()) is not has_other


# --- against the words of the rule ------------------------------------------------------------------------

amounts = st.sampled_from([None, 0, 4, 8, 64])


@st.composite
def queues(draw: st.DrawFn) -> dict[str, Any]:
    named_here = {name: draw(amounts) for name in draw(st.sets(st.sampled_from([GPU, HCA, "cpu"])))}
    spec: dict[str, Any] = {
        "guarantee": {name: value for name, value in named_here.items() if value is not None}
    }
    if draw(st.integers(0, 3)) == 0:
        spec["flavors"] = [flavor("fast", draw(st.sampled_from("ab")), draw(st.sampled_from([0, 8])))]
    allows = draw(st.sampled_from([None, None, None, True, False]))
    return spec if allows is None else {**spec, "disruption": {"allowNonPreemptible": allows}}


POD = st.sampled_from([{GPU: 2, "cpu": 1}, {HCA: 1, "cpu": 1}, {GPU: 1, HCA: 1, "cpu": 1}, {"cpu": 4}])


def scopes(path: Sequence[dict[str, Any]]) -> list[Amounts]:
    """Every guarantee on the path that counts on a node of pool a."""
    of_flavors = [each for spec in path for each in spec.get("flavors", ())]
    return [
        *(spec["guarantee"] for spec in path),
        *(each["guarantee"] for each in of_flavors if each["nodeSelector"] == {"pool": "a"}),
    ]


def is_protected(path: Sequence[dict[str, Any]], pods: Sequence[Amounts]) -> bool:
    """Whether the words of the rule protect the gang, which runs on a node of pool a."""
    stated = [spec["disruption"]["allowNonPreemptible"] for spec in path if "disruption" in spec]
    guarantees = scopes(path)
    held = {name: sum(pod.get(name, 0) for pod in pods) for name in (GPU, HCA, "cpu")}
    if any(held[name] > amount for each in guarantees for name, amount in each.items()):
        return False
    if stated and stated[-1]:
        return True
    guaranteed = {name for each in guarantees for name in each}
    with_devices = [pod for pod in pods if GPU in pod or HCA in pod]
    if not with_devices:
        return "cpu" in guaranteed
    return all(any(name in guaranteed for name in pod if name != "cpu") for pod in with_devices)


@holds(40)
@given(st.lists(queues(), min_size=1, max_size=3), st.lists(POD, min_size=1, max_size=3))
def test_a_gang_is_protected_as_the_rule_says(path: list[dict[str, Any]], pods: list[Amounts]) -> None:
    world = world_of(path, pods)
    protected = is_protected(path, pods)
    assert is_evicted(world) is not protected
    assert not (protected and "is not in force" in hint(world))
