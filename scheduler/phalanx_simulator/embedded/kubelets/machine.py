"""Admission of pods by a kubelet: running pods, used resources, reasons of rejection.

It does not use the API; kubelet.py writes the results.
"""

from typing import Final

from msgspec import Struct
from phalanx.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources

from phalanx_simulator.embedded.apiserver.selectors import label_selector
from phalanx_simulator.embedded.kubelets.numa_zones import REJECTED, Taken, find_zones
from phalanx_simulator.embedded.pod_requests import allocatable_of, is_tolerated, requests_of_node
from phalanx_simulator.embedded.store import Key, Object

_NODE_RESOURCES: Final = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)


class End(Struct, frozen=True):
    """Termination of all containers of a pod."""

    exit_code: int
    reason: str
    message: str = ""


COMPLETED: Final = End(0, "Completed")
REBOOTED: Final = End(255, "Unknown")
"""The state that a container runtime reports for a container that ran when the machine went down."""
NOT_FOUND: Final = End(
    137, "ContainerStatusUnknown", "The container could not be located when the pod was terminated"
)
"""The state that a kubelet reports for a container that runs in the API and does not exist on the machine."""


class AdmittedPod(Struct):
    """A pod that a kubelet has admitted.

    run: number of restarts of its containers.
    must_start: its start delay has passed.
    is_stale: its status in the API may be outdated, since its node was disconnected.
    is_stopping: it is deleted, and its containers keep running for a while.
    end: how its containers ended, until that is written to the API.
    zones: the NUMA zones that it uses.
    """

    uid: str
    requests: Resources
    run: int = 0
    is_running: bool = False
    must_start: bool = False
    is_stale: bool = False
    is_stopping: bool = False
    end: End | None = None
    zones: Taken = ()


class Machine:
    """The admitted pods of one node.

    `node_uid` identifies its Node object.
    """

    def __init__(self, node_uid: str) -> None:
        self.node_uid = node_uid
        self.pods: dict[Key, AdmittedPod] = {}
        self.lost_at: float | None = None
        self.must_register = False
        self._used: dict[str, int] = {}

    def admit(self, key: Key, pod: Object, topology: Object | None) -> AdmittedPod:
        """Admit the pod."""
        zones = self._zones_for(pod, topology) or ()
        admitted = AdmittedPod(pod["metadata"]["uid"], requests_of_node(pod), zones=zones)
        self.pods[key] = admitted
        for name, amount in admitted.requests.items():
            self._used[name] = self._used.get(name, 0) + amount
        return admitted

    def remove(self, key: Key) -> None:
        """Release the resources of a pod, if it is here."""
        admitted = self.pods.pop(key, None)
        if admitted is not None:
            for name, amount in admitted.requests.items():
                self._used[name] -= amount

    def why_not(self, pod: Object, node: Object, topology: Object | None) -> tuple[str, str] | None:
        """Reason and message of a rejection, None where the pod may run.

        The order is a real kubelet's: NUMA zones, devices, node resources, then selector and taints.
        """
        if self._zones_for(pod, topology) is None:
            return REJECTED
        offered, requests = allocatable_of(node), requests_of_node(pod)
        devices = sorted(name for name in requests if name not in _NODE_RESOURCES)
        for name in (*devices, *_NODE_RESOURCES):
            asked, used = requests.get(name, 0), self._used.get(name, 0)
            if 0 < asked > offered.get(name, 0) - used:
                return _short(name, asked, used, offered)
        return _predicate(pod, node)

    def _zones_for(self, pod: Object, topology: Object | None) -> Taken | None:
        return find_zones(pod, topology, [admitted.zones for admitted in self.pods.values()])


def _short(name: str, asked: int, used: int, offered: Resources) -> tuple[str, str]:
    if name in _NODE_RESOURCES:
        amounts = f"requested: {asked}, used: {used}, capacity: {offered.get(name, 0)}"
        return f"OutOf{name}", f"Pod was rejected: Node didn't have enough resource: {name}, {amounts}"
    free = max(0, offered.get(name, 0) - used)
    why = f"requested number of devices unavailable for {name}. Requested: {asked}, Available: {free}"
    if offered.get(name) == 0:
        why = f"no healthy devices present; cannot allocate unhealthy devices {name}"
    return (
        "UnexpectedAdmissionError",
        f"Pod was rejected: Allocate failed due to {why}, which is unexpected",
    )


def _has_affinity(pod: Object, node: Object) -> bool:
    """Whether one of the pod's required node affinity terms holds.

    Gt and Lt are assumed to hold.
    """
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(_holds(term, node) for term in required.get("nodeSelectorTerms", []))


def _holds(term: Object, node: Object) -> bool:
    comparisons = ("Gt", "Lt")
    expressions = [rule for rule in term.get("matchExpressions", []) if rule["operator"] not in comparisons]
    names = [rule for rule in term.get("matchFields", []) if rule["key"] == "metadata.name"]
    named = all(
        (node["metadata"]["name"] in term.get("values", [])) == (term["operator"] == "In") for term in names
    )
    return named and label_selector({"matchExpressions": expressions})(node)


def _predicate(pod: Object, node: Object) -> tuple[str, str] | None:
    if not (
        label_selector({"matchLabels": pod["spec"].get("nodeSelector")})(node) and _has_affinity(pod, node)
    ):
        why = "node(s) didn't match Pod's node affinity/selector"
        return "NodeAffinity", f"Pod was rejected: Predicate NodeAffinity failed: {why}"
    for taint in node.get("spec", {}).get("taints") or []:
        if taint["effect"] == "NoExecute" and not is_tolerated(taint, pod["spec"].get("tolerations") or []):
            named = f"{{{taint['key']}: {taint.get('value', '')}}}"
            why = f"node(s) had taints that the pod didn't tolerate {named}"
            return "TaintToleration", f"Pod was rejected: Predicate TaintToleration failed: {why}"
    return None
