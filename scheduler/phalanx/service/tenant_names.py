"""Hide the names of other tenants in the texts that are written to a tenant's objects.

A tenant sees the names in its own namespace, the gangs and pods of its own queue, and the nodes that its gang
or its queue uses. Logs, commands and pages, which are for administrators, show all names. Only names that the
scheduler put into a text are hidden (`model/named_parts.py`): what tenants wrote is no name in this sense.
"""

from functools import partial

from msgspec import Struct

from phalanx.cache.cache import Cache
from phalanx.model.decisions import Evict
from phalanx.model.gangs import Gang
from phalanx.model.named_parts import Name, Named, shown
from phalanx.model.names import NO_QUEUE, NodeName, QueueName
from phalanx.model.reasons import Verdict, with_texts
from phalanx.model.texts import printable


class _Tenant(Struct, frozen=True):
    """Who reads a text: gangs of this namespace, in this queue, with pods on these nodes."""

    namespace: str
    queue: QueueName = NO_QUEUE
    nodes: frozenset[str] = frozenset()


class TenantNames:
    """The names that a tenant may see, by the current state of the cluster."""

    def __init__(self, cache: Cache, *, show_all: bool) -> None:
        self._cache = cache
        self.show_all = show_all
        """Whether nothing is hidden."""

    def verdict(self, gang: Gang, verdict: Verdict) -> Verdict:
        """The verdict on the gang, for the gang's own objects."""
        if self.show_all or verdict.marked is None:
            return verdict
        may_see = partial(self._may_see, _tenant_of(gang))
        return with_texts(verdict.marked, lambda text: printable(shown(text, may_see)))

    def eviction_message(self, evict: Evict) -> str:
        """The message of an eviction, for the evicted pod."""
        if self.show_all or not evict.marked:
            return evict.message
        gang = self._cache.gang(evict.gang)
        tenant = _Tenant(evict.namespace) if gang is None else _tenant_of(gang)
        return shown(evict.marked, partial(self._may_see, tenant))

    def _may_see(self, tenant: _Tenant, name: Name) -> bool:
        if name.kind is Named.WORKLOAD:
            namespace, _, within = name.name.partition("/")
            is_of_queue = tenant.queue and self._cache.queue_of(namespace, within) == tenant.queue
            return namespace == tenant.namespace or bool(is_of_queue)
        node = NodeName(name.name)
        if node in tenant.nodes or not self._cache.has_node(node):
            return True
        return bool(tenant.queue) and self._cache.uses_node(tenant.queue, node)


def _tenant_of(gang: Gang) -> _Tenant:
    return _Tenant(gang.namespace, gang.queue, frozenset(pod.node for pod in gang.members if pod.node))
