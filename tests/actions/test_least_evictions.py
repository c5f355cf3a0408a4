"""What victims must free: what the gang takes beyond a share, as if starts that are given up never were."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from random import Random
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st
from phalanx.actions.preemption.least_evictions import LeastEvictions, least_evictions
from phalanx.actions.preemption.victims import Victim
from phalanx.framework.evictions import Beneficiary
from phalanx.framework.session import Session
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId
from phalanx.model.resources import GPU, Resources

from tests.builders import Scenario
from tests.examples import holds

GANGS = Scenario().gang("a", 1, queue="a").gang("b", 1, queue="b").snapshot().gangs


def gang_of(queue: str) -> Gang:
    return GANGS[GangId(f"gang-{queue}")]


class OneQueue:
    """A session in which queue a has a share of GPUs that others lack, and uses some."""

    def __init__(self, used: int, share: int) -> None:
        self.hooks = self
        self.used = used
        self._share = share

    def least_evictions(self, beneficiary: Beneficiary) -> Resources:
        asked = beneficiary.requested[GPU]
        beyond = self.used + asked - self._share
        return {GPU: min(asked, beyond)} if beyond > 0 else {}

    @contextmanager
    def statement(self) -> Iterator["OneQueue"]:
        self._before = self.used
        yield self

    def assume_ended(self, *, queue: str, used: object, booked: Resources, gone: object) -> None:
        self.used -= booked[GPU] if queue == "a" else 0

    def roll_back(self) -> None:
        self.used = self._before


def victim(gpus: int, *, is_start: bool, queue: str = "a") -> Victim:
    amounts: Any = {GPU: gpus}
    return Victim(gang_of(queue), (), True, 1, {}, amounts, amounts, is_start=is_start)


def bound(victims: Sequence[Victim], asked: int, cluster: OneQueue) -> LeastEvictions:
    beneficiary = Beneficiary(gang_of("a"), {GPU: asked})
    least = cluster.least_evictions(beneficiary)
    return least_evictions(victims, least, beneficiary, cast("Session", cluster))


@given(st.randoms(use_true_random=False))
@holds(200)
def test_a_start_that_is_given_up_beside_evictions_was_never_there(chance: Random) -> None:
    """Each choice that is accepted frees enough; one that gives all starts of the queue up needs no more."""
    runs = [victim(chance.randint(1, 3), is_start=False) for _ in range(chance.randint(1, 3))]
    starts = [victim(chance.randint(1, 3), is_start=True) for _ in range(chance.randint(1, 3))]
    runs += [victim(chance.randint(1, 3), is_start=False, queue="b")]
    others = [victim(chance.randint(1, 3), is_start=True, queue="b") for _ in range(chance.randint(0, 2))]
    asked, share = chance.randint(1, 6), chance.randint(0, 12)
    ran = gpus(each for each in runs if each.queue == "a") + chance.randint(0, 2)
    cluster = OneQueue(ran + gpus(starts), share)
    least = bound([*starts, *others, *runs], asked, cluster)
    assert cluster.used == ran + gpus(starts)
    for evicted in subsets(runs):
        for given_up in subsets(starts):
            left = gpus(starts) - gpus(given_up)
            needed = min(asked, ran + left + asked - share)
            is_reached = least.are_reached([*evicted, *given_up, *others])
            assert not is_reached or gpus(evicted) >= needed
            if len(given_up) == len(starts):
                assert is_reached or gpus(evicted) < needed


def test_starts_count_like_running_gangs_where_nothing_is_evicted() -> None:
    """The queue is beyond its share of 1 by its starts; 2 GPUs of them are enough for a gang of 2."""
    starts = [victim(2, is_start=True), victim(2, is_start=True)]
    least = bound(starts, 2, OneQueue(4, share=1))
    assert (least.are_reached(starts[:1]), least.are_reached([])) == (True, False)


def test_no_more_starts_are_given_up_than_the_share_demands() -> None:
    """Without the 4 starts the queue would use 1 GPU of its share of 5: 2 of them are enough."""
    starts = [victim(1, is_start=True) for _ in range(4)]
    least = bound([*starts, victim(1, is_start=False)], 2, OneQueue(5, share=5))
    assert (least.are_reached(starts[:2]), least.are_reached(starts[:1])) == (True, False)


def gpus(victims: Any) -> int:
    return sum(each.total[GPU] for each in victims)


def subsets(victims: Sequence[Victim]) -> Iterator[Sequence[Victim]]:
    for count in range(len(victims) + 1):
        yield from combinations(victims, count)
