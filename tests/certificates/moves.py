"""The moves that docs/defragmentation.md describes, by trying every set of gangs.

Nothing of `phalanx` is imported here: these definitions check those of the product.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

from tests.certificates.cluster import Case, Gang, Pod, Situation
from tests.certificates.search import placements
from tests.certificates.terms import Step
from tests.certificates.victims import Unit


class Plans:
    """The sets of gangs that make a waiting gang fit if they are moved."""

    def __init__(self, case: Case, waiting: Gang) -> None:
        self._case = case
        self._waiting = (waiting, [pod for pod in case.pods if pod.gang == waiting.name])
        self.sets = [moved for moved in _some(case, waiting) if self._fits(moved)]

    def _fits(self, moved: Sequence[Unit]) -> bool:
        """Whether the waiting gang and the moved ones fit at the same time."""
        gone = {pod.name for unit in moved for pod in unit.pods}
        left = [one for one in Situation(self._case).located if one.pod.name not in gone]
        waiting = [self._waiting, *((unit.gang, list(unit.pods)) for unit in moved)]
        return _fit(Situation(self._case, left), waiting)


def _fit(before: Situation, waiting: Sequence[tuple[Gang, list[Pod]]]) -> bool:
    if not waiting:
        return True
    (gang, pods), *others = waiting
    step = Step(before, gang, pods, whole=True)
    return any(_fit(before.after(placed), others) for placed in placements(step))


def _some(case: Case, waiting: Gang) -> Iterator[tuple[Unit, ...]]:
    units = [
        Unit(gang, tuple(pod for pod in case.pods if pod.gang == gang.name), True)
        for gang in case.gangs
        if gang != waiting and gang.priority <= waiting.priority
    ]
    for count in range(len(units) + 1):
        yield from combinations(units, count)
