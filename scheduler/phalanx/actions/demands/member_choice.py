"""Choose other members or subgroups of a gang than the first ones, if those do not fit.

The first sufficient set of members may not fit although another one does. One solve for as many members as
possible, of which fewer may be placed, shows whether there may be one. Then the sets are tried in their
order. If none of the first ones fits, the largest number of members that fits decides.

If only some subgroups must start, the search adds one subgroup after the other and skips those that do not
fit, unless they must be near other pods, perhaps of a subgroup that is added later. If too few subgroups
remain, it removes the last one and continues. This is a depth-first search. It is complete up to its number
of attempts, since any other set that does not fit has no superset that fits. It may exceed the limits of the
cycle: a gang whose search was cut short in each cycle would never try its last choices, and would block later
gangs.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Final

from msgspec.structs import replace

from phalanx.actions.demands.demand import (
    Batch,
    Demand,
    MemberChoice,
    batches_of,
    has_required_affinity,
)
from phalanx.actions.demands.gang_demands import minimums_demand, start_demand
from phalanx.framework.member_sets import first_sufficient, next_sets
from phalanx.framework.minimum_members import first_members, is_enough, missing_besides
from phalanx.framework.vacancies import taking
from phalanx.model.gangs import Kind, ancestor_chains, kind_of
from phalanx.model.pods import Pod
from phalanx.solver.answer import Placed

SUBGROUP_CHOICES_MAX: Final = 32
"""Choices of subgroups to try if the first one does not fit. Each is a solve at most as large as the minimum
of the gang. A cycle may do that once beyond its limits of solves."""

MEMBER_CHOICES_MAX: Final = 32
"""Sets of members to try if the first one does not fit, each by a solve like that of the first one. One more
solve shows before whether enough members fit at all."""

MEMBER_CHOICES_OF_SUBGROUPS_MAX: Final = 4
"""Such sets for each choice of subgroups."""

MEMBER_SETS_STEPS_MAX: Final = 2048
"""Steps of the enumeration of such sets. Each takes about a tenth of a millisecond for a thousand members."""

Fits = Callable[[Demand], Placed | None]
"""The placement of as many pods of a demand as possible; None if not even its minimums fit."""

Start = tuple[Demand, Placed]


def start_with_others(demand: Demand, fits: Fits) -> Start | None:
    """A start with other members or subgroups that fit, and its placement; None if none is found."""
    if demand.choice is None or not demand.is_whole:
        return None
    if demand.choice.subgroups:
        return _with_other_subgroups(demand, demand.choice, fits)
    return _with_other_members(demand, demand.choice, fits, most=MEMBER_CHOICES_MAX)


def _with_other_subgroups(demand: Demand, choice: MemberChoice, fits: Fits) -> Start | None:
    names, least = choice.subgroups, demand.gang.min_subgroups
    chosen: list[int] = []
    index = attempts = 0
    while attempts < SUBGROUP_CHOICES_MAX:
        if len(chosen) + len(names) - index < least or index == len(names):
            if not chosen:
                return None
            index = chosen.pop() + 1
            continue
        attempts += 1
        some = [names[number] for number in (*chosen, index)]
        trial = start_demand(demand.gang, some, choice.members)
        start = _start(trial, fits) if trial is not None and trial.batches else None
        if start is not None:
            return start
        minimums = minimums_demand(demand.gang, some, choice.members)
        may_need_others = has_required_affinity(minimums)
        if not minimums.batches or may_need_others or _start(minimums, fits) is not None:
            chosen.append(index)
        index += 1
    return None


def _start(trial: Demand, fits: Fits) -> Start | None:
    """A start with the first sufficient set of members, else with another one."""
    answer = fits(trial)
    if answer is not None:
        return trial, answer
    if trial.choice is None:
        return None
    return _with_other_members(trial, trial.choice, fits, most=MEMBER_CHOICES_OF_SUBGROUPS_MAX)


# --- other members ----------------------------------------------------------------------------------------


def _with_other_members(demand: Demand, choice: MemberChoice, fits: Fits, *, most: int) -> Start | None:
    missing, parts = choice.missing, demand.gang.subgroups
    widest = _widest(demand, choice)
    answer = fits(widest)
    if answer is None or _most_that_fit(widest, answer) < missing.members:
        return None
    first = list(chain.from_iterable(batch.pods for batch in demand.batches))
    sets = next_sets(first, choice.members, missing, parts, steps=MEMBER_SETS_STEPS_MAX)
    tried: Iterable[Sequence[Pod]] = islice(sets, most)
    fitting = _placed_first(widest, answer)
    if is_enough(fitting, missing, parts):
        tried = chain(tried, [first_sufficient(fitting, missing, parts), fitting])
    for pods in tried:
        trial = replace(demand, batches=batches_of(demand.gang, pods, whole=True), choice=None)
        start = None if all(pod.is_placeholder for pod in pods) else fits(trial)
        if start is not None:
            return trial, start
    return None


def _widest(demand: Demand, choice: MemberChoice) -> Demand:
    """A demand for as many of the members as fit: one batch for each kind, with its least number."""
    kinds: dict[Kind, list[Pod]] = {}
    for pod in choice.members:
        kinds.setdefault(kind_of(pod), []).append(pod)
    least = _least_numbers(demand, choice, kinds)
    batches = (
        Batch(pods[0].role or pods[0].subgroup or "pod", tuple(pods), least[kind])
        for kind, pods in kinds.items()
    )
    return replace(demand, batches=tuple(batches), choice=None)


def _least_numbers(
    demand: Demand, choice: MemberChoice, kinds: Mapping[Kind, Sequence[Pod]]
) -> dict[Kind, int]:
    """How many pods of each kind every sufficient set has."""
    missing, around = choice.missing, ancestor_chains(demand.gang.subgroups)
    groups = [(missing.members, list(kinds))]
    groups += [(count, [kind for kind in kinds if kind[0] == role]) for role, count in missing.roles.items()]
    groups += [
        (count, [kind for kind in kinds if name in around.get(kind[1], ())])
        for name, count in missing.subgroups.items()
    ]
    least = dict.fromkeys(kinds, 0)
    for count, inside in groups:
        total = sum(len(kinds[kind]) for kind in inside)
        for kind in inside:
            least[kind] = max(least[kind], count - (total - len(kinds[kind])))
    return least


def _placed_first(demand: Demand, answer: Placed) -> list[Pod]:
    """For each batch, as many of its first pods as are placed."""
    counts: Counter[int] = Counter()
    for assignment in answer.assignments:
        counts[assignment.role] += assignment.count
    return [pod for number, batch in enumerate(demand.batches) for pod in batch.pods[: counts[number]]]


def _most_that_fit(demand: Demand, answer: Placed) -> int:
    """A proven upper bound on the pods of the demand that fit at once."""
    return demand.count - answer.certificate.bound[0]


# --- other members for a repair ---------------------------------------------------------------------------


def substitutes(demand: Demand, placed: Sequence[Pod], refused: Sequence[Pod]) -> Demand | None:
    """A demand for members that may replace lost ones as well as the first ones; None if there are none.

    `placed`: the members of this choice that have got nodes so far. `refused`: those that did not fit; other
    members of their kinds do not fit either. A refused member whose role or subgroup is needed keeps its
    place in the minimum.
    """
    choice, parts = demand.choice, demand.gang.subgroups
    if choice is None:
        return None
    kinds, there = {kind_of(pod) for pod in refused}, {pod.uid for pod in placed}
    others = [pod for pod in choice.members if pod.uid not in there and kind_of(pod) not in kinds]
    missing = missing_besides(placed, choice.missing, parts)
    if choice.places is not None:
        kinds_in_record = demand.gang.record_kinds
        others = taking([*placed, *others], kinds_in_record, choice.places)[len(placed) :]
    waiting = {pod.uid for pod in refused}
    pods = [pod for pod in first_members([*others, *refused], missing, parts) if pod.uid not in waiting]
    return replace(demand, batches=batches_of(demand.gang, pods, whole=False), choice=None) if pods else None
