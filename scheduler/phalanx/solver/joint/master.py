"""The two questions to the master: the most value, then, with the gangs fixed, the fewest regions."""

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct, structs
from ortools.sat.python import cp_model

from phalanx.limits import JOINT_CEILING_PART
from phalanx.solver.counting.exact import ROUNDING, one_worker
from phalanx.solver.joint.dealing import dealt
from phalanx.solver.joint.equals import earliest_first
from phalanx.solver.joint.master_model import Ground, Master
from phalanx.solver.joint.plan import Lesson, Plan, Share

Shares = Sequence[Sequence[Share]]


class Reply(Struct, frozen=True):
    """`plan` None when no plan reaches the floor, or none was found; `bound` holds in either case."""

    plan: Plan | None
    bound: int
    spent: float


def most_value(
    ground: Ground, lessons: Sequence[Lesson], *, floor: int, start: Shares, effort: float
) -> Reply:
    """The plan of the most value, at least `floor`.

    Most often the ceiling is reached, and a plan that reaches it is found sooner where nothing is optimised.
    """
    reply = _ask(ground, lessons, ground.ceiling, start, effort * JOINT_CEILING_PART, optimise=False)
    if reply.plan is not None:
        return reply
    rest = _ask(ground, lessons, floor, start, effort - reply.spent, optimise=True)
    return structs.replace(rest, spent=reply.spent + rest.spent)


def _ask(
    ground: Ground,
    lessons: Sequence[Lesson],
    floor: int,
    start: Shares,
    effort: float,
    *,
    optimise: bool,
) -> Reply:
    problem = ground.field.problem
    master = Master(ground, lessons)
    values = [gang.value for gang in problem.gangs]
    value = master.total(zip(values, master.admitted, strict=True), sum(values))
    master.cp.add_linear_constraint(value, floor, ground.ceiling)
    if optimise:
        _hint(master, start)
        master.cp.maximize(value)
    solver = one_worker(problem.seed, effort)
    status = solver.solve(master.cp)
    spent = solver.deterministic_time
    if status == cp_model.MODEL_INVALID:
        raise AssertionError(master.cp.validate())
    if status == cp_model.INFEASIBLE:
        return Reply(plan=None, bound=floor, spent=spent)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Reply(plan=None, bound=ground.ceiling, spent=spent)
    bound = math.floor(solver.best_objective_bound + ROUNDING) if optimise else ground.ceiling
    admitted = tuple(gang for gang, one in enumerate(master.admitted) if solver.value(one))
    reached = sum(values[gang] for gang in admitted)
    plan = Plan(admitted, reached, _shares(master, solver, admitted))
    return Reply(earliest_first(ground.field, plan), bound, spent)


def fewest_regions(
    ground: Ground, lessons: Sequence[Lesson], plan: Plan, *, effort: float
) -> tuple[Plan, float]:
    """The same gangs, those that may use several regions in as few as is found; and the effort spent."""
    master = Master(ground, lessons, plan.admitted)
    opened = _opened(master) if len(ground.field.regions) > 1 else []
    if not opened:
        return plan, 0.0
    master.cp.minimize(cp_model.LinearExpr.sum(opened))
    _hint(master, plan.shares)
    solver = one_worker(ground.field.problem.seed, effort)
    status = solver.solve(master.cp)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return plan, solver.deterministic_time
    return structs.replace(plan, shares=_shares(master, solver, plan.admitted)), solver.deterministic_time


def _opened(master: Master) -> list[cp_model.IntVar]:
    """Which regions each gang uses that may use several."""
    field, opened = master.field, []
    stream_of = {pieces[0]: stream for stream, pieces in enumerate(master.streams)}
    for pieces in field.pieces_of:
        if len(pieces) == 1 and field.confined(pieces[0]):
            continue
        streams = [stream_of[piece] for piece in pieces if piece in stream_of]
        size = int(field.wanted[list(pieces)].sum())
        for region in range(len(field.regions)):
            pods = [
                one for (stream, _, home), one in master.pods.items() if stream in streams and home == region
            ]
            inside = [master.inside[piece, region] for piece in pieces if (piece, region) in master.inside]
            if pods or inside:
                is_open = master.cp.new_bool_var("")
                opened.append(is_open)
                if pods:
                    master.cp.add(cp_model.LinearExpr.sum(pods) <= size * is_open)
                for one in inside:
                    master.cp.add_implication(one, is_open)
    return opened


def _hint(master: Master, shares: Shares) -> None:
    """The values that the variables have in this arrangement."""
    here = {(share.piece, region): share for region, each in enumerate(shares) for share in each}
    admitted = {master.field.pieces[piece].gang for piece, _ in here}
    for gang, one in enumerate(master.admitted):
        master.cp.add_hint(one, gang in admitted)
    for (piece, region), one in master.inside.items():
        master.cp.add_hint(one, (piece, region) in here)
    for (stream, kind, region), one in master.pods.items():
        parts = [here[piece, region] for piece in master.streams[stream] if (piece, region) in here]
        master.cp.add_hint(one, sum(part.counts[kind] for part in parts))
    for (piece, region), one in master.segments.items():
        count = sum(here[piece, region].counts) if (piece, region) in here else 0
        master.cp.add_hint(one, count // master.field.pieces[piece].segment)


def _shares(
    master: Master, solver: cp_model.CpSolver, admitted: Iterable[int]
) -> tuple[tuple[Share, ...], ...]:
    wanted, pieces = master.field.wanted, master.field.pieces
    shares: list[list[Share]] = [[] for _ in master.field.regions]
    for (piece, region), one in master.inside.items():
        if solver.value(one):
            shares[region].append(Share(piece, tuple(wanted[piece].tolist())))
    for stream, members in enumerate(master.streams):
        slots = [
            [
                solver.value(master.pods[stream, kind, region])
                if (stream, kind, region) in master.pods
                else 0
                for kind in range(wanted.shape[1])
            ]
            for region in range(len(master.field.regions))
        ]
        takers = {piece: wanted[piece].tolist() for piece in members if pieces[piece].gang in admitted}
        for region, share in dealt(slots, takers):
            shares[region].append(share)
    return tuple(tuple(sorted(each, key=lambda share: share.piece)) for each in shares)
