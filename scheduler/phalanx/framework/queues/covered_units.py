"""What guarantees cover: the pods of a running gang that are covered together, and their order."""

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from phalanx.framework.evictions import surplus_members
from phalanx.framework.queues.division import IGNORED
from phalanx.model.api.pod_groups import DisruptionMode
from phalanx.model.charges import charged_for, total_charges
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName
from phalanx.model.pods import Pod
from phalanx.model.resources import Resources

_NOT_RUNNING = 1 << 62
"""The start of a gang of which no member runs yet: after all others."""


class Unit(Struct, frozen=True):
    """Pods of a running gang that are covered together or not at all."""

    gang: Gang
    pods: tuple[Pod, ...]
    is_surplus: bool
    usage: Resources
    """What the queue is charged for the pods."""

    @property
    def uses(self) -> frozenset[str]:
        """The resources that count."""
        return resources_of(self.usage)


def resources_of(amounts: Resources) -> frozenset[str]:
    return frozenset(name for name, amount in amounts.items() if amount and name not in IGNORED)


def devices_of(names: Collection[str]) -> set[str]:
    return {name for name in names if "/" in name}


def units_of(gang: Gang, holders: Sequence[Pod]) -> Iterator[Unit]:
    """The minimum of the gang, then each surplus member; with the mode Single each member."""
    if gang.disruption.eviction_mode is DisruptionMode.SINGLE:
        surplus: Sequence[Pod] = ()
        parts: list[Sequence[Pod]] = [[pod] for pod in holders]
    else:
        surplus = surplus_members(gang, holders)
        extra = {pod.uid for pod in surplus}
        together = [pod for pod in holders if pod.uid not in extra]
        parts = [together] if together else []
    for part in parts:
        yield Unit(gang, tuple(part), is_surplus=False, usage=total_charges(part))
    for pod in reversed(surplus):
        yield Unit(gang, (pod,), is_surplus=True, usage=total_charges([pod]))


def uses_only_on(nodes: frozenset[NodeName] | None, unit: Unit, name: str) -> bool:
    """Whether it uses the resource, on no other nodes than these."""
    if not unit.usage.get(name):
        return False
    return nodes is None or all(pod.node in nodes for pod in unit.pods if charged_for(pod).get(name))


def usage_on(nodes: frozenset[NodeName] | None, unit: Unit) -> Resources:
    if nodes is None:
        return unit.usage
    return total_charges([pod for pod in unit.pods if pod.node in nodes])


def rank(gang: Gang) -> tuple[int, int, int, str]:
    """Queue order of running gangs."""
    began = [pod.running_since for pod in gang.members if pod.running_since and pod.holds_node]
    return (
        -gang.priority,
        min(began, default=_NOT_RUNNING),
        gang.complete_since,
        gang.uid,
    )
