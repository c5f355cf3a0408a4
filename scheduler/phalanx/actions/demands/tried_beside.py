"""What a cycle tries for a gang although one of its demands fails."""

from phalanx.actions.demands.demand import Demand, Stage, is_held_back, smallest_parts
from phalanx.actions.demands.gang_demands import demands_of
from phalanx.framework.member_records import MemberRecord
from phalanx.model.reasons import Objection


def tried_beside(demand: Demand, record: MemberRecord) -> tuple[Demand, ...]:
    """The same demand with the choice among all members, those too that no node can take now, other pods of
    a surplus of which any may start, and the demands that it does not hold back."""
    found = demands_of(demand.gang, record)
    if isinstance(found, Objection):
        return ()
    return tuple(
        part
        for other in found
        if _is_same(other, demand) or not is_held_back(other, demand)
        for part in smallest_parts(other)
        if part.choice is not None or part.batches != demand.batches
    )


def _is_same(other: Demand, demand: Demand) -> bool:
    if (other.stage, other.outer_subgroup) != (demand.stage, demand.outer_subgroup):
        return False
    return demand.stage is not Stage.SURPLUS or not _uids(other).isdisjoint(_uids(demand))


def _uids(demand: Demand) -> set[str]:
    return {pod.uid for batch in demand.batches for pod in batch.pods}
