"""Demands: the pods of one gang that a cycle places together."""

from collections.abc import Collection, Hashable, Iterable, Sequence
from enum import IntEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.framework.evictions import Beneficiary
from phalanx.framework.minimum_members import MissingMembers
from phalanx.framework.vacancies import Counts
from phalanx.model.charges import own_charges, total_charges, total_requests
from phalanx.model.decisions import Placement
from phalanx.model.gangs import Gang, kind_of
from phalanx.model.names import GangId, PodUid
from phalanx.model.pods import Pod, without_affinity_state
from phalanx.model.resources import Resources, sum_of

EXPLAINED_KINDS_MAX: Final = 8
"""Kinds of lost or surplus members, of which an explanation takes the first that fits the empty cluster. Each
is a solve for one pod."""

START: Final = "start"
"""The cause of a placement that starts a gang, for the first time or again, or lets it grow."""

REPLACE: Final = "replace"
"""The cause of a placement of members that take the places of lost or reserved ones."""


class Stage(IntEnum):
    """The order of demands among gangs of equal rank; smaller goes first."""

    REPAIR = 0
    """Members that take the places of lost ones, or for which capacity was placed with their gang."""

    LAUNCH = 1
    """One pod without devices that the controller of a gang makes later, such as a launcher. It goes before
    the starts of its own queue only."""

    START = 2
    """The whole minimum of a gang, or what a running gang needs to a higher minimum."""

    SURPLUS = 3
    """Members beyond the minimum."""


class Batch(Struct, frozen=True):
    """Pods of one shape and subgroup, with traffic of one role, in the order in which they get nodes."""

    name: str
    pods: tuple[Pod, ...]
    minimum: int
    """The number of pods that must be placed."""

    @property
    def subgroup(self) -> str:
        """The subgroup that the pods name; empty for none."""
        return self.pods[0].subgroup


class MemberChoice(Struct, frozen=True):
    """The members that a gang may get nodes for instead of the first sufficient set."""

    members: tuple[Pod, ...]
    """The waiting members to choose from, and placeholders for members to come."""
    missing: MissingMembers
    """What a set of them must contain, unless subgroups are chosen too."""
    subgroups: tuple[str, ...] = ()
    """Outer subgroups that may start instead of the first ones, in the order of the attempts."""
    places: Counts | None = None
    """For a repair: the places that the members take."""

    @property
    def key(self) -> Hashable:
        """Equal for choices that differ only in the names of the pods."""
        kinds = tuple((kind_of(pod), pod.shape.key) for pod in self.members)
        missing = self.missing
        return (
            kinds,
            missing.members,
            tuple(missing.roles.items()),
            tuple(missing.subgroups.items()),
            self.subgroups,
        )


class Demand(Struct, frozen=True):
    """Pods of one gang that are placed together."""

    gang: Gang
    stage: Stage
    cause: str
    """Recorded in the placement."""

    batches: tuple[Batch, ...]

    outer_subgroup: str = ""
    """Set if the demand is one outer subgroup that is placed whole after the gang started."""

    choice: MemberChoice | None = None
    """Set if other members or subgroups may do instead."""

    is_nominated: bool = False
    """Whether these surplus members have nominated capacity."""

    @property
    def count(self) -> int:
        """The largest number of pods that it places."""
        return sum(len(batch.pods) for batch in self.batches)

    @property
    def is_whole(self) -> bool:
        """Whether all of its pods are placed or none."""
        return all(batch.minimum == len(batch.pods) for batch in self.batches)


def started_gangs(placements: Iterable[Placement]) -> set[GangId]:
    """The gangs that these placements start."""
    return {each.gang for each in placements if each.cause == START}


def is_held_back(demand: Demand, failed: Demand) -> bool:
    """Whether a cycle does not try the demand after the failed one of the same gang: the surplus of a gang
    whose minimum failed is not tried. A subgroup that does not fit holds back no other one."""
    return not demand.outer_subgroup or failed.stage < demand.stage


def smallest_parts(demand: Demand) -> tuple[Demand, ...]:
    """All of the demand, or if any single pod would help, one pod of each of its first kinds."""
    if demand.is_whole:
        return (demand,)
    return tuple(
        replace(demand, batches=(Batch(name=batch.name, pods=batch.pods[:1], minimum=1),))
        for batch in demand.batches[:EXPLAINED_KINDS_MAX]
    )


