"""S1, S2, S4: each bind is for a waiting pod, and for a node that allows it and has capacity for it."""

from collections.abc import Iterator

from phalanx.model.resources import Resources

from phalanx_simulator.invariants.bounds import LATE_LANDING_S
from phalanx_simulator.invariants.calls import Call, Stage
from phalanx_simulator.invariants.check import Check, CheckContext
from phalanx_simulator.invariants.claim_facts import extended_resources
from phalanx_simulator.invariants.facts import TOPOLOGY_UNKNOWN, NodeFact, PodFact
from phalanx_simulator.invariants.history import Unknown
from phalanx_simulator.invariants.truth import Truth


class OneBindPerPod(Check):
    """S1: one successful bind per UID; none for a pod known as bound, deleting, finished or foreign."""

    name = "S1"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._bound: dict[str, str] = {}

    def on_call(self, call: Call) -> None:
        if not call.is_bind:
            return
        if call.stage is Stage.SENT:
            self._sent(call)
        elif call.stage is Stage.LANDED and call.succeeded:
            self._landed(call)

    def _sent(self, call: Call) -> None:
        pod = self.truth.pod_at(call.uid, self.truth.known_to_sender(call, "pods"))
        if pod is None or isinstance(pod, Unknown):
            return
        if not pod.is_ours:
            self.violated(pod, f"bind sent for a pod of scheduler {pod.scheduler!r}")
        elif pod.node:
            self.violated(pod, f"bind sent although {call.host} knew that it is bound to {pod.node}")
        elif pod.is_deleting or pod.is_finished:
            self.violated(
                pod, f"bind sent although {call.host} knew that it is being deleted or has finished"
            )

    def _landed(self, call: Call) -> None:
        before = self._bound.get(call.uid)
        if before is not None:
            self.violated(call.key.path, f"bound twice: to {before}, then to {call.node}")
        self._bound[call.uid] = call.node


class NodeCapacityIsRespected(Check):
    """S2: no bind exceeds a node's allocatable, in the sender's state and in the API.

    The sender's state is the pods that it has received and all binds that it has sent. In the API a bind may
    exceed the allocatable when it was applied so late that its sender had to consider it lost, or when the
    allocatable was larger at some moment since the sender's state. An extended resource that devices satisfy
    counts only on nodes that offer it: S29 checks the devices.
    """

    name = "S2"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._in_flight: dict[str, dict[str, Call]] = {}
        self._bound_by: dict[str, str] = {}

    def on_call(self, call: Call) -> None:
        if not call.is_bind:
            return
        if call.stage is Stage.SENT:
            self._sent(call)
            self._in_flight.setdefault(call.node, {})[call.uid] = call
        elif call.stage is Stage.ANSWERED:
            self._in_flight.get(call.node, {}).pop(call.uid, None)
        elif call.succeeded:
            self._bound_by[call.uid] = call.host
            self._landed(call)

    def _sent(self, call: Call) -> None:
        node = self.truth.node_at(call.node, self.truth.known_to_sender(call, "nodes"))
        pod = self.truth.pods.get(call.uid)
        revision = self.truth.known_to_sender(call, "pods")
        if node is None or isinstance(node, Unknown) or pod is None or not revision or not pod.used:
            return
        allocatable = self._largest_allocatable(call)
        used: dict[str, int] = {}
        for other in self._known_on(call, revision):
            _add(used, other.used)
        _add(used, pod.used)
        for resource, short in self._excess(pod.used, used, allocatable):
            self.violated(pod, f"{call.host} knew that {call.node} lacks {short} of {resource} for it")

    def _known_on(self, call: Call, revision: int) -> Iterator[PodFact]:
        """Other pods on the node that the sender must count."""
        for uid in self.truth.recent_pods_on(call.node):
            now = self.truth.pods.get(uid)
            if now is None or not now.holds_node or now.node != call.node or uid == call.uid:
                continue
            pod = self.truth.pod_at(uid, revision)
            is_received = isinstance(pod, PodFact) and pod.node == call.node
            if is_received or self._bound_by.get(uid) == call.host:
                yield now
        for uid, other in self._in_flight.get(call.node, {}).items():
            sent = self.truth.pods.get(uid)
            waits = sent is not None and sent.is_waiting and uid != call.uid
            if sent is not None and waits and other.host == call.host:
                yield sent

    def _landed(self, call: Call) -> None:
        pod = self.truth.pods.get(call.uid)
        late_s = self.now - call.exchange.sent_at
        if late_s > LATE_LANDING_S or not self.context.single_writer or pod is None or not pod.used:
            return
        used = self.truth.used.get(call.node, {})
        for resource, short in self._excess(pod.used, used, self._largest_allocatable(call)):
            self.violated(pod, f"bound to {call.node}, which lacks {short} of {resource}")

    def _excess(
        self, requested: Resources, used: Resources, allocatable: Resources
    ) -> Iterator[tuple[str, int]]:
        """Overcommitted amounts of the resources that the pod itself requests."""
        for resource, amount in requested.items():
            short = used.get(resource, 0) - allocatable.get(resource, 0)
            if amount > 0 and short > 0 and not self._is_of_devices(resource, allocatable):
                yield resource, short

    def _is_of_devices(self, resource: str, allocatable: Resources) -> bool:
        return not allocatable.get(resource) and resource in extended_resources(self.context.store)

    def _largest_allocatable(self, call: Call) -> Resources:
        """The largest allocatable amount of each resource since the sender's state."""
        most: dict[str, int] = {}
        for node in self.truth.nodes_since(call.node, self.truth.known_to_sender(call, "nodes")):
            for resource, amount in (node.allocatable if node is not None else {}).items():
                most[resource] = max(amount, most.get(resource, 0))
        return most


def _add(used: dict[str, int], requests: Resources | None) -> None:
    for resource, amount in (requests or {}).items():
        used[resource] = used.get(resource, 0) + amount


class NodeAllowsPod(Check):
    """S4: no bind to a node known to be missing, not ready, cordoned, tainted or faulty.

    For a gang with a required level, the node must also have a known topology position.
    """

    name = "S4"

    def on_call(self, call: Call) -> None:
        if not call.is_bind or call.stage is not Stage.SENT:
            return
        revision = self.truth.known_to_sender(call, "nodes")
        pod = self.truth.pods.get(call.uid)
        if not revision or pod is None:
            return
        versions = self.truth.nodes_since(call.node, revision)
        problems = [self._problem(node, pod) for node in versions]
        if all(problems):
            self.violated(pod, f"{call.host} sent it to {call.node} and knew: {problems[0]}")
        elif any(problems):
            self.reached("node-unusable-before-bind")

    def _problem(self, node: NodeFact | None, pod: PodFact) -> str:
        if node is None:
            return "the node is gone"
        why = node.refusal(pod.tolerations)
        if why or node.conditions.get(TOPOLOGY_UNKNOWN) != "True":
            return why
        group = self.truth.group_of(pod.gang)
        return "its position in the topology is unknown" if group is not None and group.required else ""
