"""Step 6: put together what the cycle decided, what it saw of the queues, and what the next one needs."""

from collections.abc import Iterable

from phalanx.actions.allocate import Outcome
from phalanx.actions.recover import Recovered
from phalanx.actions.release import Released
from phalanx.actions.verdicts import Explained
from phalanx.framework.session import Session
from phalanx.framework.states import PodState
from phalanx.model.decisions import CycleResult, CycleStats, Placement, QueueReport
from phalanx.model.memory import Memory


def execute(
    session: Session, outcome: Outcome, released: Released, recovered: Recovered, explained: Explained
) -> CycleResult:
    """The result, with everything in the order of its key or of its decision."""
    placements = session.placements
    return CycleResult(
        cycle=session.cycle,
        placements=placements,
        evictions=session.evictions,
        verdicts=tuple(session.verdicts[gang] for gang in sorted(session.verdicts)),
        queues=_reports(session),
        memory=Memory(
            cycle=session.cycle,
            refusals=dict(sorted(explained.refusals.items())),
            partial_since=dict(sorted(released.partial_since.items())),
            troubles=dict(sorted(recovered.troubles.items())),
        ),
        wake_at=_wake_at(session, released, recovered) if explained.is_complete else session.snapshot.now,
        stats=_stats(outcome, placements),
    )


def _wake_at(session: Session, released: Released, recovered: Recovered) -> int | None:
    """When the next grace period of a gang, or hold of a pod, is over."""
    now = session.snapshot.now
    pods = (pod for gang in session.gangs.values() for pod in gang.members if pod.is_waiting)
    holds = [pod.hold.until for pod in pods if pod.hold is not None and pod.hold.until > now]
    ends = [released.wake_at, recovered.wake_at]
    return min([*holds, *(end for end in ends if end is not None)], default=None)


def _stats(outcome: Outcome, placements: Iterable[Placement]) -> CycleStats:
    return CycleStats(
        gangs_tried=outcome.tried,
        gangs_placed=len({placement.gang for placement in placements}),
        pods_placed=sum(len(placement.binds) for placement in placements),
        solves=dict(sorted(outcome.solves.items())),
        defects=tuple(outcome.defects),
    )


def _reports(session: Session) -> dict[str, QueueReport]:
    """Per queue, its descendants included, what is used and what waits after this cycle."""
    gangs: dict[str, int] = {queue.name: 0 for queue in session.queues}
    pods = dict(gangs)
    for gang in session.gangs.values():
        waiting = sum(1 for pod in gang.members if session.pod_state(pod) is PodState.WAITING)
        for queue in session.queues.path(gang.queue) if waiting else ():
            gangs[queue.name] += 1
            pods[queue.name] += waiting
    return {
        queue.name: QueueReport(
            allocated=dict(sorted(session.ledger.usage(queue.name).items())),
            pending_gangs=gangs[queue.name],
            pending_pods=pods[queue.name],
            problems=queue.problems,
        )
        for queue in session.queues
    }
