"""After any events, the usage of queues counts each allocated claim once, as its objects in the API say."""

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Assumed, Deleted, Event, Forgotten, Relisted
from phalanx.model.api.kinds import DEVICE_KINDS
from phalanx.model.names import LABEL_QUEUE, NodeName, PodUid
from phalanx.model.supplies.devices.claims import AllocatedDevice, Allocation, ClaimGrant
from phalanx.model.supplies.devices.pools import NodeChoice
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.actions.test_device_limits import (
    GPU,
    IMPLICIT,
    allocated,
    claim,
    device_class,
    exactly,
    member,
    node,
    queue,
)
from tests.assumed import assumed as assumed_bind
from tests.cache.world import new_cache, take_snapshot
from tests.examples import holds

PODS, CLAIMS, QUEUES = ("p", "o", "n"), ("c", "d"), ("q", "r")
one_of = st.sampled_from
GRANT = Allocation((AllocatedDevice("r", ("gpu", "a", "x")),), NodeChoice(node="a"))


def a_pod(name: str, claims: tuple[str, ...], created: int, queue: str, where: str) -> Applied:
    entries = [{"name": f"e{number}", "resourceClaimName": each} for number, each in enumerate(claims)]
    more = {"nodeName": "a"} if where else {}
    phase = "Succeeded" if where == "ended" else "Running" if where else "Pending"
    return member(name, *entries, labels={LABEL_QUEUE: queue}, phase=phase, created=created, **more)


def a_claim(name: str, devices: str, of: str, users: list[str], is_admin: bool) -> Applied:
    asked = exactly(len(devices) or 1, of, adminAccess=is_admin)
    if not devices:
        return claim(name, asked)
    return allocated(name, asked, devices=devices, users=tuple(users), is_admin=is_admin)


def assumed(pod: str, claim: str) -> Assumed:
    return assumed_bind(f"uid-{pod}", "a", grants=(ClaimGrant("team", claim, f"uid-{claim}", GRANT),))


claims = st.builds(
    a_claim,
    one_of(CLAIMS),
    one_of(["", "x", "xy", "xyz"]),
    one_of(["gpu", "nic"]),
    st.lists(one_of(PODS), unique=True),
    st.booleans(),
)
pods = st.builds(
    a_pod,
    one_of(PODS),
    one_of([("c",), ("d",), ("c", "d"), ("d", "d")]),
    st.integers(0, 2),
    one_of(QUEUES),
    one_of(["", "on a node", "on a node", "ended"]),
)
events = st.one_of(
    claims,
    claims,
    pods,
    pods,
    st.builds(assumed, one_of(PODS), one_of(CLAIMS)),
    st.builds(lambda pod: Forgotten(PodUid(f"uid-{pod}")), one_of(PODS)),
    st.builds(lambda resource: device_class("gpu", resource), one_of(["", GPU, "example.com/new"])),
    st.builds(lambda name: Deleted("Pod", "team", name), one_of(PODS)),
    st.builds(lambda name: Deleted("ResourceClaim", "team", name), one_of(CLAIMS)),
    st.just(Deleted("DeviceClass", "team", "gpu")),
)


