"""S23: no bind violates a required anti-affinity."""

from collections.abc import Iterator
from typing import Any

from phalanx_simulator.embedded.apiserver.selectors import label_selector
from phalanx_simulator.embedded.store import Change
from phalanx_simulator.invariants.bounds import LATE_LANDING_S
from phalanx_simulator.invariants.calls import Call, Stage
from phalanx_simulator.invariants.check import Check, CheckContext
from phalanx_simulator.invariants.facts import PodFact
from phalanx_simulator.invariants.truth import Truth


class AntiAffinityHolds(Check):
    """S23: required anti-affinity holds in both directions.

    When a bind is sent, it is compared with the pods that the sender has received and with the sender's own
    binds. When it is applied, it is compared with all pods, unless other schedulers bind pods too or the bind
    was applied late. Nodes whose labels have changed since the sender's state are ignored.
    """

    name = "S23"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._sent: dict[str, Call] = {}
        self._with_anti_affinity: dict[str, None] = {}

    def on_change(self, change: Change) -> None:
        changed = self.truth.changed_pod
        if changed is not None and changed.pod.anti_affinity:
            self._with_anti_affinity[changed.pod.uid] = None

    def on_call(self, call: Call) -> None:
        if not call.is_bind:
            return
        pod = self.truth.pods.get(call.uid)
        if call.stage is Stage.SENT:
            self._sent[call.uid] = call
        if pod is None:
            return
        if call.stage is Stage.SENT and pod.is_waiting:
            self._compare(call, pod, f"{call.host} sent a bind that violates the anti-affinity with")
        elif call.stage is Stage.LANDED and call.succeeded and self._is_single_writer_and_in_time(call):
            self._compare(call, pod, "bound in violation of the anti-affinity with")

    def _is_single_writer_and_in_time(self, call: Call) -> bool:
        return self.context.single_writer and self.now - call.exchange.sent_at <= LATE_LANDING_S

    def _compare(self, call: Call, pod: PodFact, words: str) -> None:
        revision = self.truth.known_to_sender(call, "nodes")
        for other, node in self._others(call, pod):
            for term in [*_conflicting_terms(pod, other), *_conflicting_terms(other, pod)]:
                key = term.get("topologyKey", "")
                if self._are_in_one_domain(call.node, node, key, revision):
                    self.violated(pod, f"{words} {other} by {key}")

    def _others(self, call: Call, pod: PodFact) -> Iterator[tuple[PodFact, str]]:
        """Other pods and their nodes: at SENT those that the sender knows, at LANDED all."""
        revision = self.truth.known_to_sender(call, "pods")
        for uid in list(self.truth.pods) if pod.anti_affinity else list(self._with_anti_affinity):
            other = self.truth.pods.get(uid)
            if other is None:
                self._with_anti_affinity.pop(uid, None)
                continue
            sent = self._sent.get(uid)
            is_own = sent is not None and sent.host == call.host
            if uid == call.uid:
                continue
            if other.holds_node:
                known = self.truth.pod_at(uid, revision)
                is_received = isinstance(known, PodFact) and known.node == other.node
                if is_received or is_own or call.stage is Stage.LANDED:
                    yield other, other.node
            elif sent is not None and is_own and other.is_waiting and sent.stage is Stage.SENT:
                yield other, sent.node

    def _are_in_one_domain(self, one: str, other: str, key: str, revision: int) -> bool:
        nodes = [self.truth.nodes.get(name) for name in (one, other)]
        values = [node.labels.get(key) for node in nodes if node is not None]
        changed = any(self.truth.node_changed_at(name) > revision for name in (one, other))
        return len(values) == 2 and values[0] is not None and values[0] == values[1] and not changed


def _conflicting_terms(pod: PodFact, other: PodFact) -> Iterator[Any]:
    """Anti-affinity terms of the pod that match the other one.

    Terms with a namespace selector are left out.
    """
    item = {"metadata": {"labels": other.labels}}
    for term in pod.anti_affinity:
        try:
            namespaces = term.get("namespaces") or [pod.namespace]
            if other.namespace in namespaces and label_selector(term.get("labelSelector"))(item):
                yield term
        except (AttributeError, KeyError, TypeError):
            continue
