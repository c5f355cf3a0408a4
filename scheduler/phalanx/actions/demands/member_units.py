"""The hosts of a replica start together or not at all: demands of a gang whose roles have units."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from phalanx.actions.demands.demand import Demand, Stage, batches_of
from phalanx.framework.member_units import divided, roles_with_units
from phalanx.model.gangs import Gang, RoleSpec
from phalanx.model.names import PodUid
from phalanx.model.pods import Pod
from phalanx.model.reasons import Objection, Reason
from phalanx.model.texts import that_wait


def without_parts_of_units(demand: Demand, ready: Sequence[Pod]) -> Sequence[Pod]:
    """These members, of roles with units only those of the demand: others could replace parts of a unit."""
    names = {role.name for role in roles_with_units(demand.gang)}
    if not names:
        return ready
    uids = {pod.uid for batch in demand.batches for pod in batch.pods}
    return [pod for pod in ready if pod.role not in names or pod.uid in uids]


def surplus_in_units(gang: Gang, demands: Sequence[Demand]) -> tuple[Demand, ...]:
    """The demands, with one for each unit of surplus."""
    roles = roles_with_units(gang)
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
        found += _demands_by_unit(demand, roles, others) if _is_divisible(demand) else [demand]
    return tuple(found)


def incomplete_units(gang: Gang) -> Objection | None:
    """The Objection to waiting members without a demand: only parts of units wait."""
    waiting = Counter(pod.role for pod in gang.members if pod.is_waiting and not pod.gated)
    role = next((role for role in roles_with_units(gang) if waiting[role.name]), None)
    if role is None:
        return None
    return Objection(
        Reason.MEMBERS_MISSING,
        f"role {role.name} starts in units of {role.unit} pods, and only {that_wait(waiting[role.name])}",
        "Wait for the controller to create the missing pods of the unit",
    )


def in_units(gang: Gang, role: str) -> str:
    """What a text about missing members of the role adds."""
    return "".join(f" in units of {each.unit}" for each in roles_with_units(gang) if each.name == role)


def _is_divisible(demand: Demand) -> bool:
    return demand.stage is Stage.SURPLUS and not demand.outer_subgroup


def _demands_by_unit(
    demand: Demand, roles: Sequence[RoleSpec], others: Collection[PodUid]
) -> Iterator[Demand]:
    gang = demand.gang
    pods = [pod for batch in demand.batches for pod in batch.pods]
    started = [pod for pod in gang.members if pod.counts_for_gang or pod.uid in others]
    names = {role.name for role in roles}
    alone, units = [pod for pod in pods if pod.role not in names], list[Sequence[Pod]]()
    for role in roles:
        joining, whole = divided(role, pods, started)
        alone += joining
        units += whole
    if alone:
        yield Demand(gang, Stage.SURPLUS, demand.cause, batches_of(gang, alone, whole=False))
    for unit in units:
        yield Demand(gang, Stage.SURPLUS, demand.cause, batches_of(gang, unit, whole=True))
