"""Which queue a gang is charged to, computed from the objects in the store as `docs/tenants.md` states it."""

from collections.abc import Iterator, Mapping, Sequence

from phalanx.model.names import DEFAULT_QUEUE, LABEL_QUEUE

from phalanx_simulator.embedded.apiserver.selectors import label_selector
from phalanx_simulator.embedded.store import Key, Object, Store
from phalanx_simulator.invariants.facts import GroupFact, PodFact

QUEUES = "queues.scheduling.phalanx.dev"


class QueueAccounts:
    """The queues of gangs, by the present objects."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def queue_of(self, group: GroupFact | None, members: Sequence[PodFact]) -> str:
        """The charged queue while a pod of ours holds a node, else the named one; empty for none."""
        started_in = self.started_in(members)
        if not any(pod.is_ours and pod.holds_node for pod in members):
            return self.named(group, members)
        namespace = members[0].namespace
        candidates = [*started_in, self.named(group, members), self._of_namespace(namespace), DEFAULT_QUEUE]
        specs = self._specs()
        for name in candidates:
            leaves = sorted(leaf for leaf in _leaves(name, specs) if self._accepts(leaf, namespace, specs))
            if leaves:
                return leaves[0]
        rest = [
            name
            for name in sorted(specs)
            if [*_leaves(name, specs)] == [name] and self._accepts(name, namespace, specs)
        ]
        return rest[0] if rest else ""

    def started_in(self, members: Sequence[PodFact]) -> list[str]:
        """The queues that the bound members of ours were bound for."""
        found = [pod.charged_queue for pod in members if pod.is_ours and pod.holds_node and pod.charged_queue]
        return list(dict.fromkeys(found))

    def named(self, group: GroupFact | None, members: Sequence[PodFact]) -> str:
        """The PodGroup's queue, else a member's, else the namespace's, else the default."""
        if group is not None and group.queue:
            return group.queue
        of_pods = next((pod.queue for pod in members if pod.queue), "")
        if of_pods or not members:
            return of_pods or DEFAULT_QUEUE
        return self._of_namespace(members[0].namespace) or DEFAULT_QUEUE

    def _of_namespace(self, namespace: str) -> str:
        return str(self._namespace(namespace)["metadata"].get("labels", {}).get(LABEL_QUEUE) or "")

    def _namespace(self, name: str) -> Object:
        found = self._store.get(Key("namespaces", "", name))
        return found.data if found is not None else {"metadata": {}}

    def _specs(self) -> dict[str, Object]:
        """The specs of all queues, with `default`. A queue with an unknown parent or in a cycle has none."""
        specs = {entry.key.name: entry.data.get("spec") or {} for entry in self._store.entries(QUEUES)}
        specs.setdefault(DEFAULT_QUEUE, {})
        return {name: {**spec, "parent": _parent(name, specs)} for name, spec in specs.items()}

    def _accepts(self, name: str, namespace: str, specs: Mapping[str, Object]) -> bool:
        item, queue = self._namespace(namespace), name
        while queue:
            selector = specs[queue].get("namespaceSelector")
            if selector and not label_selector(selector)(item):
                return False
            queue = specs[queue]["parent"]
        return True


def _parent(name: str, specs: Mapping[str, Object]) -> str:
    first = specs[name].get("parent") or ""
    above, seen = first, {name}
    while above in specs and above not in seen:
        seen.add(above)
        above = specs[above].get("parent") or ""
    is_in_cycle = above == name
    return "" if first not in specs or is_in_cycle else first


def _leaves(name: str, specs: Mapping[str, Object]) -> Iterator[str]:
    """The queue itself, or the leaves below it; nothing for an unknown queue."""
    children = [child for child, spec in specs.items() if spec["parent"] == name]
    for child in children:
        yield from _leaves(child, specs)
    if name in specs and not children:
        yield name
