"""How many pods of a demand fit at once: the number that the message of a refusal names.

The pods of the demand count, or any others that the gang may start with instead. Each kind of pods counts
with as many as fit under all rules, whatever the minimums are. So the number is the largest one that a lower
minimum could reach.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.demands.demand import Batch, Demand, batches_of
from phalanx.framework.minimum_members import MissingMembers, first_members, missing_besides
from phalanx.model.gangs import ancestor_chains
from phalanx.model.names import ShapeKey
from phalanx.model.pods import Pod
from phalanx.solver.infeasibility.largest_fit import LargestFit

FITTING_KINDS_MAX: Final = 64
"""Kinds of pods, of those that a gang may start with, of which an explanation counts how many fit; of a gang
that needs more pods, as many kinds. They are one solve: 64 kinds take about as long as the rest."""


class FittingPods(Struct, frozen=True):
    """Pods that fit at once, and how many are needed."""

    pods: tuple[Pod, ...]
    needed: int
    is_most: bool
    """Whether it is proven that no more of them fit at once."""

    @property
    def count(self) -> str:
        """Such as "7", or "at least 7" if more may fit."""
        return f"{'' if self.is_most else 'at least '}{len(self.pods)}"


def with_any_members(demand: Demand) -> Demand:
    """The demand for as many as possible of the pods that may start.

    Of each role, and of each outer subgroup, no more count than the minimums of the others allow.
    """
    choice = demand.choice
    if choice is None or choice.subgroups:
        batches = tuple(replace(batch, minimum=0) for batch in demand.batches)
    else:
        members = _useful(demand, choice.members, choice.missing)
        batches = batches_of(demand.gang, members, whole=False)
    return replace(demand, batches=batches, choice=None)


def _useful(demand: Demand, members: Sequence[Pod], missing: MissingMembers) -> list[Pod]:
    """The members without those that are too many beside the minimums of other roles and subgroups.

    Members of different shapes do not stand for each other: of each shape as many may be of use.
    """
    around = ancestor_chains(demand.gang.subgroups)
    parts = [part.name for part in demand.gang.subgroups if not part.parent]
    outer = {name: missing.subgroups.get(name, 0) for name in parts}
    seen: Counter[tuple[str, str, ShapeKey]] = Counter()
    found, kinds = [], _kinds_of(members, most=_most_kinds(demand))
    for pod in members:
        inside = next((name for name in around.get(pod.subgroup, ()) if name in outer), "")
        allowed = {
            ("role", pod.role, pod.shape.key): demand.count - _others(missing.roles, pod.role),
            ("subgroup", inside, pod.shape.key): demand.count - _others(outer, inside),
        }
        if pod.shape.key in kinds and all(seen[kind] < most for kind, most in allowed.items()):
            found.append(pod)
            seen.update(allowed.keys())
    return found


def _most_kinds(demand: Demand) -> int:
    """The demand itself may have as many kinds as pods."""
    return max(FITTING_KINDS_MAX, demand.count)


def _kinds_of(members: Sequence[Pod], *, most: int) -> frozenset[ShapeKey]:
    """The first shapes of the members."""
    return frozenset(list(dict.fromkeys(pod.shape.key for pod in members))[:most])


def _others(needed: Mapping[str, int], name: str) -> int:
    return sum(needed.values()) - needed.get(name, 0)


def fitting_pods(demand: Demand, wanted: Demand, found: LargestFit, *, is_exact: bool) -> FittingPods:
    """The pods of `wanted`, as `with_any_members` makes it of the demand, that `found` places.

    `is_exact`: whether the problem counts no pod too few. The demand does not fit, so one pod does not.
    """
    placed, choice = placed_pods(wanted.batches, found.counts), demand.choice
    most = demand.count - 1
    useful = placed[:most]
    if choice is not None and not choice.subgroups:
        parts, there = demand.gang.subgroups, {pod.uid for pod in placed}
        others = [pod for pod in choice.members if pod.uid not in there]
        lacking = len(first_members(others, missing_besides(placed, choice.missing, parts), parts))
        useful = first_members(placed, choice.missing, parts)[: max(0, min(most, demand.count - lacking))]
        is_exact = is_exact and len({pod.shape.key for pod in choice.members}) <= _most_kinds(demand)
    is_most = len(useful) == most or (is_exact and found.proven and len(useful) == len(placed))
    return FittingPods(tuple(useful), demand.count, is_most)


def placed_pods(batches: Sequence[Batch], counts: Iterable[int]) -> list[Pod]:
    """So many pods of each batch, of all of its roles."""
    pairs = zip(batches, counts, strict=True)
    return [pod for batch, count in pairs for pod in _some_of_each_role(batch.pods)[:count]]


def _some_of_each_role(pods: Sequence[Pod]) -> list[Pod]:
    """The first pod of each role, then the second ones, and so on."""
    seen: Counter[str] = Counter()
    ordered: list[tuple[int, Pod]] = []
    for pod in pods:
        ordered.append((seen[pod.role], pod))
        seen[pod.role] += 1
    return [pod for _, pod in sorted(ordered, key=itemgetter(0))]
