"""An oracle that finds waiting plain gangs that certainly fit, without the solver.

A gang is plain if its waiting members differ only in their names, its constraints are resource requests, node
labels and one required domain, and its queues limit amounts only. Such a gang fits if, in one domain, the
nodes that allow it have free capacity for all missing members, and the queues stay within their limits. The
oracle says nothing about other gangs, and nothing while any queue has guaranteed cells.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from phalanx.model.names import DEFAULT_QUEUE
from phalanx.model.resources import InvalidQuantity, Resources, capacity_amount

from phalanx_simulator.embedded.store import Object, Store
from phalanx_simulator.invariants.claim_charges import ClaimCharges
from phalanx_simulator.invariants.facts import TOPOLOGY_UNKNOWN, GroupFact, NodeFact, PodFact
from phalanx_simulator.invariants.queue_accounts import QueueAccounts
from phalanx_simulator.invariants.truth import QUEUES, GangFact, Truth

_PLAIN_GROUP: Final = frozenset(
    {
        *("minMember", "queue", "topology", "priorityClassName", "preemptionPolicy", "recovery"),
        *("runtime", "startBy", "disruption"),
    }
)
_PLAIN_QUEUE: Final = frozenset(
    {
        *("weight", "priority", "parent", "guarantee", "limit"),
        *("ordering", "userLabel", "backfill", "reclaim", "disruption", "maxPodGroupPriority"),
    }
)
_PLAIN_POD: Final = frozenset(
    {
        *("containers", "schedulerName", "restartPolicy", "nodeSelector", "tolerations", "priority"),
        *("terminationGracePeriodSeconds", "dnsPolicy", "securityContext", "enableServiceLinks"),
        *("priorityClassName", "preemptionPolicy", "serviceAccountName", "serviceAccount", "hostname"),
        *("initContainers", "automountServiceAccountToken", "activeDeadlineSeconds", "subdomain"),
    }
)

Path = tuple[str, ...]


class Oracle:
    """Finds out whether a plain gang certainly fits; see `where_it_fits`."""

    def __init__(self, store: Store, truth: Truth) -> None:
        self._store = store
        self._truth = truth
        self.accounts = QueueAccounts(store)
        self.claims = ClaimCharges(store, truth)

    def where_it_fits(self, gang: GangFact, *, without: Collection[str] = ()) -> str:
        """Where the missing members of its minimum certainly fit, as a message; empty if unknown.

        `without`: ignored nodes, on which capacity may be held for others. Then the result is also empty for
        queues with limits, since holds are charged to queues.
        """
        members = list(self._truth.members(gang.key))
        group = self._truth.group_of(gang.key)
        if group is None and gang.key.kind == "group":
            return ""
        ready = [pod for pod in members if pod.is_waiting and not pod.is_gated]
        missing = self._truth.min_member(gang.key) - sum(pod.counts_for_gang for pod in members)
        if not 0 < missing <= len(ready) or not self._is_plain(gang, group, members, ready):
            return ""
        queue = self.accounts.queue_of(group, members)
        if not self._is_within_limits(queue, ready[:missing], has_no_holds=not without):
            return ""
        return self._place(group, members, ready[0], missing, without)

    def _is_plain(
        self, gang: GangFact, group: GroupFact | None, members: list[PodFact], ready: list[PodFact]
    ) -> bool:
        if group is not None and (group.is_deleting or not group.spec.keys() <= _PLAIN_GROUP):
            return False
        if group is not None and not self._knows_levels(group):
            return False
        if group is not None and (group.spec.get("disruption") or {}).get("preemptible") is False:
            return False
        if not all(pod.is_ours for pod in members) or not self._is_plain_queue(group, members):
            return False
        owner = group.controller if group is not None else ""
        if owner and any(owner not in pod.owners for pod in members):
            return False
        specs = [self._spec_of(pod) for pod in ready]
        first = _shape(ready[0], specs[0])
        if any(pod.share for pod in ready):
            return False
        return bool(ready[0].requests) and all(
            spec.keys() <= _PLAIN_POD and _shape(pod, spec) == first
            for pod, spec in zip(ready, specs, strict=True)
        )

    def _spec_of(self, pod: PodFact) -> Object:
        entry = self._store.get(self._truth.key_of(pod))
        return (entry.data.get("spec") or {}) if entry is not None else {}

    def _knows_levels(self, group: GroupFact) -> bool:
        """Whether its topology has the requested levels; without them the gang waits."""
        requested, tree = group.spec.get("topology") or {}, self._truth.trees.of(group.topology)
        wanted = [str(requested[name]) for name in ("required", "preferred") if requested.get(name)]
        return all(tree.labels_down_to(level) is not None for level in wanted)

    def _is_plain_queue(self, group: GroupFact | None, members: list[PodFact]) -> bool:
        """Whether the queue is the default, or a leaf of a tree with amounts only, and accepts the gang."""
        name = self.accounts.queue_of(group, members)
        if name not in (self.accounts.named(group, members), *self.accounts.started_in(members)):
            return False
        queues = self._queues()
        if any(spec.get("parent") == name or spec.get("cells") for spec in queues.values()):
            return False
        for _ in range(len(queues) + 1):
            if name not in queues:
                return name == DEFAULT_QUEUE
            spec = queues[name]
            if not spec.keys() <= _PLAIN_QUEUE or spec.get("ordering") == "StrictFIFO":
                return False
            name = spec.get("parent") or ""
            if not name:
                return True
        return False

    def _queues(self) -> dict[str, Object]:
        return {entry.key.name: entry.data.get("spec") or {} for entry in self._store.entries(QUEUES)}

    def _is_within_limits(self, queue: str, pods: list[PodFact], *, has_no_holds: bool) -> bool:
        """Whether the limits of the queue and its ancestors allow these pods.

        `has_no_holds`: no capacity is held for others.
        """
        queues = self._queues()
        for name in path_of(queue, queues):
            limit = amounts_of(queues[name].get("limit") or {})
            used = self._counted_by_limit(name, queues) if limit else {}
            for resource, most in limit.items():
                asked = sum((pod.charged or {}).get(resource, 0) for pod in pods)
                if asked and (not has_no_holds or used.get(resource, 0) + asked > most):
                    return False
        return True

    def usage_of(self, queue: str, queues: Mapping[str, Object]) -> dict[str, int]:
        """Resources that the pods of a queue and its descendants hold, and devices of claims that the queues
        are charged for."""
        used, pods = self._held_below(queue, queues)
        for pod, devices in self.claims.by_pod().items():
            _add(used, devices if pod in pods else {})
        return used

    def _counted_by_limit(self, queue: str, queues: Mapping[str, Object]) -> dict[str, int]:
        """As usage, but with each claim that the pods use, also if another queue is charged for it."""
        used, pods = self._held_below(queue, queues)
        for users, devices in self.claims.by_users():
            _add(used, devices if not users.isdisjoint(pods) else {})
        return used

    def _held_below(self, queue: str, queues: Mapping[str, Object]) -> tuple[dict[str, int], set[str]]:
        """What the pods of a queue and its descendants request, and the UIDs of these pods."""
        used: dict[str, int] = {}
        pods: set[str] = set()
        for gang in self._truth.gangs.values():
            members = [pod for pod in self._truth.members(gang.key) if pod.is_ours]
            if members and queue in path_of(
                self.accounts.queue_of(self._truth.group_of(gang.key), members), queues
            ):
                for pod in members:
                    if pod.holds_node:
                        pods.add(pod.uid)
                        _add(used, pod.charged or {})
        return used, pods

    def _place(
        self,
        group: GroupFact | None,
        members: list[PodFact],
        pod: PodFact,
        missing: int,
        without: Collection[str],
    ) -> str:
        level = group.required if group is not None else ""
        labels = self._truth.trees.of(group.topology).labels_down_to(level) if group and level else []
        if labels is None:
            return ""
        selector = self._spec_of(pod).get("nodeSelector") or {}
        fitting: dict[Path, int] = {}
        for node, count in self._fitting_pods(pod, selector):
            path = _path(node, labels)
            if path is not None and node.name not in without:
                fitting[path] = fitting.get(path, 0) + count
        bound = self._domains_of(members, labels)
        for path, capacity in fitting.items():
            if capacity >= missing and bound <= {path}:
                where = "/".join(path) or "the cluster"
                return f"{missing} members of {dict(pod.requests or {})} fit into {where} ({capacity} fit)"
        return ""

    def _fitting_pods(self, pod: PodFact, selector: Object) -> Iterator[tuple[NodeFact, int]]:
        """The nodes that allow the pod, and the number of such pods that fit on each."""
        for node in self._truth.nodes.values():
            if node.refusal(pod.tolerations):
                continue
            if any(node.labels.get(label) != value for label, value in selector.items()):
                continue
            free = self._truth.free(node)
            asked = {name: amount for name, amount in (pod.requests or {}).items() if amount > 0}
            yield node, max(0, min(free.get(name, 0) // amount for name, amount in asked.items()))

    def _domains_of(self, members: list[PodFact], labels: list[str]) -> set[Path]:
        """The domains of the bound members: the other members must be placed there too."""
        nodes = [self._truth.nodes.get(pod.node) for pod in members if pod.holds_node]
        return {tuple(node.labels.get(label, "") for label in labels) for node in nodes if node is not None}


def _add(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, 0) + amount


def path_of(queue: str, queues: Mapping[str, Object]) -> list[str]:
    """A queue and its ancestors, each once even in a cycle."""
    found: list[str] = []
    while queue in queues and queue not in found:
        found.append(queue)
        queue = queues[queue].get("parent") or ""
    return found


def amounts_of(written: Mapping[str, object]) -> Resources:
    """Amounts in internal units; invalid ones are left out."""
    found: dict[str, int] = {}
    for name, quantity in written.items():
        try:
            found[name] = capacity_amount(name, quantity if isinstance(quantity, int | str) else "")
        except InvalidQuantity:
            continue
    return found


def _path(node: NodeFact, labels: list[str]) -> Path | None:
    path = tuple(node.labels.get(label, "") for label in labels)
    is_lost = bool(labels) and node.conditions.get(TOPOLOGY_UNKNOWN) == "True"
    return None if is_lost or not all(path) else path


def _shape(pod: PodFact, spec: Object) -> tuple[object, ...]:
    return pod.requests, pod.tolerations, spec.get("nodeSelector")
