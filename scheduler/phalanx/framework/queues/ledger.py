"""The usage of queues and their descendants, over all nodes and per flavor. Statements change it.

An account is (queue, node selector of a flavor), or (queue, None) for all nodes. A queue also has accounts
for the flavors of its descendants. Amounts are immutable mappings that are replaced whole, so that a
statement can restore an old one.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping

from phalanx.framework.queues.queue_tree import QueueTree
from phalanx.framework.running_sums import RunningSums
from phalanx.model.names import NodeName, QueueName
from phalanx.model.nodes import NodeState
from phalanx.model.pods import Pod
from phalanx.model.queues import Flavor, Selector
from phalanx.model.resources import NONE, Resources, sum_of
from phalanx.model.snapshot import Snapshot

Account = tuple[QueueName, Selector | None]


def usage_sum(queue: QueueName, selector: Selector | None = None) -> Hashable:
    """The key of the running sum of the usage of a queue's own pods, on all nodes or those of a flavor."""
    return ("usage", queue, selector)


class Ledger:
    """The accounts of all queues, filled from the snapshot."""

    def __init__(self, snapshot: Snapshot, tree: QueueTree, sums: RunningSums) -> None:
        self._totals: dict[QueueName, tuple[Account, ...]] = {}
        self._flavored: dict[QueueName, tuple[tuple[Account, frozenset[NodeName]], ...]] = {}
        selectors = {flavor.node_selector for queue in tree for flavor in queue.flavors}
        self._nodes = {
            selector: _nodes_with_labels(snapshot.nodes, selector) for selector in sorted(selectors)
        }
        self._selectors = _selectors(tree, lambda flavor: True)
        self._guaranteed = _selectors(tree, lambda flavor: any(flavor.guarantee.values()))
        for queue in tree:
            self._list_accounts(queue.name, tree)
        self.amounts: dict[Account, Resources] = self._sum_up(snapshot.queue_usage, sums)
        self.claims: dict[tuple[QueueName, str], bool] = {}
        """Whether a queue is charged, by this session, for a claim to devices that several pods use."""

    def usage(self, queue: QueueName, selector: Selector | None = None) -> Resources:
        """The usage of the queue and its descendants now, on all nodes or on those of a flavor."""
        return self.amounts.get((queue, selector), NONE)

    def guaranteed(self, queue: QueueName) -> tuple[Selector, ...]:
        """Sorted node selectors of the flavors in which the queue or a descendant has a guarantee."""
        return self._guaranteed.get(queue, ())

    def nodes_of(self, selector: Selector) -> frozenset[NodeName]:
        """The nodes of the flavors with this node selector."""
        return self._nodes[selector]

    def claims_of(self, queue: QueueName) -> set[str]:
        """The claims that the queue has been charged for in this session."""
        return {claim for (name, claim), is_charged in self.claims.items() if name == queue and is_charged}

    def charges_for(self, queue: QueueName, pods: Iterable[Pod]) -> list[tuple[QueueName, str]]:
        """The charges of this session for claims that the queue is charged for with these pods."""
        names = dict.fromkeys(each.claim for pod in pods for each in pod.charges if each.claim)
        return [(queue, name) for name in names if self.claims.get((queue, name))]

    def accounts(self, queue: QueueName, node: NodeName) -> Iterable[Account]:
        """Every account that counts a pod of this queue on this node; none for an unknown queue."""
        totals = self._totals.get(queue, ())
        return (*totals, *self._of_flavors(queue, node)) if self._flavored.get(queue) else totals

    def _of_flavors(self, queue: QueueName, node: NodeName) -> Iterable[Account]:
        return (account for account, nodes in self._flavored[queue] if node in nodes)

    def _list_accounts(self, queue: QueueName, tree: QueueTree) -> None:
        path = tree.path(queue)
        self._totals[queue] = tuple((ancestor.name, None) for ancestor in path)
        self._flavored[queue] = tuple(
            ((ancestor.name, selector), self._nodes[selector])
            for ancestor in path
            for selector in self._selectors[ancestor.name]
        )

    def _sum_up(
        self, usage: Mapping[QueueName, Mapping[NodeName, Resources]], sums: RunningSums
    ) -> dict[Account, Resources]:
        booked: dict[Account, list[Resources]] = {}
        for queue in [queue for queue in sorted(usage) if self._totals.get(queue)]:
            total = sums.total(usage_sum(queue), usage[queue])
            for account in self._totals[queue]:
                booked.setdefault(account, []).append(total)
            for node, amounts in usage[queue].items() if self._flavored[queue] else ():
                for account in self._of_flavors(queue, node):
                    booked.setdefault(account, []).append(amounts)
        return {account: sum_of(amounts) for account, amounts in booked.items()}


def _selectors(tree: QueueTree, counts: Callable[[Flavor], bool]) -> dict[QueueName, tuple[Selector, ...]]:
    """Per queue, the sorted node selectors of its flavors and its descendants' that count."""
    found: dict[QueueName, set[Selector]] = {queue.name: set() for queue in tree}
    for queue in tree:
        mine = [flavor.node_selector for flavor in queue.flavors if counts(flavor)]
        for above in tree.path(queue.name):
            found[above.name].update(mine)
    return {name: tuple(sorted(selectors)) for name, selectors in found.items()}


def _nodes_with_labels(nodes: Mapping[NodeName, NodeState], selector: Selector) -> frozenset[NodeName]:
    return frozenset(
        name
        for name, state in nodes.items()
        if all(state.node.labels.get(key) == value for key, value in selector)
    )