def requested(demand: Demand) -> Resources:
    """The sum of the requests of all pods."""
    return total_requests([pod for batch in demand.batches for pod in batch.pods])


def charged_alone(demand: Demand) -> Resources:
    """What the queue is charged for all pods, without claims that several of them share."""
    pods = [pod for batch in demand.batches for pod in batch.pods]
    return sum_of([total_requests(pods), *(own_charges(pod) for pod in pods if pod.charges)])


def charged_amounts(demand: Demand) -> Resources:
    """What the queue is charged for all pods: their requests, and the devices of their claims."""
    return total_charges([pod for batch in demand.batches for pod in batch.pods])


def has_affinity_terms(demand: Demand) -> bool:
    """Whether required pod affinity or anti-affinity concerns any of its pods."""
    states = [batch.pods[0].shape.affinity_state for batch in demand.batches]
    return any(state is not None and state.is_required for state in states)


def has_preferred_terms(demand: Demand) -> bool:
    """Whether preferred pod affinity, anti-affinity or spread concerns any of its pods."""
    states = [batch.pods[0].shape.affinity_state for batch in demand.batches]
    return any(
        state is not None and (state.preferred or state.preferred_by or state.preferred_spread)
        for state in states
    )


def has_required_affinity(demand: Demand) -> bool:
    """Whether any of its pods requires other pods near it."""
    return any(batch.pods[0].shape.affinity for batch in demand.batches)


def without_affinity_terms(batch: Batch) -> Batch:
    """The same pods without affinity terms, and matched by none."""
    if batch.pods[0].shape.affinity_state is None:
        return batch
    shape = without_affinity_state(batch.pods[0].shape)
    return replace(batch, pods=tuple(replace(pod, shape=shape) for pod in batch.pods))


def remaining_demand(demand: Demand, placed: Iterable[Pod]) -> Demand:
    """The demand without its placed pods. It need not be placed whole."""
    gone = {pod.uid for pod in placed}
    rest = [pod for batch in demand.batches for pod in batch.pods if pod.uid not in gone]
    return Demand(
        gang=demand.gang,
        stage=demand.stage,
        cause=demand.cause,
        batches=batches_of(demand.gang, rest, whole=False),
    )


def whole_demand(demand: Demand) -> Demand:
    """The demand with all its pods required."""
    batches = tuple(Batch(each.name, each.pods, len(each.pods)) for each in demand.batches)
    return replace(demand, batches=batches)


def restricted_to(demand: Demand, pods: Collection[PodUid]) -> Demand | None:
    """The part of the demand with these pods, of which any number may be placed; None if it has none."""
    kept = [pod for batch in demand.batches for pod in batch.pods if pod.uid in pods]
    return replace(demand, batches=batches_of(demand.gang, kept, whole=False)) if kept else None


def part_to_evict_for(demand: Demand) -> Demand:
    """The part for which pods are evicted in one decision: surplus members, or units of them, take turns."""
    if demand.stage is not Stage.SURPLUS or demand.outer_subgroup or demand.is_whole:
        return demand
    return restricted_to(demand, {demand.batches[0].pods[0].uid}) or demand


def batch_key(gang: Gang, pod: Pod) -> tuple[str, str, str]:
    """Equal for pods of one batch: those of one subgroup and shape; with traffic, of one role too."""
    return (pod.subgroup, pod.shape.key, pod.role if gang.spec.traffic else "")


def batches_of(gang: Gang, pods: Sequence[Pod], *, whole: bool) -> tuple[Batch, ...]:
    """Group pods by `batch_key`, in the order of their first appearance."""
    groups: dict[tuple[str, str, str], list[Pod]] = {}
    for pod in pods:
        groups.setdefault(batch_key(gang, pod), []).append(pod)
    return tuple(
        Batch(name=_name(group), pods=tuple(group), minimum=len(group) if whole else 0)
        for group in groups.values()
    )


def _name(pods: Sequence[Pod]) -> str:
    """The roles of these pods, or else their subgroup, for messages."""
    roles = dict.fromkeys(pod.role for pod in pods if pod.role)
    return "+".join(roles) or pods[0].subgroup or "pod"


def beneficiary_of(demand: Demand) -> Beneficiary:
    """The gang that preemption or consolidation helps, with its requests."""
    return Beneficiary(
        demand.gang,
        charged_amounts(demand),
        tuple(batch.pods[0] for batch in demand.batches),
        is_surplus=demand.stage is Stage.SURPLUS,
    )
