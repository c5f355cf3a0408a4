"""Divide surplus into units: the hosts of a replica start together or not at all.

Members of a unit know each other by a label. Without the label any members of the role are one, in the order
of the gang. A unit of which members count already has started: each missing one joins it alone.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from phalanx.actions.demands.demand import Demand, Stage, batches_of
from phalanx.model.gangs import Gang, RoleSpec
from phalanx.model.names import PodUid
from phalanx.model.pods import Pod
from phalanx.model.reasons import Objection, Reason
from phalanx.model.texts import that_wait


def surplus_in_units(gang: Gang, demands: Sequence[Demand]) -> tuple[Demand, ...] | Objection:
    """The demands, with one for each unit of surplus; an Objection if only parts of units wait."""
    roles = [role for role in gang.roles if role.unit > 1]
    if not roles:
        return tuple(demands)
    others = {
        pod.uid
        for demand in demands
        if not _is_divisible(demand)
        for batch in demand.batches
        for pod in batch.pods
    }
    found: list[Demand] = []
    for demand in demands:
        found += _divided(demand, roles, others) if _is_divisible(demand) else [demand]
    return tuple(found) if found or not demands else _shortage(gang, roles)


def units_of(gang: Gang, surplus: Sequence[Pod]) -> Iterator[Sequence[Pod]]:
    """The units of these surplus members, of which a last one may be smaller."""
    for role in gang.roles:
        if role.unit > 1:
            for pods in _by_label(role, surplus).values():
                yield from _chunks(pods, role.unit)


def _is_divisible(demand: Demand) -> bool:
    return demand.stage is Stage.SURPLUS and not demand.outer_subgroup


def _divided(demand: Demand, roles: Sequence[RoleSpec], others: Collection[PodUid]) -> Iterator[Demand]:
    gang = demand.gang
    pods = [pod for batch in demand.batches for pod in batch.pods]
    names = {role.name for role in roles}
    alone, units = [pod for pod in pods if pod.role not in names], list[Sequence[Pod]]()
    for role in roles:
        started = [pod for pod in gang.members if pod.counts_for_gang or pod.uid in others]
        counts = Counter({label: len(some) for label, some in _by_label(role, started).items()})
        for label, some in _by_label(role, pods).items():
            lacks = -counts[label] % role.unit
            alone += some[:lacks]
            units += [unit for unit in _chunks(some[lacks:], role.unit) if len(unit) == role.unit]
    if alone:
        yield Demand(gang, Stage.SURPLUS, demand.cause, batches_of(gang, alone, whole=False))
    for unit in units:
        yield Demand(gang, Stage.SURPLUS, demand.cause, batches_of(gang, unit, whole=True))


def _by_label(role: RoleSpec, pods: Sequence[Pod]) -> dict[str, list[Pod]]:
    """The pods of the role by the value of its label, empty for none."""
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.role == role.name:
            label = dict(pod.all_labels).get(role.unit_label, "") if role.unit_label else ""
            found.setdefault(label, []).append(pod)
    return found


def _chunks(pods: Sequence[Pod], size: int) -> Iterator[Sequence[Pod]]:
    for first in range(0, len(pods), size):
        yield pods[first : first + size]


def _shortage(gang: Gang, roles: Sequence[RoleSpec]) -> Objection:
    waiting = Counter(pod.role for pod in gang.members if pod.is_waiting)
    role = next((role for role in roles if waiting[role.name]), roles[0])
    count = waiting[role.name]
    return Objection(
        Reason.MEMBERS_MISSING,
        f"role {role.name} starts in units of {role.unit} pods, and only {that_wait(count)}",
        "Wait for the controller to create the missing pods of the unit",
    )
