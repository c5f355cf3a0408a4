"""Remove the names of other tenants from the texts that are written to a tenant's objects.

Texts name gangs and pods as `namespace/name`, and nodes by their names. A tenant sees the names in its own
namespace, the gangs and pods of its own queue, and the nodes that its gang or its queue uses. Logs, commands
and pages, which are for administrators, show the texts as they are.

Names are looked for in the finished text, so that the texts of all actions and plugins are covered.
"""

import re
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.cache.cache import Cache
from phalanx.model.decisions import Evict
from phalanx.model.gangs import Gang
from phalanx.model.names import NO_QUEUE, NodeName, QueueName
from phalanx.model.reasons import Evidence, Verdict

_WORD: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9._/]*[A-Za-z0-9])?")
"""A word or a name: no name of Kubernetes begins or ends with another character."""

_KIND: Final = re.compile(r"(?<![\w/.-])(gang|pod|node|Job|[A-Z][a-z]+(?:[A-Z][A-Za-z]*)+) $")
"""The word before a name that says what it is."""

_REPEATED: Final = re.compile(r"\b(another (?:node|tenant's [A-Za-z]+))(?:(?:, | and )\1)+")


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
        """Whether nothing is removed."""

    def verdict(self, gang: Gang, verdict: Verdict) -> Verdict:
        """The verdict on the gang, for the gang's own objects."""
        if self.show_all:
            return verdict
        shown = partial(self._shown, _tenant_of(gang))
        return replace(
            verdict,
            message=shown(verdict.message),
            next_step=shown(verdict.next_step),
            evidence=tuple(
                Evidence(shown(each.subject), shown(each.finding), each.count) for each in verdict.evidence
            ),
        )

    def eviction_message(self, evict: Evict) -> str:
        """The message of an eviction, for the evicted pod."""
        if self.show_all:
            return evict.message
        gang = self._cache.gang(evict.gang)
        return self._shown(_Tenant(evict.namespace) if gang is None else _tenant_of(gang), evict.message)

    def _shown(self, tenant: _Tenant, text: str) -> str:
        """The text without names that the tenant may not see. Most texts have none."""
        hidden = {
            word: instead
            for word in set(_WORD.findall(text))
            if (instead := self._instead(tenant, word)) is not None
        }
        if not hidden:
            return text
        parts: list[str] = []
        end = 0
        for word in _WORD.finditer(text):
            if word.group() not in hidden:
                continue
            before, kind = text[end : word.start()], "workload"
            named = _KIND.search(before)
            if named is not None:
                before, kind = before[: named.start()], named.group(1)
            parts += [before, hidden[word.group()].format(kind=kind)]
            end = word.end()
        return _REPEATED.sub(r"\1 and others", "".join([*parts, text[end:]]))

    def _instead(self, tenant: _Tenant, word: str) -> str | None:
        """What to show instead of a word, with `kind` to fill in; None for a word that may be shown."""
        namespace, _, name = word.partition("/")
        if name and self._is_of_other_tenant(tenant, namespace, name):
            return "another tenant's {kind}"
        parts = word.split("/")
        shown = ["…" if self._is_hidden_node(tenant, NodeName(part)) else part for part in parts]
        if shown == parts:
            return None
        return "another node" if len(parts) == 1 else "/".join(shown)

    def _is_of_other_tenant(self, tenant: _Tenant, namespace: str, name: str) -> bool:
        if namespace == tenant.namespace or not self._cache.has_namespace(namespace):
            return False
        return not tenant.queue or self._cache.queue_of(namespace, name) != tenant.queue

    def _is_hidden_node(self, tenant: _Tenant, name: NodeName) -> bool:
        if not self._cache.has_node(name) or name in tenant.nodes:
            return False
        return not tenant.queue or not self._cache.uses_node(tenant.queue, name)


def _tenant_of(gang: Gang) -> _Tenant:
    return _Tenant(gang.namespace, gang.queue, frozenset(pod.node for pod in gang.members if pod.node))
