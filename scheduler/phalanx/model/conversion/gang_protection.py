"""Whether a gang is not preemptible, as its PodGroup asks: the rule of `docs/preemption.md`.

Where a queue on its path names a guarantee of what the gang uses, the field is in force: the gang starts only
inside, and its capacity is what the tenant was promised. Elsewhere nothing would limit how much of the
cluster a tenant takes for itself in this way. So there the field is not in force, unless a queue allows it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, structs

from phalanx.model.api.pod_groups import Disruption, PodGroupSpec
from phalanx.model.charges import charged_for
from phalanx.model.conversion.cluster_objects import PriorityLevel, resolve
from phalanx.model.conversion.pod_groups import PodGroup
from phalanx.model.pods import Pod
from phalanx.model.queues import Queue, allows_non_preemptible, counted_uses

_CLAIMED: Final = "resource.k8s.io/claimed"
"""Stands for the devices of claims where no device is named."""


class Protection(Struct, frozen=True):
    """What counts of what a PodGroup asks for."""

    spec: PodGroupSpec
    """The spec of the PodGroup, with the protection that is in force."""
    prefers_to_stay: bool = False
    """Whether it asks for protection that is not in force."""
    hint: str = ""
    """Where the protection is not in force, and why."""


def protection(
    group: PodGroup,
    members: Sequence[Pod],
    classes: Mapping[str, PriorityLevel],
    path: Sequence[Queue],
) -> Protection:
    """The protection of a gang that is charged to the first queue of the path, which ends at the root."""
    spec = _asked(group, classes)
    disruption = spec.disruption
    if disruption is None or disruption.is_preemptible or not path or allows_non_preemptible(path):
        return Protection(spec)
    everywhere = {name for queue in path for name in queue.guarantee}
    flavors = [flavor for queue in path for flavor in queue.flavors if flavor.guarantee]
    named = everywhere.union(*(flavor.guarantee for flavor in flavors))
    uses = [names for _, names in counted_uses(("", names) for names in _uses(group, members, named))]
    if _each_is_in(everywhere, uses):
        return Protection(spec)
    field = f"{group.title}: disruption.preemptible false"
    if _each_is_in(named, uses):
        names = ", ".join(sorted({flavor.name for flavor in flavors}))
        return Protection(spec, hint=f"{field} counts only on nodes of flavors with a guarantee: {names}")
    unnamed = set[str]().union(*(names for names in uses if everywhere.isdisjoint(names)))
    devices = " or ".join(_devices(unnamed))
    hint = (
        f"{field} is not in force: neither queue {path[0].name} nor an ancestor names a guarantee of "
        f"{devices or 'what it requests'}, or has disruption.allowNonPreemptible"
    )
    weaker = structs.replace(spec, disruption=structs.replace(disruption, preemptible=None))
    return Protection(weaker, prefers_to_stay=True, hint=hint)


def _each_is_in(guaranteed: Collection[str], uses: Iterable[set[str]]) -> bool:
    """Whether a guarantee names one of the resources of each."""
    return not any(names.isdisjoint(guaranteed) for names in uses)


def _asked(group: PodGroup, classes: Mapping[str, PriorityLevel]) -> PodGroupSpec:
    """The spec of the PodGroup; its PriorityClass may say that it is not preemptible."""
    level = resolve(group.priority_class, classes)
    if level is None:
        return group.spec
    is_high = group.protected_from is not None and level.value >= group.protected_from
    if is_high or (group.class_may_protect and level.opts_out):
        return structs.replace(group.spec, disruption=Disruption(preemptible=False))
    return group.spec


def _uses(group: PodGroup, members: Sequence[Pod], named: Collection[str]) -> Iterator[Collection[str]]:
    """The resources of each member, also of those that do not exist yet.

    Which devices the claims of a waiting pod get is not known yet: they may be all that are `named`.
    """
    for pod in members:
        if not pod.is_finished:
            is_open = pod.device_claims and not pod.charges
            yield {*charged_for(pod), *({*_devices(named)} or {_CLAIMED} if is_open else ())}
    for role in group.roles:
        if role.shape is not None:
            yield role.shape.requests


def _devices(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if "/" in name)
