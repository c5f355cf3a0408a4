"""One cycle: a snapshot in, decisions out. Same snapshot, same configuration: same result, byte for byte."""

from typing import Final

from phalanx.actions import allocate, close, consolidate, enqueue, preempt, recover, release, verdicts
from phalanx.actions import reserve_cells as cells
from phalanx.actions.consolidation.moves import Moves
from phalanx.actions.node_failures import find as find_node_failures
from phalanx.actions.preemption.member_losses import find as find_troubles
from phalanx.actions.preemption.nominations import Nominations
from phalanx.actions.reservations.capacity_holds import after as capacity_holds_after
from phalanx.actions.reservations.capacity_holds import find as find_capacity_holds
from phalanx.framework.config import ActionName, SchedulerConfig
from phalanx.framework.session import Session
from phalanx.framework.session_cache import SessionCache
from phalanx.model.decisions import CycleResult
from phalanx.model.snapshot import Snapshot

BETWEEN: Final = SessionCache()
"""What the cycles of this process leave to each other."""


def decide(snapshot: Snapshot, config: SchedulerConfig) -> CycleResult:
    """Raises ConfigError when the configuration names a plugin that does not exist."""
    # 1. Open the session: plugins compute shares, orders and eligibility; domains are kept as cells.
    session = Session(snapshot, config, between=BETWEEN)
    cells.execute(session)
    # 2. Take the gangs that may be tried, in order; the others get their verdict.
    member_losses = find_troubles(session) if ActionName.RECOVER in config.actions else {}
    claims = find_capacity_holds(session)
    nominations = Nominations(session)
    moves = Moves(session, nominations)
    demand_queue = enqueue.execute(session, member_losses, claims, nominations, moves)
    # 3. Try each: classes, solve, commit or roll back.
    failures = find_node_failures(session)
    outcome = allocate.execute(session, demand_queue, failures, nominations, moves, claims.open)
    # 4. Evict where policy allows.
    released = release.execute(session) if ActionName.RELEASE in config.actions else release.NOTHING
    recovered = recover.execute(session, member_losses)
    consolidated = consolidate.execute(session, outcome, nominations, moves)
    preempts = ActionName.PREEMPT in config.actions
    preempted = preempt.execute(session, outcome, nominations, moves) if preempts else preempt.NOTHING
    # 5. Say why, of all that was not placed.
    explained = verdicts.execute(session, outcome, protected=preempted.protected, notes=consolidated.notes)
    # 6. Close: decisions, reports, memory.
    result = close.execute(
        session,
        outcome=outcome,
        released=released,
        recovered=recovered,
        preempted=consolidated.beside(preempted),
        consolidated=consolidated,
        claims=capacity_holds_after(session, claims),
        failures=failures,
        explained=explained,
    )
    BETWEEN.sums.forget_unused()
    return result
