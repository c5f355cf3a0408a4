"""Devices are held for claims of lost members of running gangs, as the rest of their capacity is."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from msgspec import structs
from phalanx.cache.events import Applied, Deleted
from phalanx.limits import CAPACITY_HOLD_MS
from phalanx.model.decisions import CycleResult
from phalanx.model.memory import Memory
from phalanx.model.names import GangId
from phalanx.model.reasons import Reason, Verdict
from phalanx.model.records import GangRecord

from tests.actions.test_device_guarantees import queue as guaranteed
from tests.actions.test_device_limits import (
    CLASSES,
    Parts,
    claim,
    claiming,
    exactly,
    first_of,
    limited,
    member,
)
from tests.actions.test_extended_resources import Play, gang, node, slice_on, written
from tests.builders import as_bound

NOW = 1_000_000
TWO = (node("a"), node("b"), *CLASSES, slice_on("a", "a0", "a1"), slice_on("b", "b0", "b1"))
"""Two nodes with two GPUs each."""


class Story(Play):
    """A play that remembers, and whose time moves on. The scheduler has bound the pods that run."""

    def __init__(self, *events: Applied) -> None:
        super().__init__(*events)
        self.memory = Memory()
        self.written: Mapping[GangId, GangRecord] = {}
        self.now = NOW

    def decide(self) -> CycleResult:
        snapshot = self.cache.snapshot(now=self.now, seed=3, memory=self.memory)
        bound = {name: as_bound(gang) for name, gang in snapshot.gangs.items() if gang.active}
        records = {**bound, **self.written, **self.memory.records}
        found = self.engine.decide(
            structs.replace(snapshot, memory=structs.replace(self.memory, records=records))
        )
        self.memory, self.written = found.memory, found.memory.records
        return found

    def placed(self) -> list[str]:
        """The pods that a cycle places and that have nodes from then on."""
        return sorted(bind.name for bind in self.place())

    def verdict(self, gang: str) -> Verdict:
        return next(each for each in self.decide().verdicts if each.group == f"team/{gang}")

    def loses(self, *pods: str) -> None:
        """These pods are gone, with the claims that were made for them."""
        for pod in pods:
            self.apply(Deleted("Pod", "team", pod), Deleted("ResourceClaim", "team", f"{pod}-gpu"))


def status_with(node: str, names: Sequence[str], users: Sequence[str]) -> Parts:
    results = [{"request": "r", "driver": "gpu", "pool": node, "device": each} for each in names]
    selector = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    given = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [selector]}}
    return {"allocation": given, "reservedFor": [_user(each) for each in users]}


def _user(pod: str) -> Parts:
    return {"resource": "pods", "name": pod, "uid": f"uid-{pod}"}


def running(name: str, *where: str, request: Parts | None = None, **spec: Any) -> list[Applied]:
    """A gang whose members have devices: each element is such as "a0 a1", of node a."""
    group_spec = {"minMember": len(where), "queue": spec.pop("queue", "default")}
    found: list[Applied] = [written("PodGroup", name, spec=group_spec)]
    labels = {"scheduling.phalanx.dev/pod-group": name}
    for index, some in enumerate(where):
        pod, given = f"{name}-{index}", some.split()
        on, entry = given[0][0], {"name": "gpu", "resourceClaimTemplateName": "t"}
        more = {"phase": "Running", "nodeName": on, **spec}
        found.append(member(pod, entry, made=f"{pod}-gpu", labels=labels, **more))
        asked = request or exactly(len(given))
        found.append(claim(f"{pod}-gpu", asked, owner=pod, status=status_with(on, given, (pod,))))
    return found


def replacement(name: str, index: int, *requests: Parts, **spec: Any) -> list[Applied]:
    """A new pod of the gang, with a claim that was made of its template."""
    labels = {"scheduling.phalanx.dev/pod-group": name}
    pod, entry = f"{name}-{index}", {"name": "gpu", "resourceClaimTemplateName": "t"}
    made = claim(f"{pod}-gpu", *(requests or (exactly(1),)), owner=pod)
    return [member(pod, entry, made=f"{pod}-gpu", labels=labels, **spec), made]


def lost(*where: str, **more: Any) -> Story:
    """A gang g that runs on all GPUs has lost its first member."""
    story = Story(*TWO, *running("g", *(where or ("a0", "a1", "b0", "b1")), **more))
    story.decide()
    story.loses("g-0")
    return story


def test_another_gang_does_not_get_the_devices_of_a_lost_member() -> None:
    story = lost()
    story.apply(*claiming("h", 1, exactly(1), queue="default"))
    assert story.placed() == []
    story.apply(*replacement("g", 7))
    assert story.placed() == ["g-7"]


def test_the_verdict_names_the_held_devices() -> None:
    story = lost()
    story.apply(*claiming("h", 1, exactly(1), queue="default"))
    found = story.verdict("h")
    assert found.reason is Reason.CAPACITY_RESERVED
    assert found.message == "free capacity, with device gpu/a/a0, is reserved for missing members of team/g"
    assert [each.finding for each in found.evidence] == [
        "lacks 1 pod with 1 cpu",
        "device gpu/a/a0 held for claims of its missing members",
    ]


@pytest.mark.parametrize(("priority", "placed"), [(-1, []), (0, []), (1, ["h-0"])])
def test_only_gangs_of_higher_priority_get_them(priority: int, placed: list[str]) -> None:
    story = lost()
    story.apply(*claiming("h", 1, exactly(1), queue="default")[:1], *replacement("h", 0, priority=priority))
    assert story.placed() == placed


def test_they_are_held_no_longer_than_the_rest_of_the_capacity() -> None:
    story = lost()
    story.apply(*claiming("h", 1, exactly(1), queue="default"))
    assert story.placed() == []
    story.now += CAPACITY_HOLD_MS - 1
    assert story.placed() == []
    story.now += 1
    assert story.placed() == ["h-0"]


def test_a_new_leader_holds_devices_like_those_of_the_other_members() -> None:
    story = lost()
    story.memory = Memory()
    story.apply(*claiming("h", 1, exactly(1), queue="default"))
    assert story.placed() == []


def test_free_devices_beside_the_held_ones_are_given_away() -> None:
    story = Story(*TWO, *running("g", "a0", "b0"))
    story.decide()
    story.loses("g-0")
    story.apply(
        *claiming("h", 2, exactly(1), queue="default"), *claiming("i", 1, exactly(1), queue="default")
    )
    assert story.placed() == ["h-0", "h-1"]


def test_the_rest_of_the_capacity_is_held_with_the_devices() -> None:
    """A gang without claims gets all 32 processors but those of the lost and of the running members."""
    story = lost()
    story.apply(*gang("h", 28))
    assert len(story.placed()) == 28
    story.apply(*gang("i", 1))
    assert story.placed() == []


def test_a_broken_device_is_not_held_and_another_one_is() -> None:
    story = Story(*TWO, *running("g", "a0", "b0"))
    story.decide()
    story.loses("g-0")
    story.apply(slice_on("a", "a1"))
    story.apply(*claiming("h", 1, exactly(1), queue="default"))
    assert story.placed() == ["h-0"]
    story.apply(*claiming("i", 1, exactly(1), queue="default"))
    assert story.placed() == []
    story.apply(*replacement("g", 7))
    assert story.placed() == ["g-7"]


def test_without_a_healthy_device_the_rest_is_held_and_the_verdict_says_so() -> None:
    story = lost()
    story.apply(slice_on("a", "a1"), *gang("h", 28))
    assert len(story.placed()) == 28
    story.apply(*gang("i", 1))
    found = story.verdict("i")
    assert found.reason is Reason.CAPACITY_RESERVED
    assert found.message == "free capacity is reserved for missing members of team/g"
    assert found.evidence[1].finding == "no devices are free to be held for the claims of 1 pod"


def tainted(name: str) -> Applied:
    taint = {"key": "broken", "effect": "NoSchedule"}
    selector = {"driver": "gpu", "pool": name[0], "device": name}
    return written("DeviceTaintRule", f"broken-{name}", spec={"deviceSelector": selector, "taint": taint})


def test_a_tainted_device_is_not_held() -> None:
    story = lost()
    tolerates = {"operator": "Exists"}
    story.apply(tainted("a0"), *claiming("h", 1, exactly(1, tolerations=[tolerates]), queue="default"))
    assert story.placed() == ["h-0"]


def test_a_claim_that_still_has_its_devices_keeps_them_and_they_are_held_when_it_is_gone() -> None:
    story = Story(*TWO, *running("g", "a0", "a1", "b0", "b1"))
    story.decide()
    story.apply(Deleted("Pod", "team", "g-0"), *claiming("h", 1, exactly(1), queue="default"))
    assert story.placed() == []
    story.apply(Deleted("ResourceClaim", "team", "g-0-gpu"))
    assert story.placed() == []
    story.apply(*replacement("g", 7))
    assert story.placed() == ["g-7"]


@pytest.mark.parametrize("is_gone", [False, True])
def test_devices_are_held_although_the_end_of_the_claim_is_seen_before_that_of_the_pod(is_gone: bool) -> None:
    """The node has no capacity for another pod while the member is there."""
    small = written("Node", "a", status={"allocatable": {"cpu": 2, "memory": "64Gi", "pods": 110}})
    one = (small, node("b"), *CLASSES, network("n0", "n1"))
    story = Story(*one, *shown("a"), *claiming("h", 1, exactly(1), queue="default"))
    assert story.placed() == []
    end = Deleted("ResourceClaim", "team", "g-0-gpu")
    story.apply(end if is_gone else claim("g-0-gpu", exactly(1), owner="g-0"))
    assert story.placed() == []
    story.loses("g-0")
    assert story.placed() == []
    story.apply(*replacement("g", 7))
    assert story.placed() == ["g-7"]


def test_members_with_different_claims_get_what_they_had() -> None:
    """The member with two devices is lost: one device is not enough."""
    story = Story(*TWO, *running("g", "a0 a1", "b0"))
    story.decide()
    story.loses("g-0")
    story.apply(
        *claiming("h", 1, exactly(1), queue="default"), *claiming("i", 1, exactly(1), queue="default")
    )
    assert story.placed() == ["h-0"]
    story.apply(*replacement("g", 7, exactly(2)))
    assert story.placed() == ["g-7"]


def test_the_first_new_member_leaves_the_devices_of_the_others() -> None:
    story = Story(*TWO, *running("g", "a0 a1", "b0", "b1"))
    story.decide()
    story.loses("g-0", "g-1")
    story.apply(*claiming("h", 1, exactly(1), queue="default"))
    assert story.placed() == []
    story.apply(*replacement("g", 7))
    assert story.placed() == ["g-7"]
    story.apply(*replacement("g", 8, exactly(2)))
    assert story.placed() == ["g-8"]


@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("b", "a")])
def test_two_gangs_keep_their_devices_apart_from_cycle_to_cycle(first: str, second: str) -> None:
    """The gang that is tried first could run where the other one must."""
    small, large = running("f", f"{first}0", f"{first}1"), running("g", f"{second}0 {second}1", "c0")
    story = Story(*TWO, node("c"), slice_on("c", "c0"), *small, *large)
    story.decide()
    story.loses("f-0")
    story.apply(*claiming("h", 1, exactly(1), queue="default"))
    assert story.placed() == []
    story.loses("g-0")
    for _ in range(2):
        assert story.placed() == []
    story.apply(*replacement("f", 7))
    assert story.placed() == ["f-7"]
    story.apply(*replacement("g", 7, exactly(2)))
    assert story.placed() == ["g-7"]


def extended_gang(name: str, *where: str) -> list[Applied]:
    """Its members request one GPU each, and have these devices."""
    found = gang(name, len(where), gpu=1)
    for index, device in enumerate(where):
        pod: Any = found[index + 1].object
        spec = structs.replace(pod.spec, node_name=device[0])
        found[index + 1] = Applied(structs.replace(pod, spec=spec))
        of = exactly(1)
        of["name"] = "container-0-request-1"
        status = status_with(device[0], (device,), (f"{name}-{index}",))
        status["allocation"]["devices"]["results"][0]["request"] = of["name"]
        made = claim(f"{name}-{index}-gpu", of, owner=f"{name}-{index}", status=status)
        meta = structs.replace(
            made.object.metadata, annotations={"resource.kubernetes.io/extended-resource-claim": "true"}
        )
        found.append(Applied(structs.replace(made.object, metadata=meta)))
    return found


def test_devices_for_extended_resources_of_a_lost_member_are_held() -> None:
    story = Story(*TWO, *extended_gang("g", "a0", "a1", "b0", "b1"))
    story.decide()
    story.loses("g-0")
    story.apply(*claiming("h", 1, exactly(1), queue="default"))
    assert story.placed() == []
    story.apply(gang("g", 8, gpu=1)[8])
    assert story.placed() == ["g-7"]


def shared(name: str, on: str, *pods: str) -> Applied:
    return claim(name, exactly(1), status=status_with(on, (f"{on}0",), pods))


def test_a_shared_claim_keeps_its_devices_and_its_nodes() -> None:
    entry = {"name": "gpu", "resourceClaimName": "c"}
    labels = {"scheduling.phalanx.dev/pod-group": "g"}
    pods = [member(f"g-{i}", entry, labels=labels, phase="Running", nodeName="a") for i in range(2)]
    group = written("PodGroup", "g", spec={"minMember": 2})
    story = Story(*TWO, group, *pods, shared("c", "a", "g-0", "g-1"))
    story.decide()
    story.apply(Deleted("Pod", "team", "g-0"), shared("c", "a", "g-1"))
    story.apply(*claiming("h", 3, exactly(1), queue="default"))
    assert story.placed() == ["h-0", "h-1", "h-2"]
    assert story.memory.compositions[GangId("uid-g")].held.keys() == {"a"}


def test_a_named_claim_of_one_pod_is_held_when_it_has_lost_its_devices() -> None:
    entry = {"name": "gpu", "resourceClaimName": "c"}
    labels = {"scheduling.phalanx.dev/pod-group": "g"}
    pods = [
        member("g-0", entry, labels=labels, phase="Running", nodeName="a"),
        member("g-1", labels=labels, phase="Running", nodeName="a"),
    ]
    group = written("PodGroup", "g", spec={"minMember": 2})
    small = (node("a"), *CLASSES, slice_on("a", "a0"))
    story = Story(*small, group, *pods, shared("c", "a", "g-0"))
    story.decide()
    story.apply(Deleted("Pod", "team", "g-0"), claim("c", exactly(1)))
    story.apply(*claiming("h", 1, exactly(1), queue="default"))
    assert story.placed() == []
    story.apply(member("g-7", entry, labels=labels))
    assert story.placed() == ["g-7"]


def test_the_first_of_alternatives_that_is_free_is_held() -> None:
    story = lost(request=first_of((1, "gpu"), (1, "nic")))
    story.apply(*claiming("h", 1, exactly(1), queue="default"))
    assert story.placed() == []


def shares(*names: str) -> Applied:
    """Devices of node a with 4 units that claims can share."""
    found = [
        {"name": each, "allowMultipleAllocations": True, "capacity": {"units": {"value": "4"}}}
        for each in names
    ]
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    return written(
        "ResourceSlice", "a-gpu", spec={"driver": "gpu", "nodeName": "a", "pool": pool, "devices": found}
    )


def share(units: int) -> Parts:
    return exactly(1, capacity={"requests": {"units": str(units)}})


@pytest.mark.parametrize(("units", "placed"), [(1, ["h-0"]), (2, [])])
def test_shares_of_devices_are_held(units: int, placed: list[str]) -> None:
    """The lost member had 2 of 4 units, another one has 1: 1 is left."""
    story = Story(node("a"), *CLASSES, shares("a0"))
    story.apply(*share_gang("g", 2, 1))
    story.decide()
    story.loses("g-0")
    story.apply(*claiming("h", 1, share(units), queue="default"))
    assert story.placed() == placed
    story.apply(*replacement("g", 7, share(2)))
    assert story.placed() == ["g-7"]


def share_gang(name: str, *units: int) -> list[Applied]:
    found: list[Applied] = [written("PodGroup", name, spec={"minMember": len(units)})]
    labels = {"scheduling.phalanx.dev/pod-group": name}
    for index, count in enumerate(units):
        pod, entry = f"{name}-{index}", {"name": "gpu", "resourceClaimTemplateName": "t"}
        found.append(member(pod, entry, made=f"{pod}-gpu", labels=labels, phase="Running", nodeName="a"))
        status = status_with("a", ("a0",), (pod,))
        status["allocation"]["devices"]["results"][0].update(
            shareID=f"00000000-0000-0000-0000-{index:012}", consumedCapacity={"units": str(count)}
        )
        found.append(claim(f"{pod}-gpu", share(count), owner=pod, status=status))
    return found


def partitions() -> Applied:
    """A GPU of node a as one partition of 2 slices or as two of 1."""
    parts = [("whole", 2), ("left", 1), ("right", 1)]
    found = [
        {"name": each, "consumesCounters": [{"counterSet": "gpu", "counters": {"slices": {"value": str(n)}}}]}
        for each, n in parts
    ]
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 2}
    spec = {"driver": "gpu", "nodeName": "a", "pool": pool}
    return written("ResourceSlice", "a-gpu", spec={**spec, "devices": found})


def counters() -> Applied:
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 2}
    sets = [{"name": "gpu", "counters": {"slices": {"value": "2"}}}]
    return written(
        "ResourceSlice",
        "a-sets",
        spec={"driver": "gpu", "nodeName": "a", "pool": pool, "sharedCounters": sets},
    )


def test_what_partitions_consume_is_held() -> None:
    story = Story(node("a"), *CLASSES, partitions(), counters(), *partition_gang("g", "left", "right"))
    story.decide()
    story.loses("g-0")
    story.apply(*claiming("h", 1, exactly(1), queue="default"))
    assert story.placed() == []
    story.apply(*replacement("g", 7))
    assert story.placed() == ["g-7"]


def partition_gang(name: str, *parts: str) -> list[Applied]:
    found: list[Applied] = [written("PodGroup", name, spec={"minMember": len(parts)})]
    labels = {"scheduling.phalanx.dev/pod-group": name}
    for index, part in enumerate(parts):
        pod, entry = f"{name}-{index}", {"name": "gpu", "resourceClaimTemplateName": "t"}
        found.append(member(pod, entry, made=f"{pod}-gpu", labels=labels, phase="Running", nodeName="a"))
        found.append(claim(f"{pod}-gpu", exactly(1), owner=pod, status=status_with("a", (part,), (pod,))))
    return found


def network(*names: str) -> Applied:
    pool = {"name": "net", "generation": 1, "resourceSliceCount": 1}
    found = [{"name": each} for each in names]
    spec = {"driver": "gpu", "allNodes": True, "pool": pool, "devices": found}
    return written("ResourceSlice", "net", spec=spec)


def test_a_device_that_several_nodes_can_use_is_held() -> None:
    story = Story(node("a"), node("b"), *CLASSES, network("n0", "n1"), *shown("a"))
    story.decide()
    story.loses("g-0")
    story.apply(*claiming("h", 1, exactly(1), queue="default"))
    assert story.placed() == []
    assert story.verdict("h").reason is Reason.CAPACITY_RESERVED
    story.apply(*replacement("g", 7))
    assert story.placed() == ["g-7"]


def shown(on: str) -> list[Applied]:
    """A gang that runs on this node, each pod with a device of the network."""
    found: list[Applied] = [written("PodGroup", "g", spec={"minMember": 2})]
    for index in range(2):
        pod = f"g-{index}"
        results = [{"request": "r", "driver": "gpu", "pool": "net", "device": f"n{index}"}]
        status = {"allocation": {"devices": {"results": results}}, "reservedFor": [_user(pod)]}
        entry = {"name": "gpu", "resourceClaimTemplateName": "t"}
        labels = {"scheduling.phalanx.dev/pod-group": "g"}
        found.append(member(pod, entry, made=f"{pod}-gpu", labels=labels, phase="Running", nodeName=on))
        found.append(claim(f"{pod}-gpu", exactly(1), owner=pod, status=status))
    return found


@pytest.mark.parametrize(("limit", "placed"), [(4, []), (5, ["h-0"])])
def test_the_queue_is_charged_for_held_devices(limit: int, placed: list[str]) -> None:
    more = slice_on("b", "b0", "b1", "b2")
    story = Story(limited(limit), *TWO, more, *running("g", "a0", "a1", "b0", "b1", queue="q"))
    story.decide()
    story.loses("g-0")
    story.apply(*claiming("h", 1, exactly(1), queue="q"))
    assert story.placed() == placed


@pytest.mark.parametrize(("guarantee", "placed"), [(4, ["h-0"]), (0, [])])
@pytest.mark.parametrize("names", ["gh", "hg"])
def test_a_gang_that_is_guaranteed_devices_gets_those_that_are_held_for_others(
    names: str, guarantee: int, placed: list[str]
) -> None:
    """Whether its queue is tried before the other one or later."""
    own, other = f"q{names.index('h')}", f"q{names.index('g')}"
    queues = (guaranteed(own, guarantee), guaranteed(other, 0))
    eight = (node("a"), *CLASSES, slice_on("a", *(f"a{index}" for index in range(8))))
    story = Story(*queues, *eight, *running("g", "a0 a1 a2 a3", "a4 a5", queue=other))
    story.decide()
    story.loses("g-0")
    story.apply(*claiming("i", 1, exactly(8), queue=own))
    assert story.placed() == []
    story.apply(*claiming("h", 1, exactly(4), queue=own))
    assert story.placed() == placed


@pytest.mark.parametrize(("limit", "placed"), [(2, ["h-0"]), (3, [])])
def test_the_queue_is_charged_for_more_devices_than_the_member_had(limit: int, placed: list[str]) -> None:
    """The member had the second alternative, one device. The first one is free now."""
    either = first_of((2, "gpu"), (1, "gpu"))
    pods = [*running("g", "a0", "b0", queue="q")[:2], claim("g-0-gpu", either, owner="g-0")]
    status = status_with("a", ("a0",), ("g-0",))
    status["allocation"]["devices"]["results"][0]["request"] = "r/s1"
    pods[2] = claim("g-0-gpu", either, owner="g-0", status=status)
    more = running("g", "a0", "b0", queue="q")[3:]
    story = Story(limited(limit), *TWO, slice_on("b", "b0"), *pods, *more)
    story.decide()
    story.loses("g-0")
    story.apply(*claiming("h", 1, exactly(1), queue="default"))
    assert story.placed() == placed


def test_a_memory_with_claims_can_be_written_and_read() -> None:
    story = lost()
    story.apply(*claiming("h", 1, exactly(1), queue="default"))
    story.decide()
    assert story.memory.compositions[GangId("uid-g")].held
    read = msgspec.json.decode(msgspec.json.encode(story.memory), type=Memory)
    assert read.compositions == story.memory.compositions
