"""Remove the names of other tenants from the texts that are written to a tenant's objects.

Texts name gangs and pods as `namespace/name`, and nodes by their names. A tenant sees the names in its own
namespace, the gangs and pods of its own queue, and the nodes that its gang or its queue uses. Logs, commands
and pages, which are for administrators, show the texts as they are.

Names are looked for in the finished text, so that the texts of all actions and plugins are covered.
"""

import re
from typing import Final

from msgspec.structs import replace

from phalanx.cache.cache import Cache
from phalanx.model.decisions import Evict
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName
from phalanx.model.reasons import Evidence, Verdict

_WORD: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9._/]*[A-Za-z0-9])?")
"""A word or a name: no name of Kubernetes begins or ends with another character."""

_KIND: Final = re.compile(r"(?<![\w/.-])(gang|pod|node|Job|[A-Z][a-z]+(?:[A-Z][A-Za-z]*)+) $")
"""The word before a name that says what it is."""

_REPEATED: Final = re.compile(r"\b(another (?:node|tenant's [A-Za-z]+))(?:(?:, | and )\1)+")


class TenantNames:
    """The names that a tenant may see, by the current state of the cluster."""

    def __init__(self, cache: Cache, *, show_all: bool) -> None:
        """`show_all`: remove nothing."""
        self._cache = cache
        self._show_all = show_all

    def verdict(self, gang: Gang, verdict: Verdict) -> Verdict:
        """The verdict on the gang, for the gang's own objects."""
        if self._show_all:
            return verdict
        evidence = tuple(
            Evidence(self._shown(gang, each.subject), self._shown(gang, each.finding), each.count)
            for each in verdict.evidence
        )
        return replace(
            verdict,
            message=self._shown(gang, verdict.message),
            next_step=self._shown(gang, verdict.next_step),
            evidence=evidence,
        )

    def eviction_message(self, evict: Evict) -> str:
        """The message of an eviction, for the evicted pod."""
        gang = self._cache.gang(evict.gang)
        return evict.message if self._show_all or gang is None else self._shown(gang, evict.message)

    def _shown(self, gang: Gang, text: str) -> str:
        parts: list[str] = []
        end = 0
        for word in _WORD.finditer(text):
            instead = self._instead(gang, word.group())
            if instead is None:
                continue
            before, kind = text[end : word.start()], "workload"
            named = _KIND.search(before)
            if named is not None:
                before, kind = before[: named.start()], named.group(1)
            parts += [before, instead.format(kind=kind)]
            end = word.end()
        return _REPEATED.sub(r"\1 and others", "".join([*parts, text[end:]])) if parts else text

    def _instead(self, gang: Gang, word: str) -> str | None:
        """What to show instead of a word, with `kind` to fill in; None for a word that may be shown."""
        namespace, _, name = word.partition("/")
        if name and self._is_of_other_tenant(gang, namespace, name):
            return "another tenant's {kind}"
        parts = word.split("/")
        shown = ["…" if self._is_hidden_node(gang, NodeName(part)) else part for part in parts]
        if shown == parts:
            return None
        return "another node" if len(parts) == 1 else "/".join(shown)

    def _is_of_other_tenant(self, gang: Gang, namespace: str, name: str) -> bool:
        if namespace == gang.namespace or not self._cache.has_namespace(namespace):
            return False
        return self._cache.queue_of(namespace, name) != gang.queue

    def _is_hidden_node(self, gang: Gang, name: NodeName) -> bool:
        if self._cache.node_state(name) is None or self._cache.uses_node(gang.queue, name):
            return False
        return all(pod.node != name for pod in gang.members)
