"""S29: devices for extended resources: each pod has those that it requests, and no claim outlives its pod.

The scheduler makes one claim for such a pod, owned by it, and names it in the status of the pod. Simulated
pods request extended resources in their containers only, not in init containers.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from phalanx.model.decisions import CycleResult
from phalanx.model.snapshot import Snapshot

from phalanx_simulator.embedded.pod_claims import is_for_extended
from phalanx_simulator.embedded.store import Change, ChangeType, Key, Object
from phalanx_simulator.invariants.bounds import RESERVED_S
from phalanx_simulator.invariants.calls import Call, Stage
from phalanx_simulator.invariants.check import Check, CheckContext
from phalanx_simulator.invariants.claim_facts import (
    DEVICE_CLAIMS,
    devices_wanted,
    extended_resources,
    found,
    owner_of,
)
from phalanx_simulator.invariants.facts import PodFact
from phalanx_simulator.invariants.preparations import Preparations
from phalanx_simulator.invariants.truth import Truth
from phalanx_simulator.invariants.undisturbed_leader import UndisturbedLeader

_PERIOD_S: Final = 10.0

Wanted = Mapping[tuple[str, str], int]
"""The devices that a pod needs, by container and extended resource."""


class ExtendedResourceClaimsFollowPods(Check):
    """S29: a pod has the devices for its extended resources, and such a claim exists only with its pod.

    At the bind, and at rest while it runs, the status of the pod names a claim that it owns, and says for
    each container and resource which requests of the claim have its devices: as many as it requests. S27
    checks that the claim is allocated for the node and reserved for the pod. A pod has at most one such
    claim. A claim whose pod is gone, has ended, or has no node, is deleted within RESERVED_S; for a pod
    without a node this counts while nothing disturbs the leader, and its gang does not wait for devices.
    """

    name = "S29"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._leader = UndisturbedLeader(truth, context.clock.monotonic)
        self._of_pods: dict[str, str] = {}
        """By UID of a pod, the UID of its claim."""
        self._preparations = Preparations(truth, self._leader)
        self._useless: dict[str, float] = {}
        """By UID of a claim: since when its pod does not use it."""
        self._next = _PERIOD_S

    def on_change(self, change: Change) -> None:
        claim = change.entry.data
        if change.entry.key.resource != DEVICE_CLAIMS or not is_for_extended(claim):
            return
        uid, owner = claim["metadata"]["uid"], owner_of(claim)
        if not owner:
            if change.type is ChangeType.ADDED:
                self.violated(change.entry.key.path, "no pod owns this claim for extended resources")
        elif change.type is ChangeType.DELETED:
            if self._of_pods.get(owner) == uid:
                del self._of_pods[owner]
        elif self._of_pods.setdefault(owner, uid) != uid:
            self.violated(change.entry.key.path, "its pod has another claim for extended resources too")

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        self._leader.take(host)

    def on_call(self, call: Call) -> None:
        if call.is_bind and call.stage is Stage.LANDED and call.succeeded:
            self._check(Key("pods", call.key.namespace, call.key.name), call.node)

    def _check(self, key: Key, host: str) -> None:
        """The pod runs on this node, or will."""
        pod = found(self.context.store, key) or {"metadata": {"uid": ""}}
        node = found(self.context.store, Key("nodes", "", host)) or {}
        offered = node.get("status", {}).get("allocatable") or {}
        resources = {name for name in extended_resources(self.context.store) if not int(offered.get(name, 0))}
        wanted = devices_wanted(pod, resources)
        problem = self._problem(pod, key.namespace, wanted) if wanted else ""
        if problem:
            self.violated(key.path, f"bound to {host}, and {problem}")

    def _problem(self, pod: Object, namespace: str, wanted: Wanted) -> str:
        status = pod.get("status", {}).get("extendedResourceClaimStatus")
        if not status:
            return "its status names no claim for its extended resources"
        claim = found(self.context.store, Key(DEVICE_CLAIMS, namespace, status["resourceClaimName"]))
        if claim is None:
            return f"the claim {status['resourceClaimName']} of its status does not exist"
        if not is_for_extended(claim) or owner_of(claim) != pod["metadata"]["uid"]:
            return f"the claim {status['resourceClaimName']} of its status is not its own"
        return _devices_problem(claim, list(status.get("requestMappings") or ()), wanted)

    def on_tick(self) -> None:
        if self.now < self._next:
            return
        self._next = self.now + _PERIOD_S
        before, self._useless = self._useless, {}
        entries = list(self.context.store.entries(DEVICE_CLAIMS))
        preparing = self._preparations.gangs(entries, self.now)
        for entry in entries:
            pod = self.truth.pods.get(owner_of(entry.data))
            if (
                not is_for_extended(entry.data)
                or _is_in_use(pod)
                or (pod is not None and pod.gang in preparing)
            ):
                continue
            uid = entry.data["metadata"]["uid"]
            since = self._useless[uid] = before.get(uid, self.now)
            undisturbed = self._leader.seconds if pod is not None and pod.is_waiting else self.now
            if min(self.now - since, undisturbed) > RESERVED_S:
                self.violated(entry.key.path, f"is left although {_state_of(pod)}")
                del self._useless[uid]

    def at_rest(self) -> None:
        for entry in self.context.store.entries(DEVICE_CLAIMS):
            pod = self.truth.pods.get(owner_of(entry.data))
            if is_for_extended(entry.data) and (pod is None or pod.is_finished):
                self.violated(entry.key.path, f"is left although {_state_of(pod)}")
        for pod in self.truth.pods.values():
            if pod.is_ours and pod.holds_node and not pod.is_deleting:
                self._check(self.truth.key_of(pod), pod.node)


def _devices_problem(claim: Object, mappings: list[Object], wanted: Wanted) -> str:
    """How the devices of the claim differ from those that its pod wants; empty if they do not."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    counts = Counter(each["request"] for each in results)
    requests = {each["name"]: each["exactly"] for each in claim["spec"]["devices"]["requests"]}
    has: Counter[tuple[str, str]] = Counter()
    for each in mappings:
        if each["requestName"] not in requests:
            return f"its status names the request {each['requestName']}, which its claim does not have"
        has[each["containerName"], each["resourceName"]] += counts[each["requestName"]]
    for name, exactly in requests.items():
        if counts[name] != exactly.get("count", 1):
            return f"request {name} of its claim has {counts[name]} of {exactly.get('count', 1)} devices"
    for container, resource in sorted(wanted.keys() | has.keys()):
        got, asked = has[container, resource], wanted.get((container, resource), 0)
        if got != asked:
            return f"container {container} has {got} devices for {asked} of {resource}"
    return ""


def _is_in_use(pod: PodFact | None) -> bool:
    return pod is not None and bool(pod.node) and not pod.is_finished


def _state_of(pod: PodFact | None) -> str:
    if pod is None:
        return "its pod is gone"
    return f"{pod} has ended" if pod.is_finished else f"{pod} has had no node for long"
