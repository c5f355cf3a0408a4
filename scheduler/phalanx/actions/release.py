"""Release the nodes of gangs that never started and stay incomplete.

Such a gang has members on nodes, but fewer than its minimum or that of a role: binds failed permanently, or a
node was lost before the other members were bound. It keeps its nodes for a grace period in which its missing
members are tried before other work. Then its members are evicted. A member without a controller is not
evicted, since nothing would recreate it; the verdict reports that.
"""

from msgspec.structs import replace

from phalanx.actions import formatting
from phalanx.actions.context import Cycle
from phalanx.framework.session import Session
from phalanx.framework.states import GangState, PodState
from phalanx.limits import PARTIAL_GANG_GRACE_MS
from phalanx.model.decisions import EvictionReason
from phalanx.model.gangs import Gang, complete_subgroups, missing_by_role, missing_by_subgroup
from phalanx.model.pods import Pod
from phalanx.model.reasons import Evidence, Reason, Verdict


def execute(cycle: Cycle) -> None:
    """Evict the members of incomplete gangs whose grace period is over."""
    session, now = cycle.session, cycle.session.snapshot.now
    known = session.snapshot.memory.partial_since
    incomplete = [gang for gang in session.incomplete if _is_incomplete(gang)]
    since = {gang.id: min(now, known.get(gang.id, now)) for gang in incomplete}
    ends = {gang.id: since[gang.id] + PARTIAL_GANG_GRACE_MS for gang in incomplete}
    for gang in incomplete:
        if ends[gang.id] > now:
            continue
        if _has_assumed(gang):
            ends[gang.id] = now + PARTIAL_GANG_GRACE_MS
        elif session.may_evict and session.gang_state(gang) is not GangState.PLACED:
            _release(gang, session)
    cycle.memory = replace(cycle.memory, partial_since=dict(sorted(since.items())))
    cycle.wake_at(min((end for end in ends.values() if end > now), default=None))


def _is_incomplete(gang: Gang) -> bool:
    """Whether it holds nodes without having started.

    Members that are only assumed do not count: a gang is incomplete all the time if binds fail after each
    complete placement. But it is not yet incomplete while all its members are assumed, and enough of them. If
    some of these are lost, it is: no event triggers a cycle when the watch confirms the other binds. A gang
    with a member that has succeeded is finishing and not incomplete.
    """
    counted = gang.counted
    bound = [pod for pod in counted if not pod.assumed]
    if not counted or gang.started or gang.is_finishing or gang.minimum.is_reached(bound):
        return False
    return bool(bound) or not gang.minimum.has_started_with(counted)


def _has_assumed(gang: Gang) -> bool:
    """Whether the outcome of some of its binds is not known yet."""
    return any(pod.assumed for pod in gang.members)


def _release(gang: Gang, session: Session) -> None:
    holders = [pod for pod in gang.counted if session.pod_state(pod) is PodState.BOUND]
    evictable = [pod for pod in holders if pod.controller is not None]
    unmanaged = [pod for pod in holders if pod.controller is None]
    if unmanaged and gang.id not in session.verdicts:
        session.refuse(gang, _unmanaged_verdict(gang, unmanaged))
    if evictable:
        message = f"only {_reached(gang)} of {gang} got nodes"
        with session.statement() as statement:
            statement.evict(gang=gang, pods=evictable, reason=EvictionReason.GANG_INCOMPLETE, message=message)


def _unmanaged_verdict(gang: Gang, unmanaged: list[Pod]) -> Verdict:
    return Verdict(
        gang=gang.id,
        group=str(gang),
        reason=Reason.UNMANAGED_PODS,
        message=f"{_reached(gang)} hold nodes, the others do not fit; "
        f"{formatting.pods(len(unmanaged))} without controller remain{'s' * (len(unmanaged) == 1)}",
        evidence=tuple(Evidence(str(pod), formatting.holds_node(pod)) for pod in unmanaged),
        next_step="Delete these pods to release their nodes, or free capacity for the missing members",
    )


def _reached(gang: Gang) -> str:
    """How far the gang got: in total, or, if that is enough, in the first part that lacks members."""
    counted = gang.counted
    if gang.min_subgroups:
        whole = len(complete_subgroups(counted, gang.subgroups))
        return f"{whole} of {gang.min_subgroups} subgroups, with {len(counted)} members in all,"
    if len(counted) < gang.min_member:
        return f"{len(counted)} of {gang.min_member} members"
    lacking = missing_by_role(counted, gang.roles)
    for role in gang.roles:
        if role.name in lacking:
            return _of(role.min_member, lacking[role.name], f"role {role.name}")
    lacking = missing_by_subgroup(counted, gang.subgroups)
    for subgroup in gang.subgroups:
        if subgroup.name in lacking:
            return _of(subgroup.min_member, lacking[subgroup.name], f"subgroup {subgroup.name}")
    return f"{len(counted)} of {gang.min_member} members"


def _of(minimum: int, missing: int, part: str) -> str:
    return f"{minimum - missing} of {minimum} members of {part}"