class Api:
    """What the API has, and the devices that were decided and that the API does not show yet."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Any] = {}
        self.decided: set[tuple[str, str]] = set()
        """Pod and claim."""

    def apply(self, event: Event) -> None:
        if isinstance(event, Applied):
            written: Any = event.object
            self.objects[type(written).__name__, written.metadata.name] = written
        elif isinstance(event, Deleted) and self.objects.pop((event.kind, event.name), None) is not None:
            self._drop(lambda pod, claim: event.name in (pod.removeprefix("uid-"), claim))
        elif isinstance(event, Forgotten):
            self._drop(lambda pod, claim: pod == event.pod)
        ended = [each.metadata.uid for each in self.of("Pod") if each.status.phase == "Succeeded"]
        shown = [each.metadata.name for each in self.of("ResourceClaim") if each.status.allocation]
        self._drop(lambda pod, claim: pod in ended or claim in shown)

    def decide(self, event: Assumed) -> None:
        self._drop(lambda pod, claim: pod == event.bind.pod)
        name = event.bind.grants[0].name
        known = self.objects.get(("ResourceClaim", name))
        if known is None or known.status.allocation is None:
            self.decided.add((event.bind.pod, name))

    def _drop(self, ends: Callable[[str, str], bool]) -> None:
        self.decided = {each for each in self.decided if not ends(*each)}

    def of(self, kind: str) -> list[Any]:
        return [each for (found, _), each in self.objects.items() if found == kind]

    def usage(self, assumed: set[str]) -> dict[tuple[str, str], int]:
        """By queue and resource, the devices of claims. `assumed`: pods with a node that was decided."""
        total: dict[tuple[str, str], int] = {}
        stated = {each.metadata.name: each.spec.extended_resource_name for each in self.of("DeviceClass")}
        for each in self.of("ResourceClaim"):
            asked, found = each.spec.devices.requests[0].exactly, each.status.allocation
            decided = {pod for pod, claim in self.decided if claim == each.metadata.name}
            count = int(bool(decided))  # no decision here is for administrators
            if found:
                count = 0 if asked.admin_access else len(found.devices.results)
            reserved = {user.uid for user in each.status.reserved_for} | decided | assumed
            users = [pod for pod in self.of("Pod") if self._uses(pod, each.metadata.name, assumed)]
            users.sort(key=lambda pod: (pod.metadata.uid not in reserved, *_age(pod)))
            if users and count:
                resource = stated.get(asked.device_class_name) or IMPLICIT + asked.device_class_name
                key = (users[0].metadata.labels[LABEL_QUEUE], resource)
                total[key] = total.get(key, 0) + count
        return total

    def _uses(self, pod: Any, claim: str, assumed: set[str]) -> bool:
        has_node = pod.spec.node_name or pod.metadata.uid in assumed
        names = [entry.resource_claim_name for entry in pod.spec.resource_claims]
        return bool(has_node) and pod.status.phase != "Succeeded" and claim in names


def _age(pod: Any) -> tuple[Any, str]:
    return pod.metadata.creation_timestamp, pod.metadata.uid


def test_an_older_pod_takes_the_charge_when_it_gets_a_node() -> None:
    cache = new_cache()
    cache.apply_all(
        [*(Relisted(kind, ()) for kind in ("Node", *DEVICE_KINDS)), node("a"), queue("q"), queue("r")]
    )
    cache.apply_all([a_claim("c", "xy", "gpu", ["o", "p"], False), a_pod("p", ("c",), 2, "q", "on a node")])
    assert charged(cache) == {("q", f"{IMPLICIT}gpu"): 2}
    cache.apply(a_pod("o", ("c",), 1, "r", "on a node"))
    assert charged(cache) == {("r", f"{IMPLICIT}gpu"): 2}


def charged(cache: Cache) -> dict[tuple[str, str], int]:
    """By queue and resource, the usage of named resources."""
    return {
        (str(name), resource): amount
        for name, amounts in take_snapshot(cache).queue_usage.items()
        for resource, amount in amounts.get(NodeName("a"), {}).items()
        if "/" in resource
    }


@holds(40)
@given(st.lists(events, min_size=12, max_size=25))
def test_usage_counts_the_devices_of_claims_as_the_objects_say(history: list[Event]) -> None:
    cache, api = new_cache(), Api()
    kinds = ("Node", *DEVICE_KINDS)
    cache.apply_all([*(Relisted(kind, ()) for kind in kinds), node("a"), queue("q"), queue("r")])
    for event in history:
        cache.apply(event)
        check_cache(cache)
        pods = {name: cache.pod(PodUid(f"uid-{name}")) for name in PODS}
        assumed = {f"uid-{name}" for name, pod in pods.items() if pod is not None and pod.assumed}
        api.apply(event)
        if isinstance(event, Assumed) and event.bind.pod in assumed:
            api.decide(event)
        assert charged(cache) == api.usage(assumed)
