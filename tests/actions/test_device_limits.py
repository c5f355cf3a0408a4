"""Queues are charged for devices of claims, of device plugins and of extended resources alike, each once."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.cache.events import Applied, Deleted
from phalanx.model.decisions import Bind
from phalanx.model.names import QueueName
from phalanx.model.reasons import Reason

from tests.actions.test_extended_resources import GPU, Play, device_class, gang, node, slice_on, written
from tests.cache.world import take_snapshot
from tests.examples import holds

IMPLICIT = "deviceclass.resource.kubernetes.io/"
Parts = dict[str, Any]


def exactly(count: int = 1, of: str = "gpu", **more: Any) -> Parts:
    fields = {"deviceClassName": of, "allocationMode": "ExactCount", "count": count, **more}
    return {"name": "r", "exactly": fields}


def everything(of: str = "gpu") -> Parts:
    return {"name": "r", "exactly": {"deviceClassName": of, "allocationMode": "All"}}


def first_of(*alternatives: tuple[int, str]) -> Parts:
    found = [
        {"name": f"s{number}", "deviceClassName": of, "allocationMode": "ExactCount", "count": count}
        for number, (count, of) in enumerate(alternatives)
    ]
    return {"name": "r", "firstAvailable": found}


def queue(name: str = "q", parent: str = "", limit: dict[str, int] | None = None) -> Applied:
    spec: Parts = {"limit": limit or {}, **({"parent": parent} if parent else {})}
    return written("Queue", name, metadata={"namespace": ""}, spec=spec)


def limited(gpus: int, name: str = "q", parent: str = "") -> Applied:
    return queue(name, parent, {GPU: gpus})


def claim(
    name: str, *requests: Parts, owner: str = "", uid: str = "", status: Parts | None = None
) -> Applied:
    meta: Parts = {"uid": uid or f"uid-{name}"}
    if owner:
        meta["ownerReferences"] = [{"kind": "Pod", "name": owner, "uid": f"uid-{owner}", "controller": True}]
    spec = {"devices": {"requests": list(requests)}}
    return written("ResourceClaim", name, metadata=meta, spec=spec, status=status or {})


def allocated(
    name: str, *requests: Parts, devices: str, users: tuple[str, ...], is_admin: bool = False
) -> Applied:
    """A claim that the API shows with devices of node a, which another scheduler may have given."""
    given = {"request": "r", "driver": "gpu", "pool": "a", "adminAccess": is_admin}
    reserved = [{"resource": "pods", "name": each, "uid": f"uid-{each}"} for each in users]
    results = [{**given, "device": each} for each in devices]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
    return claim(name, *requests, status=status)


def member(
    name: str, *entries: Parts, made: str = "", labels: Parts | None = None, phase: str = "", **spec: Any
) -> Applied:
    container = {"name": "main", "resources": {"requests": {"cpu": 1}}}
    created = f"2026-01-01T00:00:{spec.pop('created', 0):02}Z"
    fields = {"schedulerName": "phalanx", "containers": [container], "resourceClaims": [*entries], **spec}
    status: Parts = {"phase": phase or "Pending"}
    status["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": made}] if made else []
    meta = {"labels": labels or {}, "creationTimestamp": created}
    return written("Pod", name, metadata=meta, spec=fields, status=status)


def claiming(name: str, size: int, *requests: Parts, queue: str = "q", shared: str = "") -> list[Applied]:
    """A gang whose members have a claim of their own each, or share one."""
    found: list[Applied] = [written("PodGroup", name, spec={"minMember": size, "queue": queue})]
    labels = {"scheduling.phalanx.dev/pod-group": name}
    for index in range(size):
        pod = f"{name}-{index}"
        if shared:
            found.append(member(pod, {"name": "gpu", "resourceClaimName": shared}, labels=labels))
        else:
            entry = {"name": "gpu", "resourceClaimTemplateName": "t"}
            found.append(member(pod, entry, made=f"{pod}-gpu", labels=labels))
            found.append(claim(f"{pod}-gpu", *requests, owner=pod))
    return found


def in_queue(events: list[Applied], queue: str = "q") -> list[Applied]:
    group = events[0].object
    spec = {"minMember": len(events) - 1, "queue": queue}
    return [written("PodGroup", group.metadata.name, spec=spec), *events[1:]]


def used(play: Play, queue: str = "q", of: str = GPU) -> int:
    usage = take_snapshot(play.cache).queue_usage.get(QueueName(queue), {})
    return sum(amounts.get(of, 0) for amounts in usage.values())


def reasons(play: Play) -> list[Reason]:
    return [each.reason for each in play.decide().verdicts]


CLASSES = (device_class("gpu", GPU), device_class("nic"))
EIGHT = (node("a"), *CLASSES, slice_on("a", *"stuvwxyz"))


# --- limits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("count", [1, 2])
def test_a_gang_starts_up_to_the_limit_and_not_beyond(size: int, count: int) -> None:
    for limit, starts in [(size * count, True), (size * count - 1, False)]:
        play = Play(limited(limit), *EIGHT, *claiming("g", size, exactly(count)))
        assert len(play.place()) == (size if starts else 0)
        assert used(play) == (size * count if starts else 0)
        assert reasons(play) == ([] if starts else [Reason.ABOVE_QUEUE_LIMIT])


def test_a_limit_counts_claims_device_plugins_and_extended_resources_each_device_once() -> None:
    gangs = [
        *claiming("g", 1, exactly(2)),
        *in_queue(gang("h", 1, gpu=1)),
        *in_queue(gang("i", 1, **{f"{IMPLICIT}gpu": 1})),
        *in_queue(gang("j", 1, gpu=1)),
    ]
    play = Play(limited(5), node("b", gpu=1), *EIGHT, *gangs)
    assert len(play.place()) == 4
    assert used(play) == 5
    play.apply(*claiming("k", 1, exactly()))
    assert reasons(play) == [Reason.QUEUE_LIMIT]
    message = play.decide().verdicts[0].message
    assert message == f"the limit of queue q is reached: 1 {GPU} needed, 0 {GPU} left"


def test_members_with_claims_and_members_that_request_the_resource_of_nodes_count_together() -> None:
    group = written("PodGroup", "g", spec={"minMember": 2, "queue": "q"})
    parts = [group, claiming("g", 1, exactly(2))[1], claiming("g", 1, exactly(2))[2], gang("g", 2, gpu=1)[2]]
    for limit, starts in [(3, 2), (2, 0)]:
        play = Play(limited(limit), node("b", gpu=1), *EIGHT, *parts)
        assert len(play.place()) == starts
    nowhere = Play(limited(3), node("b"), node("a"), *CLASSES, slice_on("a", "x", "y"), *parts)
    assert not nowhere.place(), "the node offers no resource, and its devices are for the claim"


def test_a_class_without_a_resource_counts_under_its_own_name() -> None:
    limit = {f"{IMPLICIT}nic": 1}
    nics = slice_on("a", "n0", "n1", driver="nic")
    play = Play(queue(limit=limit), *EIGHT, nics, *claiming("g", 1, exactly(of="nic")))
    assert len(play.place()) == 1
    assert used(play, of=f"{IMPLICIT}nic") == 1
    play.apply(*claiming("h", 1, exactly(of="nic")))
    assert reasons(play) == [Reason.QUEUE_LIMIT]


def test_classes_over_the_same_devices_count_under_the_resource_that_all_state() -> None:
    other = device_class("fast", GPU), slice_on("a", "f0", driver="fast")
    play = Play(limited(1), *EIGHT, *other, *claiming("g", 1, exactly(of="fast")))
    assert len(play.place()) == 1
    play.apply(*claiming("h", 1, exactly()))
    assert reasons(play) == [Reason.QUEUE_LIMIT]


def test_the_limit_of_a_parent_counts_claims_of_all_its_queues() -> None:
    queues = (limited(3, "top"), queue(parent="top"), queue("r", parent="top"))
    play = Play(*queues, *EIGHT, *claiming("g", 1, exactly(2)), *claiming("h", 1, exactly(2), queue="r"))
    assert len(play.place()) == 1
    assert reasons(play) == [Reason.QUEUE_LIMIT]


def test_of_alternatives_the_most_count_until_devices_are_allocated() -> None:
    for alternatives, gets in [([(1, "gpu"), (4, "gpu")], 1), ([(4, "gpu"), (1, "gpu")], 4)]:
        play = Play(limited(3), *EIGHT, *claiming("g", 1, first_of(*alternatives)))
        assert not play.place()
        play.apply(limited(4))
        assert len(play.place()) == 1
        assert used(play) == gets
    mixed = first_of((2, "nic"), (1, "gpu"))
    play = Play(limited(0), *EIGHT, slice_on("a", "n0", "n1", driver="nic"), *claiming("h", 1, mixed))
    assert not play.place(), "a later attempt may get the alternative that is limited"


def test_all_devices_count_as_many_as_a_claim_can_have_until_they_are_allocated() -> None:
    play = Play(limited(31), *EIGHT, *claiming("g", 1, everything()))
    assert not play.place()
    play.apply(limited(32))
    assert len(play.place()) == 1
    assert used(play) == 8


def test_devices_for_administrators_do_not_count() -> None:
    play = Play(limited(0), *EIGHT, *claiming("g", 1, exactly(2, adminAccess=True)))
    assert len(play.place()) == 1
    assert used(play) == 0


# --- claims that pods share ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_claim_that_members_share_counts_once(size: int) -> None:
    for limit, starts in [(4, True), (3, False)]:
        play = Play(limited(limit), *EIGHT, claim("c", exactly(4)), *claiming("g", size, shared="c"))
        assert len(play.place()) == (size if starts else 0)
        assert used(play) == (4 if starts else 0)
        assert reasons(play) == ([] if starts else [Reason.ABOVE_QUEUE_LIMIT])


def test_the_verdict_says_what_shared_claims_need() -> None:
    play = Play(limited(4), *EIGHT, *claiming("g", 1, exactly(3)))
    assert len(play.place()) == 1
    play.apply(claim("c", exactly(2)), *claiming("h", 2, shared="c"))
    (verdict,) = play.decide().verdicts
    needs = f"2 {GPU} needed for claims that pods share, 1 {GPU} left"
    assert verdict.message == f"the limit of queue q is reached: {needs}"
    assert verdict.next_step == "Wait until gang team/g ends"


def test_a_claim_that_gangs_share_moves_to_the_next_user_when_the_first_ends() -> None:
    queues = (limited(4), limited(4, "r"))
    gangs = (*claiming("g", 2, shared="c"), *claiming("h", 1, shared="c", queue="r"))
    play = Play(*queues, *EIGHT, claim("c", exactly(4)), *gangs)
    assert len(play.place()) == 3
    counted = {"q": used(play), "r": used(play, "r")}
    assert counted == {"q": 4, "r": 0}
    play.apply(Deleted("Pod", "team", "g-0"))
    assert (used(play), used(play, "r")) == (4, 0)
    play.apply(Deleted("Pod", "team", "g-1"))
    assert (used(play), used(play, "r")) == (0, 4)
    play.apply(Deleted("Pod", "team", "h-0"))
    assert (used(play), used(play, "r")) == (0, 0)


def test_a_claim_that_another_queue_is_charged_for_must_fit_into_the_limit() -> None:
    queues = (limited(4), limited(3, "r"))
    play = Play(*queues, *EIGHT, claim("c", exactly(4)), *claiming("g", 1, shared="c"))
    assert len(play.place()) == 1
    play.apply(*claiming("h", 1, shared="c", queue="r"))
    assert reasons(play) == [Reason.ABOVE_QUEUE_LIMIT]


def gang_with_allocated_claims(name: str, *counts: int, users: tuple[str, ...] = ()) -> list[Applied]:
    """Each member names a claim that has so many devices of one node already; `users` are reserved for it."""
    found = [written("PodGroup", name, spec={"minMember": len(counts), "queue": "q"})]
    names = iter("stuvwxyz")
    for index, count in enumerate(counts):
        pod, of = f"{name}-{index}", f"{name}-{index}-gpu"
        labels = {"scheduling.phalanx.dev/pod-group": name}
        given = "".join(next(names) for _ in range(count))
        found.append(member(pod, {"name": "gpu", "resourceClaimName": of}, labels=labels))
        found.append(allocated(of, exactly(count), devices=given, users=users))
    return found


@pytest.mark.parametrize("users", [(), ("ended",)])
def test_allocated_claims_that_one_pod_each_names_count_as_what_they_have(users: tuple[str, ...]) -> None:
    """Their pods differ in nothing else, and a pod that is gone may still be reserved for them."""
    for counts in ((1, 3), (3, 1), (2, 2, 2)):
        for limit, starts in [(sum(counts), len(counts)), (sum(counts) - 1, 0)]:
            play = Play(limited(limit), *EIGHT, *gang_with_allocated_claims("g", *counts, users=users))
            assert len(play.place()) == starts
            assert used(play) == (sum(counts) if starts else 0)


def test_a_pod_with_several_allocated_claims_is_charged_for_each() -> None:
    entries = [{"name": f"n{each}", "resourceClaimName": f"g-{each}-gpu"} for each in range(3)]
    group = written("PodGroup", "g", spec={"minMember": 1, "queue": "q"})
    labels = {"scheduling.phalanx.dev/pod-group": "g"}
    claims = gang_with_allocated_claims("g", 2, 1, 1)[2::2]
    for limit, starts in [(4, 1), (3, 0)]:
        play = Play(limited(limit), *EIGHT, group, *claims, member("g-0", *entries, labels=labels))
        assert len(play.place()) == starts
        assert used(play) == (4 if starts else 0)


def test_a_later_gang_of_the_queue_uses_a_claim_that_is_charged_already() -> None:
    play = Play(limited(4), *EIGHT, claim("c", exactly(4)), *claiming("g", 1, shared="c"))
    assert len(play.place()) == 1
    play.apply(*claiming("h", 2, shared="c"))
    assert len(play.place()) == 2
    assert used(play) == 4


def test_a_pod_without_a_reservation_does_not_take_the_charge() -> None:
    """A pod that is bound by hand and names the claim of others would take it to another queue."""
    entry = {"name": "gpu", "resourceClaimName": "c"}
    users = (
        member("p", entry, created=2, nodeName="a"),
        allocated("c", exactly(2), devices="st", users=("p",)),
    )
    play = Play(queue(), *EIGHT, *users)
    assert used(play, "default") == 2
    group = written("PodGroup", "g", spec={"minMember": 1, "queue": "q"})
    labels = {"scheduling.phalanx.dev/pod-group": "g"}
    play.apply(group, member("older", entry, created=1, labels=labels, nodeName="a"))
    assert (used(play, "default"), used(play)) == (2, 0)


def test_a_claim_that_another_scheduler_allocated_counts_when_pods_of_ours_use_it() -> None:
    theirs = member("p", {"name": "gpu", "resourceClaimName": "c"}, schedulerName="other", nodeName="a")
    given = allocated("c", exactly(2), devices="st", users=("p",))
    play = Play(limited(1), *EIGHT, theirs, given, *claiming("g", 1, shared="c"))
    assert not play.place()
    play.apply(limited(2))
    assert len(play.place()) == 1
    assert used(play) == 2


def test_a_claim_that_is_made_again_counts_by_its_new_allocation() -> None:
    entry = {"name": "gpu", "resourceClaimName": "c"}
    play = Play(
        *EIGHT, member("p", entry, nodeName="a"), allocated("c", exactly(2), devices="st", users=("p",))
    )
    assert used(play, "default") == 2
    play.apply(claim("c", exactly(8), uid="another"))
    assert used(play, "default") == 0
    play.apply(Deleted("ResourceClaim", "team", "c"))
    assert used(play, "default") == 0


def test_a_claim_of_a_pod_that_has_ended_does_not_count() -> None:
    given = allocated("c", exactly(2), devices="st", users=("p",))
    done = member("p", {"name": "gpu", "resourceClaimName": "c"}, nodeName="a")
    play = Play(*EIGHT, given, done)
    assert used(play, "default") == 2
    spec = {"schedulerName": "phalanx", "nodeName": "a", "containers": [{"name": "main"}]}
    play.apply(written("Pod", "p", spec=spec, status={"phase": "Succeeded"}))
    assert used(play, "default") == 0


def test_a_class_that_gets_another_resource_counts_as_that_one() -> None:
    play = Play(limited(1), *EIGHT, *claiming("g", 1, exactly()))
    assert len(play.place()) == 1
    play.apply(device_class("gpu", "example.com/new"))
    assert (used(play), used(play, of="example.com/new")) == (0, 1)


# --- any gangs ----------------------------------------------------------------------------------------------

requests = st.one_of(
    st.builds(exactly, st.integers(1, 3), st.sampled_from(["gpu", "gpu", "nic"])),
    st.builds(lambda one, two: first_of((one, "gpu"), (two, "nic")), st.integers(1, 3), st.integers(1, 3)),
)
gangs = st.tuples(
    st.integers(1, 3),
    st.one_of(requests, st.sampled_from(["c", "d"]), st.integers(1, 2)),
    st.sampled_from(["q", "r"]),
)


def parts_of(name: str, size: int, wants: Any, queue: str) -> list[Applied]:
    if isinstance(wants, int):
        return in_queue(gang(name, size, gpu=wants), queue)
    if isinstance(wants, str):
        return claiming(name, size, shared=f"{wants}-{queue}", queue=queue)
    return claiming(name, size, wants, queue=queue)


def counted(binds: list[Bind], wants: dict[str, tuple[str, Any]]) -> dict[str, int]:
    """The GPUs of each queue: from the allocations of claims, each claim once, and from requests."""
    found, seen = {"q": 0, "r": 0}, set[str]()
    for bind in binds:
        queue, asked = wants[bind.name.rpartition("-")[0]]
        found[queue] += asked if isinstance(asked, int) else 0
        for grant in bind.grants if not isinstance(asked, int) else ():
            if grant.allocation is not None and grant.uid not in seen:
                seen.add(grant.uid)
                found[queue] += sum(each.device[0] == "gpu" for each in grant.allocation.devices)
    return found


@holds(12)
@given(
    st.lists(gangs, min_size=1, max_size=5),
    *(st.integers(0, 6) for _ in range(3)),
)
def test_no_schedule_exceeds_a_limit(made: list[Any], top: int, first: int, second: int) -> None:
    limits = {"top": top, "q": first, "r": second}
    queues = [limited(top, "top")]
    queues += [limited(limits[name], name, "top") for name in ("q", "r")]
    shared = [claim(f"{name}-{each}", exactly(2)) for name in "cd" for each in "qr"]
    nics = slice_on("a", "n0", "n1", driver="nic")
    play = Play(*queues, node("b", gpu=2), *EIGHT, nics, *shared)
    wants = {f"g{number}": (each[2], each[1]) for number, each in enumerate(made)}
    binds: list[Bind] = []
    for number, each in enumerate(made):
        play.apply(*parts_of(f"g{number}", *each))
        if number % 2 or number == len(made) - 1:
            binds += play.place()
    own = counted(binds, wants)
    assert own == {name: used(play, name) for name in own}
    assert all(own[name] <= limits[name] for name in own)
    assert sum(own.values()) <= top
