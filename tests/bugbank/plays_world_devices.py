"""Plays with claims to devices: what is allocated from which pools, and what the cache assumes meanwhile.

`named_devices.py` has plays with a driver, a claim controller and the whole scheduler.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Deleted, Forgotten
from phalanx.kube.devices.claim_documents import release, reservation
from phalanx.model.names import PodUid
from phalanx.model.supplies.devices.api import ResourceSlice
from phalanx.model.supplies.devices.claims import ClaimSpec
from phalanx.model.supplies.devices.pools import Slice
from phalanx.model.supplies.devices.slots import SlotCounter

from tests.cache import test_device_tables as tables
from tests.cache.world import new_cache
from tests.model.devices import CLASSES, DRIVER, MATCHER, answered, device, place, request, slice_of, spec_of

NUMA = "example.com/numa"
BROKEN = [{"key": "broken", "effect": "NoSchedule"}]


def gpus(*numbers: int) -> list[dict[str, Any]]:
    """One device for each of these NUMA nodes."""
    return [device(f"d{index}", example_com__numa=number) for index, number in enumerate(numbers)]


def expected(
    wanted: Sequence[str] | None, slices: Sequence[Slice], *claims: ClaimSpec, used: Sequence[str] = ()
) -> str | None:
    """What is wrong unless these devices are allocated to the claims; None for no allocation."""
    in_use = frozenset((DRIVER, "n", name) for name in used)
    answer = answered(place(*slices, in_use=in_use), *claims)
    found = None
    if answer.claims is not None:
        found = [each.device[2] for claim in answer.claims for each in claim]
    return None if found == (None if wanted is None else list(wanted)) else f"allocated {found}, not {wanted}"


def partitions(**whole: Any) -> list[Slice]:
    """A GPU that can be used whole or as two halves."""
    pool = {"resourceSliceCount": 2}
    sets = [{"name": "s", "counters": {"memory": {"value": "80Gi"}}}]

    def part(name: str, memory: str, **more: Any) -> dict[str, Any]:
        consumes = [{"counterSet": "s", "counters": {"memory": {"value": memory}}}]
        return {**device(name), "consumesCounters": consumes, **more}

    parts = (part("whole", "80Gi", **whole), part("half-1", "40Gi"), part("half-2", "40Gi"))
    return [slice_of(name="a", pool=pool, sharedCounters=sets), slice_of(*parts, name="b", pool=pool)]


# --- pools --------------------------------------------------------------------------------------------------


def a_pool_is_replaced_slice_by_slice() -> str | None:
    """One slice of two of the new generation is there: neither it nor the old one is used."""
    old = slice_of(device("old"), name="a")
    new = slice_of(device("new"), name="b", pool={"generation": 2, "resourceSliceCount": 2})
    return expected(None, [old, new], spec_of(request())) or expected(None, [new], spec_of(request()))


def a_withdrawn_device_is_not_used() -> str | None:
    """The driver has published a newer generation with other devices."""
    old = slice_of(device("a-old"), name="a")
    new = slice_of(device("new"), name="b", pool={"generation": 2})
    return expected(["new"], [old, new], spec_of(request()))


def a_tainted_device_is_not_used() -> str | None:
    tainted = {**device("d0"), "taints": BROKEN}
    return expected(["d1"], [slice_of(tainted, device("d1"))], spec_of(request()))


# --- the search ---------------------------------------------------------------------------------------------


def counters_of_a_refused_device_are_free() -> str | None:
    """The whole GPU has a taint: its halves are there for two claims."""
    return expected(["half-1", "half-2"], partitions(taints=BROKEN), spec_of(request()), spec_of(request()))


def counters_of_devices_in_use_are_taken() -> str | None:
    """A half is in use: there is no whole GPU."""
    return expected(["half-2"], partitions(), spec_of(request()), used=["half-1"])


def a_constraint_forgets_what_was_given_back() -> str | None:
    """The first device has no partner of its NUMA node: the other two are taken."""
    match = [{"matchAttribute": NUMA}]
    return expected(["d1", "d2"], [slice_of(*gpus(0, 1, 1))], spec_of(request(count=2), constraints=match))


def an_alternative_that_failed_leaves_its_devices() -> str | None:
    """All devices are wanted, or else one of NUMA node 0: one is in use, so it is the other one."""
    every = {"name": "every", "deviceClassName": "gpu", "allocationMode": "All"}
    one = {"name": "one", "deviceClassName": "gpu"}
    claim = spec_of({"name": "r", "firstAvailable": [every, one]})
    return expected(["d0"], [slice_of(*gpus(0, 0))], claim, used=["d1"])


def members_leave_devices_to_each_other() -> str | None:
    """Each of two members needs any device, and one of NUMA node 0, of which there are two."""
    on_zero = 'device.attributes["example.com"].numa == 0'
    claims = (spec_of(request("any")), spec_of(request("zero", on_zero)))
    counter = SlotCounter(claims, classes=CLASSES, matcher=MATCHER)
    found = counter.count(place(slice_of(*gpus(0, 0, 1, 1))), 2)
    return None if found.count == 2 else f"{found.count} of 2 members fit"


def _parts(name: str, **more: Any) -> dict[str, Any]:
    """A device that several claims can have, which uses 3 of 4 parts."""
    consumes = [{"counterSet": "s", "counters": {"parts": {"value": "3"}}}]
    return {**device(name), "allowMultipleAllocations": True, "consumesCounters": consumes, **more}


def _with_parts(*devices: dict[str, Any]) -> list[Slice]:
    pool = {"resourceSliceCount": 2}
    sets = [{"name": "s", "counters": {"parts": {"value": "4"}}}]
    return [slice_of(name="a", pool=pool, sharedCounters=sets), slice_of(*devices, name="b", pool=pool)]


def a_second_share_needs_no_counters() -> str | None:
    return expected(["d0", "d0"], _with_parts(_parts("d0")), spec_of(request()), spec_of(request()))


def shares_in_use_use_counters() -> str | None:
    """The second device has a share in use: the first one has no counters left."""
    answer = answered(
        place(*_with_parts(_parts("d0"), _parts("d1")), in_use=frozenset({(DRIVER, "n", "d1", "share")})),
        spec_of(request()),
    )
    found = [each.device[2] for claim in answer.claims or () for each in claim]
    return None if found == ["d1"] else f"allocated {found}, not the device with counters"


# --- the cache ----------------------------------------------------------------------------------------------


def has_allocation(cache: Cache) -> bool:
    return any(each.allocation is not None for each in tables.claims(cache))


def a_decided_allocation_counts() -> str | None:
    """The allocation is decided, and the API does not show it yet."""
    cache = new_cache(tables.pod())
    cache.apply_all([tables.claim(), tables.ASSUMED])
    return None if has_allocation(cache) else "the device is free although it was decided"


def a_placement_that_was_given_up_leaves_nothing() -> str | None:
    cache = new_cache(tables.pod())
    cache.apply_all([tables.claim(), tables.ASSUMED])
    helps = cache.apply(Forgotten(PodUid("p"))).may_unblock
    return "the device stays assumed" if has_allocation(cache) or not helps else None


def an_allocation_that_was_seen_is_not_assumed_again() -> str | None:
    """Another member was first with the shared claim, which is given back later."""
    cache = new_cache(tables.pod())
    cache.apply_all([tables.claim(allocated=True), tables.ASSUMED, tables.claim()])
    return "the claim is assumed to be allocated for ever" if has_allocation(cache) else None


def new_devices_let_gangs_be_tried() -> str | None:
    spec = {"driver": DRIVER, "nodeName": "n1", "pool": {"name": "n1", "generation": 1}, "devices": []}
    slice_ = msgspec.convert({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice)
    changes = new_cache(tables.pod()).apply(Applied(slice_))
    return None if changes.may_unblock else "no gang is tried when a driver publishes devices"


def a_deleted_claim_lets_gangs_be_tried() -> str | None:
    """The update that removed the allocation was missed."""
    cache = new_cache(tables.pod())
    cache.apply(tables.claim(allocated=True))
    changes = cache.apply(Deleted("ResourceClaim", "team", "c"))
    return None if changes.may_unblock else "no gang is tried when a claim with devices is deleted"


# --- what is written ----------------------------------------------------------------------------------------


def tolerations_are_written() -> str | None:
    """Without them in the status, the eviction controller would evict the pod at once."""
    tolerations = [{"key": "broken", "operator": "Exists", "effect": "NoExecute"}]
    exactly = {"deviceClassName": "gpu", "tolerations": tolerations}
    claim = {
        "metadata": {"name": "c", "uid": "uid-c"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }
    status = reservation(claim, tables.GRANT, pods=[{"uid": "p"}], classes={"gpu": {}}, now="") or {}
    (result,) = status["allocation"]["devices"]["results"]
    return None if result.get("tolerations") == tolerations else f"{result} has no tolerations"


def the_allocation_stays_for_the_other_consumers() -> str | None:
    """One of two pods that share a claim is not bound; the other one runs."""
    users = [{"resource": "pods", "name": each, "uid": each} for each in ("p", "q")]
    status = {"allocation": {"devices": {"results": [tables.RESULT]}}, "reservedFor": users}
    claim = {"metadata": {"name": "c", "uid": "uid-c"}, "status": status}
    written = release(claim, tables.GRANT, uid="p") or {}
    return "the devices of a pod that runs are given back" if "allocation" in written else None
