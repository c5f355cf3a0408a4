"""The pods of other schedulers that gangs may evict: the rule, and its part of the configuration.

Such a pod has a node, holds capacity there, and one entry of the configuration selects it. It is never one of
a DaemonSet or of a node (`cache/evictable_pods.py` leaves them out, since they come back to the same node),
and never one of kube-system. It is a candidate victim like a gang of one in no queue: nobody's share and
nobody's guarantee. A gang may evict it for its minimum only, and only if its priority is higher.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Annotated, Final, Protocol

from msgspec import Meta, Struct

from phalanx.framework.evictions import Beneficiary
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId
from phalanx.model.pods import Pod

ENTRIES_MAX: Final = 16
"""Maximum of `evictablePods`, and of each list in an entry: every change of a pod is compared with all."""

PRIORITY_MAX: Final = 1_000_000_000
"""The highest priority that PriorityClasses of users may have."""

NEVER_IN: Final = "kube-system"
"""The namespace whose pods are never evicted."""

_Names = Annotated[tuple[str, ...], Meta(max_length=ENTRIES_MAX)]


class EvictablePods(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Pods of other schedulers that gangs of higher priority may evict: those that meet all conditions."""

    below_priority: Annotated[int, Meta(ge=-(2**31), le=PRIORITY_MAX)] = 0
    """Only pods of a lower priority."""
    schedulers: _Names = ()
    """Only pods with one of these `spec.schedulerName`; with `[]` all but those of Phalanx."""
    namespaces: _Names = ()
    """Only pods of these namespaces; with `[]` all but kube-system."""
    labels: Annotated[Mapping[str, str], Meta(max_length=ENTRIES_MAX)] = {}
    """Only pods with all of these labels."""

    def select(self, pod: Pod) -> bool:
        """Whether the pod meets all conditions."""
        return (
            pod.priority < self.below_priority
            and (not self.schedulers or pod.scheduler_name in self.schedulers)
            and (not self.namespaces or pod.namespace in self.namespaces)
            and (not self.labels or self.labels.items() <= set(pod.all_labels))
        )


def is_selected(entries: Sequence[EvictablePods], pod: Pod) -> bool:
    """Whether one of the entries selects the pod."""
    return any(entry.select(pod) for entry in entries) and pod.namespace != NEVER_IN


def reason_to_evict(victim: Gang, beneficiary: Beneficiary) -> str | None:
    """Why this pod may be evicted for the beneficiary; None if it may not."""
    gang = beneficiary.gang
    if beneficiary.is_surplus or not gang.may_preempt or victim.priority >= gang.priority:
        return None
    return f"its priority {gang.priority} is above {victim.priority} of {victim}"


class _Pods(Protocol):
    """The part of a view that may be evicted."""

    @property
    def gangs(self) -> Mapping[GangId, Gang]: ...
    @property
    def evictable_pods(self) -> Mapping[GangId, Gang]: ...


def candidates(view: _Pods) -> Iterator[Gang]:
    """All that may be evicted: the gangs, and pods of other schedulers."""
    return chain(view.gangs.values(), view.evictable_pods.values())


def candidate(name: GangId, view: _Pods) -> Gang:
    """One of them."""
    return view.gangs.get(name) or view.evictable_pods[name]


def positions_of_errors(entries: Sequence[EvictablePods]) -> Iterator[int]:
    """The entries that name a namespace whose pods are never evicted."""
    return (position for position, entry in enumerate(entries) if NEVER_IN in entry.namespaces)
