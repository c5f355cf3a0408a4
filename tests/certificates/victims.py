"""The choice of victims as docs/preemption.md defines it, by trying every set of victims.

Nothing of `phalanx` is imported here: these definitions check those of the product.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from msgspec import Struct

from tests.certificates.cluster import CPU, GPU, Case, Gang, Located, Pod, Situation
from tests.certificates.search import placements
from tests.certificates.terms import Step


class Unit(Struct, frozen=True):
    """Pods that are evicted together: a surplus member, or the rest of a gang after its surplus members."""

    gang: Gang
    pods: tuple[Pod, ...]
    is_rest: bool

    def cost(self, minutes: int) -> int:
        """Of the eviction of pods that have run for so many minutes."""
        return max(1, minutes) * sum(_size(pod) for pod in self.pods)


def _size(pod: Pod) -> int:
    amounts = dict(pod.kind.requests)
    return max(1, 8 * amounts.get(GPU, 0) + -(-amounts.get(CPU, 0) // 1000))


def cost_of(units: Iterable[Unit], minutes: int = 0) -> int:
    """The cost of a set of victims that have run for so many minutes."""
    return sum(unit.cost(minutes) for unit in units)


def losses_of(units: Sequence[Unit]) -> tuple[int, ...]:
    """What is compared: the loss of the highest priority first."""
    priorities = sorted({unit.gang.priority for unit in units}, reverse=True)
    costs = [(each, cost_of(unit for unit in units if unit.gang.priority == each)) for each in priorities]
    return tuple(amount for pair in costs for amount in pair)


def units_of(case: Case, waiting: Gang) -> list[Unit]:
    """What may be evicted for the waiting gang."""
    found = []
    for gang in case.gangs:
        members = [pod for pod in case.pods if pod.gang == gang.name and pod.node]
        if members and gang.priority < waiting.priority:
            found += [Unit(gang, (pod,), False) for pod in members[gang.min_member :]]
            found.append(Unit(gang, tuple(members[: gang.min_member]), True))
    return found


class Choices:
    """The sets of victims of the lowest sufficient priorities with which the gang fits."""

    def __init__(self, case: Case, waiting: Gang) -> None:
        self._before, self._waiting = Situation(case), waiting
        self._pods = [pod for pod in case.pods if pod.gang == waiting.name]
        units = units_of(case, waiting)
        self.sets: list[tuple[Unit, ...]] = []
        for top in sorted({unit.gang.priority for unit in units}):
            some = [unit for unit in units if unit.gang.priority <= top]
            self.sets = [chosen for chosen in _closed(some) if self.fits(chosen)]
            if self.sets:
                break

    def fits(self, victims: Sequence[Unit]) -> bool:
        """Whether the gang fits when the victims are gone."""
        gone = {pod.name for unit in victims for pod in unit.pods}
        left: list[Located] = [one for one in self._before.located if one.pod.name not in gone]
        step = Step(Situation(self._before.case, left), self._waiting, self._pods, whole=True)
        return any(True for _ in placements(step))


def _closed(units: Sequence[Unit]) -> Iterator[tuple[Unit, ...]]:
    """Every set of units in which the rest of a gang is evicted only with its surplus members."""
    for count in range(len(units) + 1):
        for chosen in combinations(units, count):
            rests = {unit.gang.name for unit in chosen if unit.is_rest}
            if all(unit in chosen for unit in units if unit.gang.name in rests):
                yield chosen
